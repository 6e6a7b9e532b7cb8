"""A thread over HTTP: its run is its sender's, and an approval of others is no interrupt."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from holdfast.schemas import names
from holdfast.schemas.settings.inbox import PermissionRule
from holdfast.web.auth.permissions import Permissions
from tests.client.test_live_queries import Queries
from tests.support import tools
from tests.support.backend import Backend, Run, backend
from tests.support.eventually import eventually
from tests.support.inbox import Stage, inbox, sent
from tests.support.model_server import Answer, call
from tests.web.mcp.conftest import SPEND

pytestmark = pytest.mark.usefixtures("ledger")

CLERK = "instructions: Pay.\nmodel: {endpoint: fake, name: fake}\ntools: [spend]\n"
PAYS = [Answer(calls=[call("spend", amount=5)]), Answer("Paid."), Answer("Bye.")]


@pytest.fixture
async def desk(client: Client, tmp_path: Path) -> AsyncIterator[Backend]:
    """A worker whose agent asks the group finance before it pays."""
    for name, text in (("agents/clerk", CLERK), ("tools/spend", SPEND)):
        (tmp_path / name).parent.mkdir()
        (tmp_path / f"{name}.yaml").write_text(text)
    async with backend(client, tmp_path, PAYS, catalog=tmp_path, cached_runs=100) as made:
        yield made


async def stream(
    stage: Stage, desk: Backend, *said: str, **more: Any
) -> AsyncIterator[dict[str, Any]]:
    """The events of one run of a thread, as they come."""
    messages = [{"id": text, "role": "user", "content": text} for text in said]
    body = {"threadId": desk.task_queue, "runId": "1", "messages": messages, **more}
    path, token = f"/agui/clerk?taskQueue={desk.task_queue}", {"x-form-token": stage.form_token}
    async with stage.http.stream("POST", path, json=body, headers=token) as answer:
        assert answer.status_code == 200, await answer.aread()
        async for each in sent(answer):
            if each.data:
                yield each.data


async def talk(stage: Stage, desk: Backend, *said: str, **more: Any) -> list[dict[str, Any]]:
    """All events of one run of a thread."""
    return [event async for event in stream(stage, desk, *said, **more)]


async def runs(desk: Backend) -> list[Run]:
    found = desk.client.list_workflows(f"TaskQueue = '{desk.task_queue}'")
    return [Run(desk.client.get_workflow_handle(each.id), desk.client) async for each in found]


async def started(desk: Backend) -> Run:
    """The run of the thread, once the server lists it."""

    async def first() -> Run | None:
        return next(iter(await runs(desk)), None)

    return await eventually(first)


async def test_a_thread_waits_for_an_approval_of_others_and_is_its_senders(
    client: Client, desk: Backend
) -> None:
    async with inbox(client) as ann, inbox(client, by="bob", groups=["finance"]) as bob:
        talking = asyncio.create_task(talk(ann, desk, "Pay."))
        run = await started(desk)
        [waiting] = await run.waiting()
        await run.decide("t1c1", "approve", by="bob", groups=["finance"])
        paid = await talking
        # The same request again starts and sends nothing; a new message is read once.
        again = await talk(ann, desk, "Pay.")
        await talk(ann, desk, "Pay.", "Thanks.")
        thanked = await talk(ann, desk, "Pay.", "Thanks.")
        other = await talk(bob, desk, "Pay.")

    assert waiting["approvers"] == ["finance"]
    assert (paid[-1]["type"], paid[-1]["outcome"]) == ("RUN_FINISHED", {"type": "success"})
    assert again[1]["messages"] == paid[-2]["messages"]
    texts = [each.get("content") for each in thanked[-2]["messages"] if each["role"] != "tool"]
    assert texts == ["Pay.", None, "Paid.", "Thanks.", "Bye."]
    assert other[-1]["outcome"]["interrupts"][0]["toolCallId"] == "t1c1"
    assert len(await runs(desk)) == 2


async def test_no_message_is_taken_for_the_decision_of_another(
    client: Client, desk: Backend
) -> None:
    """Temporal takes each id of an update once, whatever its name."""
    async with inbox(client) as ann:
        talking = asyncio.create_task(talk(ann, desk, "Pay."))
        run = await started(desk)
        await run.waiting()
        more = asyncio.create_task(talk(ann, desk, "Pay.", "decision-of-bob"))

        async def is_queued() -> bool:
            return bool((await run.status())["queued"])

        await eventually(is_queued)
        decision = {"callId": "t1c1", "decision": "approve", "by": "bob", "groups": ["finance"]}
        receipt = await run.handle.execute_update("decide", decision, id="decision-of-bob")
        assert receipt["decided"]
        await asyncio.gather(talking, more)


async def test_a_cancelled_run_ends_the_stream_and_its_turn(client: Client, desk: Backend) -> None:
    own = PermissionRule(agents=["clerk"], principals=["own"], may=["read", "message"])
    async with inbox(client, permissions=Permissions([own])) as stage:
        events = []
        async for event in stream(stage, desk, "Pay."):
            events.append(event)
            if event["type"] == "STEP_STARTED":
                run = await started(desk)
                await run.waiting()
                await run.handle.cancel()

    types = [event["type"] for event in events]
    assert types.count("STEP_STARTED") == types.count("STEP_FINISHED") == 1
    assert events[-1]["outcome"] == {"type": "cancelled"}


async def test_a_thread_that_has_ended_takes_no_message(client: Client, desk: Backend) -> None:
    queries = Queries()
    watching = Client(**(client.config() | {"interceptors": [queries]}))
    async with inbox(watching, groups=["finance"]) as stage:
        asked = await talk(stage, desk, "Pay.")
        run = await started(desk)
        await run.handle.signal("close")
        [interrupt] = asked[-1]["outcome"]["interrupts"]
        answer = {"interruptId": interrupt["id"], "status": "resolved", "payload": False}
        denied = await talk(stage, desk, "Pay.", resume=[answer])
        await run.result()
        again = await talk(stage, desk, "Pay.")
        late = await talk(stage, desk, "Pay.", "Thanks.")

    assert denied[-1] == again[-1]
    assert (again[-1]["type"], again[-1]["result"]) == ("RUN_FINISHED", "Paid.")
    assert again[1]["messages"][-1]["content"] == "Paid."
    assert late[-1]["code"] == "ended"
    # Each step is read once, from the log.
    assert names.CONTEXT in queries.names
    assert names.EVENTS not in queries.names


async def test_a_message_without_an_answer_and_a_used_up_run_end_in_an_error(
    client: Client, tmp_path: Path
) -> None:
    (tmp_path / "agents").mkdir()
    budget = "budget: {maxTurns: 4, perMessage: {maxTurns: 1}, total: {maxTurns: 3}}\n"
    (tmp_path / "agents" / "clerk.yaml").write_text(CLERK.replace("spend", "echo") + budget)
    answers = [Answer("One."), Answer(calls=[call("echo", text="a")]), Answer("Three.")]
    async with (
        backend(client, tmp_path, answers, catalog=tmp_path, cached_runs=100) as desk,
        inbox(client) as stage,
    ):
        said = ("n1", "turn-1", "c", "d")  # as texts, and as ids of the client's own
        ends = [(await talk(stage, desk, *said[:n]))[-1] for n in (1, 2, 2, 3, 4)]

    assert [end["type"] for end in ends] == [
        *("RUN_FINISHED", "RUN_ERROR", "RUN_ERROR"),
        *("RUN_FINISHED", "RUN_ERROR"),
    ]
    assert {end["code"] for end in ends if "code" in end} == {"budget_exceeded"}
    assert "maxTurns (1) of this message is used up" in ends[2]["message"]
    assert ends[-1]["message"] == "the budget maxTurns is used up"


async def test_a_yes_runs_no_call_again_whose_outcome_is_unknown(
    client: Client, tmp_path: Path
) -> None:
    """A client with buttons for yes and no may not know what it asks."""
    unsure = "_activity: unsure\n_sideEffects: true\n_approval: {require: never}\n"
    for name, text in (("agents/clerk", CLERK), ("tools/spend", unsure)):
        (tmp_path / name).parent.mkdir()
        (tmp_path / f"{name}.yaml").write_text(text)
    answers = [Answer(calls=[call("spend")]), Answer("Paid.")]
    async with (
        backend(client, tmp_path, answers, catalog=tmp_path, cached_runs=100) as desk,
        inbox(client) as stage,
    ):
        [interrupt] = (await talk(stage, desk, "Pay."))[-1]["outcome"]["interrupts"]
        assert interrupt["message"].startswith("Attempt 1, outcome unknown: ")
        answer = {"interruptId": interrupt["id"], "status": "resolved"}
        yes = await talk(stage, desk, "Pay.", resume=[{**answer, "payload": {"approved": True}}])
        assert (yes[-1]["code"], len(tools.read())) == ("invalid_decision", 1)
        again = {**answer, "payload": {"decision": "did_not_happen"}}
        [second] = (await talk(stage, desk, "Pay.", resume=[again]))[-1]["outcome"]["interrupts"]
        assert second["message"].startswith("Attempt 2, outcome unknown: ")
        late = await talk(stage, desk, "Pay.", resume=[again])
        assert late[-1]["outcome"]["interrupts"][0]["id"] == second["id"]
        assert tools.read() == ["unsure"] * 2
        given_up = {"interruptId": second["id"], "payload": {"decision": "give_up"}}
        await talk(stage, desk, "Pay.", resume=[{**answer, **given_up}])
        await (await started(desk)).handle.signal("close")


async def test_what_is_wrong_is_a_problem_or_the_last_event(client: Client, desk: Backend) -> None:
    async with inbox(client) as stage:
        empty = await talk(stage, desk)
        unfit = await stage.send("/agui/clerk", {"threadId": "t", "runId": "1", "messages": "x"})
        unknown = await stage.send(
            f"/agui/nobody?taskQueue={desk.task_queue}",
            {"threadId": "t", "runId": "1", "messages": [{"id": "1", "role": "user"}]},
        )
        wrong = await stage.send(
            "/agui/clerk?taskQueue=",
            {"threadId": "t", "runId": "1", "messages": [{"id": "1", "role": "user"}]},
        )

    assert '"code": "invalid_request", "message": "That is no thread: `taskQueue`' in wrong.text
    assert [event["type"] for event in empty] == ["RUN_STARTED", "RUN_ERROR"]
    assert empty[-1]["code"] == "no_such_run"
    assert (unfit.status_code, unfit.json()["code"]) == (422, "invalid_request")
    assert '"type": "RUN_ERROR", "code": "invalid_request"' in unknown.text
