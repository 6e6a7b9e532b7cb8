"""Calls of MCP servers that require a person's input: pending as long as it takes, made once."""

import os
import signal
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from temporalio.client import Client, WorkflowFailureError, WorkflowUpdateFailedError

from holdfast.activities.mcp.held_calls import HeldCalls
from holdfast.schemas.internal.mcp_input import McpTask
from holdfast.workflows.commands.mcp_tasks import pause_before
from tests.activities.mcp.conftest import Open
from tests.activities.mcp.servers import airline
from tests.encryption.keys import OLD, key_file
from tests.support.backend import Backend, Run
from tests.support.eventually import eventually
from tests.support.model_server import Answer, call
from tests.support.process import WorkerProcess

FREE = {"_approval": {"require": "never"}}
STDIO: dict[str, Any] = {
    "command": sys.executable,
    "args": [airline.__file__],
    "envFrom": [airline.LEDGER],
    "overrides": {
        **dict.fromkeys(("book", "book_within", "upgrade", "log_in", "fly"), FREE),
        "pid": {"_sideEffects": False},
        "book_twice": {**FREE, "_idempotent": True},
    },
}


@pytest.fixture(scope="module", autouse=True)
def ledger(folder: Path) -> Any:
    """The server's ledger."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(airline.LEDGER, str(folder / "flights"))
        yield


@pytest.fixture(scope="module")
async def home(open_worker: Open, folder: Path) -> AsyncIterator[Backend]:
    """A worker with the program `airline.py`, and with permits."""
    async with open_worker(STDIO, permits=key_file(folder, [OLD])) as made:
        yield made


async def test_a_form_is_answered_once_by_a_person(home: Backend) -> None:
    run = await home.call("mcp:shop/book", {"flight": "LH1"})
    [pending] = await run.waiting()
    assert (pending["kind"], pending["arguments"]) == ("input", {"flight": "LH1"})
    assert pending["question"] == (
        "MCP server `shop` requires input to continue `shop_book`:"
        " \"Which seat in LH1? 'approve' it.\". `respond` takes the answer as `result`, such as"
        ' {"seat": "A"}; `deny` ends the call.'
    )
    assert pending["form"]["properties"] == {"seat": airline.SEAT}
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await run.decide("t1c1", "respond", result={"seat": "X"})
    assert "does not fit the server's form" in str(refused.value.cause)
    await run.decide("t1c1", "respond", result={"seat": "W"}, digest=pending["digest"])
    assert (await run.result())["output"] == "LH1 W"
    assert airline.effects().count("LH1 W") == 1


async def test_each_round_is_a_question_of_its_own(home: Backend) -> None:
    run = await home.call("mcp:shop/upgrade")
    [first] = await run.waiting()
    await run.decide("t1c1", "respond", result={"row": 3})

    [second] = await run.waiting()
    assert second["digest"] != first["digest"]
    assert 'the host pay.example, https://pay.example/7: "Pay there."' in second["question"]
    result = {"sure": {"sure": True}, "pay": None}
    with pytest.raises(WorkflowUpdateFailedError):
        await run.decide("t1c1", "respond", result=result)
    await run.decide("t1c1", "respond", result=result, digest=second["digest"])
    assert (await run.result())["output"] == "row 3 True {}"


async def test_a_form_that_asks_for_a_secret_is_refused_by_name(home: Backend) -> None:
    message = (await (await home.call("mcp:shop/log_in")).failure()).message
    assert "MCP server `shop`, tool `log_in`: field `apiKey` requires a secret" in message


async def answers(run: Run, seat: str) -> None:
    """Answer the form that is open now."""
    [pending] = await run.waiting()
    await run.decide("t1c1", "respond", result={"seat": seat}, digest=pending["digest"])


async def test_a_server_that_was_killed_continues_the_call_after_its_restart(home: Backend) -> None:
    run = await home.call("mcp:shop/book", {"flight": "LH2"})
    await run.waiting()
    await restarted(home)
    await answers(run, "A")
    assert (await run.result())["output"] == "LH2 A"
    assert airline.effects().count("LH2 A") == 1


async def pid(home: Backend) -> int:
    """The process of the server."""
    return int((await (await home.call("mcp:shop/pid")).result())["output"])


async def restarted(home: Backend) -> None:
    """Kill the server, and wait until the worker has started it again."""
    first = await pid(home)
    os.kill(first, signal.SIGKILL)

    async def is_another() -> bool:
        return await pid(home) != first

    await eventually(is_another)


async def test_a_continued_call_whose_reply_got_lost_has_an_unknown_outcome(home: Backend) -> None:
    run = await home.call("mcp:shop/book", {"flight": "LH3"})
    await run.waiting()
    airline.held().touch()
    await answers(run, "A")
    os.kill(await continuing("LH3 A"), signal.SIGKILL)
    await made_again(run, "LH3")


async def continuing(effect: str) -> int:
    """The process of the server that is about to have an effect."""

    async def process() -> int | None:
        found, _, text = airline.held().read_text(encoding="utf-8").partition(" ")
        return int(found) if text == effect else None

    return await eventually(process)


async def made_again(run: Run, flight: str) -> None:
    """Decide that the call did not happen, and answer its form again; there is one effect."""
    await eventually(lambda: asks(run, "reconcile"))
    airline.held().unlink()
    await run.run_again()
    await eventually(lambda: asks(run, "input"))
    await answers(run, "W")
    assert (await run.result())["output"] == f"{flight} W"
    assert [line for line in airline.effects() if line.startswith(flight)] == [f"{flight} W"]


async def asks(run: Run, kind: str) -> bool:
    """Whether its question is of this kind."""
    return [each["kind"] for each in await run.waiting()] == [kind]


@pytest.mark.parametrize(("tool", "day"), [("book", 1), ("book_twice", 2)])
async def test_an_answer_a_day_later_when_the_state_has_expired(
    home: Backend, tool: str, day: int
) -> None:
    """A call that may be made twice is made again; of another one, the outcome is unknown."""
    run = await home.call(f"mcp:shop/{tool}", {"flight": tool})
    await run.waiting()
    airline.days_later().write_text(str(day), encoding="utf-8")
    await restarted(home)
    await answers(run, "A")
    if tool == "book":
        await eventually(lambda: asks(run, "reconcile"))
        question = (await run.waiting())[0]["question"]
        assert 'it no longer accepts the state of the call: "' in question
        await run.decide("t1c1", "give_up")
        assert (await run.failure()).type == "outcome_unknown"
    else:
        assert (await run.result())["output"] == "book_twice A"
    assert airline.effects().count(f"{tool} A") == (tool == "book_twice")


async def test_a_task_is_polled_and_its_form_is_a_question(home: Backend) -> None:
    run = await home.call("mcp:shop/fly", {"flight": "T1"})
    [pending] = await run.waiting()
    assert (pending["kind"], "Which meal?" in pending["question"]) == ("input", True)
    await run.decide("t1c1", "respond", result={"meal": "soup"})
    assert (await run.result())["output"] == "T1 soup"
    assert airline.effects().count("T1 soup") == 1
    started = [
        event.activity_task_scheduled_event_attributes.activity_id
        for event in await run.history()
        if event.HasField("activity_task_scheduled_event_attributes")
    ]
    assert started == ["t1c1", *(f"t1c1-task{n}" for n in ("", 2, 3, 4))]


def test_a_task_of_an_hour_costs_about_a_hundred_requests() -> None:
    waited, requests = timedelta(), 0
    while waited < timedelta(hours=1):
        waited += pause_before(waited, 10.0)
        requests += 1
    assert 100 <= requests <= 150
    assert pause_before(timedelta(), 30_000.0) == timedelta(seconds=30)


@pytest.mark.parametrize("flight", ["LONG", "T2"])
async def test_a_cancelled_run_or_a_denial_cancels_the_task_once(
    home: Backend, flight: str
) -> None:
    run = await home.call("mcp:shop/fly", {"flight": flight})
    if flight == "LONG":
        await eventually(lambda: polled(run))
        await run.handle.cancel()
        with pytest.raises(WorkflowFailureError):
            await run.result()
    else:
        await run.waiting()
        await run.decide("t1c1", "deny")
        assert (await run.failure()).type == "denied"
    assert airline.effects().count(f"{flight} cancelled") == 1


async def test_a_cancelled_run_cancels_a_task_beside_a_pending_approval(open_worker: Open) -> None:
    calls = [call("shop_fly", flight="LONG"), call("pay", amount=1)]
    async with open_worker(STDIO, [Answer(calls=calls)]) as home:
        before = airline.effects().count("LONG cancelled")
        run = await home.start(["mcp:shop/fly", "pay"])
        await run.waiting()
        await eventually(lambda: polled(run))
        await run.handle.cancel()
        with pytest.raises(WorkflowFailureError):
            await run.result()
        assert airline.effects().count("LONG cancelled") == before + 1


async def polled(run: Run) -> bool:
    """Whether the state of its task was requested."""
    return "t1c1-task" in str(await run.history())


async def test_a_task_that_its_server_has_lost_has_an_unknown_outcome(home: Backend) -> None:
    run = await home.call("mcp:shop/fly", {"flight": "T3"})
    await run.waiting()
    await restarted(home)
    await run.decide("t1c1", "respond", result={"meal": "soup"})
    await eventually(lambda: asks(run, "reconcile"))
    assert "there is no such task" in (await run.waiting())[0]["question"]
    await run.decide("t1c1", "happened", result="flown")
    assert (await run.result())["output"] == "flown"


@pytest.fixture(scope="module")
async def older(open_worker: Open) -> AsyncIterator[Backend]:
    """A worker whose server has an older revision of the protocol."""
    async with open_worker({**STDIO, "protocol": "legacy"}) as made:
        yield made


async def test_a_form_of_an_older_server_is_answered_within_the_open_call(older: Backend) -> None:
    run = await older.call("mcp:shop/book_within", {"flight": "O1"})
    [pending] = await run.waiting()
    assert (pending["kind"], "Which seat in O1?" in pending["question"]) == ("input", True)
    await run.decide("t1c1", "respond", result={"seat": "A"})
    assert (await run.result())["output"] == "O1 A"
    assert airline.effects().count("O1 A") == 1


async def test_a_denied_form_is_declined_by_the_worker_that_holds_its_call(
    older: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder, other = HeldCalls.request_state, HeldCalls()

    async def request_state(calls: HeldCalls, task: McpTask) -> Any:
        """Answer the first requests to end the call as another worker does."""
        return await holder(other if task.cancel and task.misses < 2 else calls, task)

    monkeypatch.setattr(HeldCalls, "request_state", request_state)
    run = await older.call("mcp:shop/book_within", {"flight": "O2"})
    await run.waiting()
    await run.decide("t1c1", "deny")
    assert (await run.failure()).type == "denied"

    async def is_declined() -> bool:
        return "O2 decline" in airline.effects()

    await eventually(is_declined)


async def test_an_answer_for_a_call_that_is_open_no_more_has_an_unknown_outcome(
    older: Backend,
) -> None:
    run = await older.call("mcp:shop/book_within", {"flight": "O3"})
    await run.waiting()
    await restarted(older)
    await run.decide("t1c1", "respond", result={"seat": "A"})
    await eventually(lambda: asks(run, "reconcile"))
    await run.decide("t1c1", "give_up")
    assert (await run.failure()).type == "outcome_unknown"


@pytest.mark.parametrize("at", ["form", "A", "pending"])
@pytest.mark.usefixtures("quick_starts")
async def test_a_worker_that_is_killed_at_any_point_loses_and_doubles_nothing(
    client: Client, tmp_path: Path, at: str
) -> None:
    """Killed before the form, before the effect of its answer, or while the form is pending."""
    servers, queue, flight = tmp_path / "servers.yaml", tmp_path.name, f"killed-{at}"
    servers.write_text(yaml.safe_dump({"shop": STDIO}))
    options = ("--servers", str(servers), "--task-queue", queue, "--heartbeat-timeout", "3s")
    if at == "form":
        airline.held().touch()
    with WorkerProcess(client.service_client.config.target_host, *options) as worker:
        handle = await client.start_workflow(
            "CallWorkflow",
            {"tool": "mcp:shop/book", "arguments": {"flight": flight}},
            id=f"call-{queue}",
            task_queue=queue,
            task_timeout=timedelta(seconds=2),
        )
        run = Run(handle, client)
        if at == "pending":
            await run.waiting()
            worker.kill()
            await run.signal("t1c1", "respond", result={"seat": "W"})
            worker.start()
            assert (await run.result())["output"] == f"{flight} W"
            assert airline.effects().count(f"{flight} W") == 1
            return
        if at == "A":
            await run.waiting()
            airline.held().touch()
            await answers(run, "A")
        process = await continuing(f"{flight} {at}")
        worker.kill()
        os.kill(process, signal.SIGKILL)
        worker.start()
        await made_again(run, flight)
