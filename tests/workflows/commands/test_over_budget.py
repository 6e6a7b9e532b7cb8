"""Budgets that runs share, on a server: what becomes of a request that does not fit."""

import uuid
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowHandle, WorkflowUpdateFailedError
from temporalio.service import RPCError

from holdfast.schemas.names import BUDGET_WORKFLOW
from holdfast.schemas.settings.budgets import SharedBudget
from tests.support.backend import SIDE_BY_SIDE, Backend, Launch, Run
from tests.support.eventually import eventually
from tests.support.identity.signing import Approver, write_keys
from tests.support.model_server import MANY, Answer, call

STARTED = EventType.EVENT_TYPE_TIMER_STARTED
FIFTY = (40, 10)
LOOK = Answer(calls=[call("look_up", id="7")], usage=FIFTY)
ASK = {
    "_tool": "ask",
    "description": "Have it done.",
    "_delegate": "anonymous",
    "_output": {"type": "object", "properties": {"said": {"type": "string"}}},
}
TURNS = [LOOK, LOOK, LOOK, Answer("Done.", usage=FIFTY)]


def budget(**fields: Any) -> SharedBudget:
    """A budget with a name of its own: what it counts stays on the server."""
    own = {"name": f"b{uuid.uuid4().hex[:8]}", "per": "all", "window": "month", "reserve": 60}
    return SharedBudget.model_validate({**own, **fields}, by_name=True)


async def start(
    launch: Launch, own: SharedBudget, answers: Any = TURNS, **settings: Any
) -> Backend:
    return await launch(answers, budgets=[own], **SIDE_BY_SIDE, **settings)


async def uses(client: Client, own: SharedBudget, scope: str = "all") -> dict[str, float]:
    """What is used of each limit, once nothing is reserved."""
    prefix = f"holdfast-budget/{own.name}/{scope}/"

    async def settled() -> dict[str, float] | None:
        async for each in client.list_workflows(f'WorkflowType = "{BUDGET_WORKFLOW}"'):
            if each.id.startswith(prefix):
                view = await client.get_workflow_handle(each.id).query("read")
                if not any(use.get("reserved") for use in view["uses"]):
                    return {use["limit"]: use["used"] for use in view["uses"]}
        return None

    return await eventually(settled)


async def notices(run: Run) -> list[str]:
    return [each["text"] for each in await run.context() if each["type"] == "notice"]


async def test_a_run_that_reaches_it_answers_in_one_more_request(launch: Launch) -> None:
    own = budget(max_tokens=130)
    backend = await start(launch, own, [LOOK, LOOK, Answer("So far: 7.", usage=FIFTY)])
    run = await backend.start(["look_up"])
    result = await run.result()

    assert (result["status"], result["output"], result["turns"]) == ("completed", "So far: 7.", 3)
    assert await notices(run) == [
        f"the budget {own.name} of all is nearly used up: maxTokens",
        f"the budget {own.name} (maxTokens: 100 of 130, all) is used up",
    ]
    assert await uses(backend.client, own) == {"maxTokens": 150}


async def test_a_run_without_an_answer_has_nothing_to_finish(launch: Launch) -> None:
    own = budget(max_runs=1)
    backend = await start(launch, own, [Answer("Done.")])
    assert (await (await backend.start()).result())["status"] == "completed"

    result = await (await backend.start()).result()

    assert (result["status"], result["turns"]) == ("budget_exceeded", 0)
    assert result["reason"] == f"the budget {own.name} (maxRuns: 1 of 1, all) is used up"
    assert len(backend.model.requests) == 1


async def test_a_run_fails_at_it(launch: Launch) -> None:
    own = budget(max_tokens=100, on_limit="fail")
    backend = await start(launch, own)
    result = await (await backend.start(["look_up"])).result()
    assert (result["status"], result["turns"]) == ("budget_exceeded", 1)
    assert len(backend.model.requests) == 1


async def test_people_let_one_request_exceed_it(launch: Launch) -> None:
    own = budget(max_tokens=100, on_limit="ask", approvers=["finance"])
    backend = await start(launch, own, [LOOK, LOOK, Answer("Done.", usage=FIFTY)])
    run = await backend.start(["look_up"])
    [asked] = await run.waiting()
    assert (asked["kind"], asked["approvers"]) == ("budget", ["finance"])
    assert asked["arguments"] == {"maxTokens": 100}
    await run.decide(asked["callId"], "approve", by="ann", groups=["finance"])
    [again] = await run.waiting()
    assert again["callId"] != asked["callId"]

    await run.decide(again["callId"], "deny", by="ann", groups=["finance"])

    assert (await run.result())["status"] == "budget_exceeded"
    assert len(backend.model.requests) == 2
    assert await uses(backend.client, own) == {"maxTokens": 100}


async def test_a_message_whose_first_request_does_not_fit_gets_no_answer(launch: Launch) -> None:
    own = budget(max_tokens=100)
    backend = await start(launch, own, [Answer("Hello.", usage=FIFTY)])
    run = await backend.start(conversation=True)
    await run.idle()
    for _ in range(2):
        with pytest.raises(WorkflowUpdateFailedError) as failed:
            await run.handle.execute_update("send", "And now?")
        assert str(failed.value.cause) == (
            f"budget_exceeded: the budget {own.name} (maxTokens: 50 of 100, all) is used up; send"
            " the next message later"
        )
    await run.handle.signal("close")
    assert (await run.result())["status"] == "budget_exceeded"
    assert await uses(backend.client, own) == {"maxTokens": 50}


async def test_a_team_that_a_caller_writes_is_no_team(launch: Launch) -> None:
    own = budget(per="team", max_tokens=100, on_limit="fail")
    backend = await start(launch, own, [Answer("Done.", usage=FIFTY)])
    for team in ("red", "blue"):
        run = await backend.start(principal={"id": "ann", "team": team})
        status = (await run.result())["status"]
    assert status == "budget_exceeded"
    assert await uses(backend.client, own, "unassigned") == {"maxTokens": 50}


async def test_scopes_of_tokens_are_counted_apart_and_delegates_in_those_of_their_parent(
    launch: Launch, tmp_path: Path
) -> None:
    ann = Approver("ann")
    write_keys(tmp_path / "people.json", ann)
    keys = tmp_path / "keys.yaml"
    keys.write_text("people: {file: people.json, for: [principals], team: department}\n")
    teams, people = budget(per="team", max_tokens=100), budget(per="principal", max_tokens=1_000)
    main = [Answer(calls=[call("ask")], usage=FIFTY), Answer("thanks", usage=FIFTY)]

    def answer(turn: int, body: dict[str, Any]) -> Answer:
        return main[turn - 1] if "tools" in body else Answer('{"said": "done"}', usage=FIFTY)

    strict = {"keys": str(keys), "principal_tokens": True, **SIDE_BY_SIDE}
    backend = await launch(answer, budgets=[teams, people], **strict)
    for team in ({"department": "red"}, {}):
        run = await backend.start([ASK], principal={"token": ann.principal(**team)})
        await run.result()

    # The delegate's request does not fit, and the last one is to finish.
    for scope in ("red", "unassigned"):
        assert await uses(backend.client, teams, scope) == {"maxTokens": 100}
    assert await uses(backend.client, people, "ada") == {"maxTokens": 200}


async def test_agents_of_requests_share_one_scope(launch: Launch) -> None:
    own = budget(per="agent", max_tokens=100, on_limit="fail")
    backend = await start(launch, own, [Answer("Done.", usage=FIFTY)])
    results = [await (await backend.start(agent={"name": each})).result() for each in ("a", "b")]
    assert [each["status"] for each in results] == ["completed", "budget_exceeded"]
    assert await uses(backend.client, own, "inline") == {"maxTokens": 50}


async def test_an_agent_of_a_request_takes_no_name_by_continuing_as_new(launch: Launch) -> None:
    own = budget(per="agent", max_tokens=1_000)
    backend = await start(launch, own, [*[LOOK] * 5, Answer("Done.")], continue_after=10)
    run = await backend.start(["look_up"], agent={"name": "desk", **MANY})
    await run.result()
    assert (await run.handle.describe()).run_id != run.handle.first_execution_run_id
    assert await uses(backend.client, own, "inline") == {"maxTokens": 265}


async def test_a_request_that_a_model_refuses_costs_nothing(launch: Launch) -> None:
    own = budget(max_tokens=100)
    refuses = [True, True]

    def answer(_: int, __: Any) -> Answer:
        return Answer(status=503) if refuses and refuses.pop() else Answer("Done.", usage=FIFTY)

    backend = await start(launch, own, answer)
    assert (await (await backend.start()).result())["output"] == "Done."
    assert await uses(backend.client, own) == {"maxTokens": 50}


async def test_a_count_refuses_what_is_no_update_of_it(launch: Launch) -> None:
    own = budget(max_tokens=1_000)
    backend = await start(launch, own, [Answer("Done.", usage=FIFTY)])
    await (await backend.start()).result()
    before = await uses(backend.client, own)
    found = [
        each
        async for each in backend.client.list_workflows(f'WorkflowType = "{BUDGET_WORKFLOW}"')
        if own.name in each.id
    ]
    handle = backend.client.get_workflow_handle(found[0].id)
    with pytest.raises(Exception, match="Workflow update failed"):
        await handle.execute_update("reserve", {"reserve": "all"})
    await handle.signal("settle", "all of it")
    assert await uses(backend.client, own) == before == {"maxTokens": 50}


async def test_a_count_continues_as_new_and_ends_an_hour_after_its_window(
    client: Client, launch: Launch
) -> None:
    queue = (await launch([Answer("Done.")])).task_queue
    now = datetime.now(UTC)

    async def begin(ends_at: datetime) -> WorkflowHandle[Any, Any]:
        id = f"b-{uuid.uuid4().hex}"
        state: dict[str, Any] = {
            "name": "b",
            "scope": "all",
            "window": "w",
            "endsAt": ends_at.isoformat(),
        }
        state |= {"updatesARun": 2}
        return await client.start_workflow(BUDGET_WORKFLOW, state, id=id, task_queue=queue)

    count = await begin(now + timedelta(hours=1))
    update: dict[str, Any] = {"limits": {"maxTokens": 250}}
    for n in range(6):
        # What continues as new accepts no update for a moment.
        wanted = {**update, "reserve": [{"key": f"k{n % 3}", "run": "r", "tokens": 100}]}

        async def reserves(wanted: dict[str, Any] = wanted) -> dict[str, Any] | None:
            with suppress(WorkflowUpdateFailedError, RPCError):
                return dict(await count.execute_update("reserve", wanted))
            return None

        receipt = await eventually(reserves)
        assert ("refused" in receipt) is (n % 3 == 2)
    assert (await count.describe()).run_id != count.first_execution_run_id
    await count.terminate()

    ended = await begin(now - timedelta(hours=1))
    assert (await ended.result())["window"] == "w"

    async def timers_of(run: WorkflowHandle[Any, Any]) -> list[HistoryEvent]:
        return [each async for each in run.fetch_history_events() if each.event_type == STARTED]

    # A window that ends later by another file is counted until then.
    async def extended() -> tuple[WorkflowHandle[Any, Any], str] | None:
        ends_at = datetime.now(UTC) - timedelta(hours=1) + timedelta(seconds=2)
        longer, later = await begin(ends_at), (ends_at + timedelta(seconds=1)).isoformat()
        await eventually(partial(timers_of, longer))  # it waits for the first end
        with suppress(WorkflowUpdateFailedError, RPCError):  # it has ended before
            await longer.execute_update("reserve", update | {"endsAt": later})
            return longer, later
        return None

    longer, later = await eventually(extended)
    shown = datetime.fromisoformat((await longer.result())["endsAt"])
    assert shown == datetime.fromisoformat(later)
    assert len(await timers_of(longer)) == 2


async def test_only_a_reservation_starts_a_budget(client: Client, launch: Launch) -> None:
    backend = await launch([Answer("Done.")])
    handle = await client.start_workflow(
        BUDGET_WORKFLOW, "give me more", id=f"b-{uuid.uuid4().hex}", task_queue=backend.task_queue
    )
    with pytest.raises(Exception, match="Workflow execution failed"):
        await handle.result()


async def test_calls_of_a_tool_are_counted_of_all_runs_with_a_model_or_without(
    launch: Launch,
) -> None:
    own = budget(max_calls={"look_up": 2})
    backend = await start(launch, own, [LOOK, Answer("Done.")])
    for _ in range(2):
        await (await backend.start(["look_up"])).result()
    run = await backend.start(["look_up"])
    assert (await run.result())["status"] == "completed"
    assert (await run.error()) == {
        "code": "blocked",
        "message": f"`look_up` was not run: the budget {own.name} (maxCalls.look_up: 2 of 2, all)"
        " is used up",
    }
    alone = await backend.call("look_up", {"id": "7"})
    assert (await alone.failure()).type == "blocked"
    assert await uses(backend.client, own) == {"maxCalls.look_up": 2}
