"""Runs that continue as new, and runs that Temporal restarts."""

import json
import threading
import uuid
import zlib
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.api.failure.v1 import Failure
from temporalio.client import Client, WorkflowUpdateFailedError
from temporalio.common import RetryPolicy
from temporalio.service import RPCError

from holdfast.hosting.worker import WorkerSettings, build_worker
from tests.support import tools
from tests.support.backend import SIDE_BY_SIDE, Backend, Launch, Run, ledger_has
from tests.support.eventually import eventually
from tests.support.model_server import Answer, ModelServer, call
from tests.workflows.commands.test_child_workflows import ASK, ASKS, agents, by_agent

# One turn takes about ten events: the run continues as new every two or three turns.
OFTEN = {"continue_after": 25, **SIDE_BY_SIDE}
MANY = {"budget": {"maxTurns": 50, "maxIterations": 50, "maxCalls": 100}}


async def runs_of(run: Run) -> list[str]:
    """The runs under one workflow id, the first one first. Each has the one that follows it; lists
    are a moment behind."""
    info = (await run.handle.describe()).raw_description.workflow_execution_info
    found = [info.first_run_id]
    while found[-1] != info.execution.run_id:
        one = client_of(run).get_workflow_handle(run.id, run_id=found[-1])
        last = (await one.fetch_history()).events[-1]
        how = last.WhichOneof("attributes")  # whichever way it has ended
        assert how is not None
        found.append(getattr(last, how).new_execution_run_id)
    return found


def looking(turns: int, **more: Any) -> list[Answer]:
    """A model that looks up something in each turn but the last."""
    return [*[Answer(calls=[call("look_up", id=n)]) for n in range(1, turns)], Answer("done")]


def timeless(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in entry.items() if key != "at"} for entry in entries]


async def test_it_comes_to_what_it_would_have_come_to_in_one_piece(launch: Launch) -> None:
    backend = await launch([*looking(10), *looking(10)], **SIDE_BY_SIDE)
    whole = await backend.start(["look_up"], agent=MANY)
    result = await whole.result()

    often = await launch(looking(10), continue_after=25)
    run = await often.start(["look_up"], agent=MANY)

    assert await run.result() == result
    assert len(await runs_of(run)) >= 3
    assert timeless(await run.context()) == timeless(await whole.context())
    assert timeless(await run.events()) == timeless(await whole.events())
    assert (await run.status())["log"] == (await whole.status())["log"]
    assert often.model.requests == backend.model.requests[:10]


def paying(turns: int) -> list[Answer]:
    """A model that pays in each turn but the last."""
    return [*[Answer(calls=[call("pay", amount=n)]) for n in range(1, turns)], Answer("done")]


async def test_no_message_in_between_is_lost(launch: Launch) -> None:
    run = await (await launch(looking(30), **OFTEN)).start(["look_up"], agent=MANY)
    said = [f"message {n}" for n in range(20)]
    for text in said:
        await run.handle.signal("message", {"content": text, "delivery": "steer"})
        assert (await run.status())["status"] == "running"
    await run.handle.signal("message", {"content": "at the end", "delivery": "followUp"})
    await run.handle.signal("nonsense", 1)
    result = await run.result()

    users = [
        entry["message"]["content"]
        for entry in await run.context()
        if entry["type"] == "message" and entry["message"]["role"] == "user"
    ]
    assert users == ["go", *said, "at the end"]
    assert result["output"] == "done"
    assert len(await runs_of(run)) >= 4
    notices = [entry["text"] for entry in await run.context() if entry["type"] == "notice"]
    assert any("nonsense" in text for text in notices)


async def test_a_message_sent_again_after_it_continued_as_new_is_taken_once(
    launch: Launch,
) -> None:
    answers = [Answer("hello"), *[Answer(f"answer {n}") for n in range(1, 9)]]
    backend = await launch(answers, continue_after=40, **SIDE_BY_SIDE)
    run = await backend.start([], conversation=True, agent=MANY)
    await run.idle()
    n = 0
    while len(await runs_of(run)) < 2:
        n += 1
        assert await run.handle.execute_update("send", f"{n}?", id=f"u{n}") == f"answer {n}"

    assert await run.handle.execute_update("send", f"{n}?", id=f"u{n}") == f"answer {n}"
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await run.handle.execute_update("send", f"{n - 1}?", id=f"u{n - 1}")
    assert "is answered already" in str(refused.value.cause)
    await run.handle.signal("close")
    assert (await run.result())["turns"] == n + 1


async def test_a_caller_who_waits_too_long_receives_where_the_answer_will_be(
    launch: Launch,
) -> None:
    backend = await launch([Answer("hello"), *looking(20)], continue_after=20, **SIDE_BY_SIDE)
    run = await backend.start(["look_up"], conversation=True, agent=MANY)
    await run.idle()

    with pytest.raises(WorkflowUpdateFailedError, match="failed") as told:
        await run.handle.execute_update("send", {"content": "look"})
    assert "will be in the run's context" in str(told.value.cause)
    await run.handle.signal("close")
    assert (await run.result())["output"] == "done"


async def test_a_delegate_continues_as_new_and_stays_its_parents(
    launch: Launch, tmp_path: Path
) -> None:
    answers = by_agent(Test=[ASKS, Answer("all done")], helper=[*paying(6)[:5], Answer("helped")])
    catalog = agents(tmp_path / "catalog", helper={"tools": ["pay"], **MANY})
    backend = await launch(answers, catalog=catalog, **OFTEN)
    run = await backend.start([ASK], agent=MANY)
    helper = run.delegate("t1c1")
    for turn in range(1, 6):
        await eventually(partial(waits_in_delegate, run, f"t{turn}c1"))
        await helper.decide(f"t{turn}c1", "approve")

    assert (await run.result())["output"] == "all done"
    assert (await run.results())["t1c1"] == "helped"
    assert len(await runs_of(helper)) >= 2


async def test_a_parent_receives_that_no_approval_is_pending_any_more(
    launch: Launch, tmp_path: Path
) -> None:
    """Its delegate reports it in the task in which it continues as new.

    At that point the delegate has 18 to 21 events, since workflow tasks may coalesce; its next
    execution has three.
    """
    asleep = threading.Event()
    answers = by_agent(
        Test=[ASKS, Answer("all done")], helper=[*paying(2)[:1], Answer("", hold=asleep)]
    )
    catalog = agents(tmp_path / "catalog", helper={"tools": ["pay"], **MANY})
    backend = await launch(answers, catalog=catalog, continue_after=15, **SIDE_BY_SIDE)
    run = await backend.start([ASK], agent=MANY)
    helper = run.delegate("t1c1")
    await eventually(partial(waits_in_delegate, run, "t1c1"))
    await helper.decide("t1c1", "deny")
    await eventually(partial(has_continued, helper))

    await eventually(partial(has_nothing_pending, run))
    asleep.set()
    await run.result()


async def has_continued(run: Run) -> bool:
    """Whether the run has continued as new."""
    return len(await runs_of(run)) > 1


async def has_nothing_pending(run: Run) -> bool:
    """Whether a delegate is running in which no approval is pending."""
    return [one["pending"] for one in (await run.status())["delegates"]] == [[]]


async def waits_in_delegate(run: Run, call_id: str) -> bool:
    """Whether the parent knows that this call waits in its delegate."""
    [delegate] = (await run.status())["delegates"] or [{"pending": []}]
    return [one["callId"] for one in delegate["pending"]] == [call_id]


async def test_lists_show_a_run_once_after_it_continued_as_new(launch: Launch) -> None:
    run = await (await launch(paying(6), **OFTEN)).start(
        ["pay"], agent={"approval": {"auto": ["pay"]}, **MANY}
    )
    await run.result()

    description = await run.handle.describe()
    found = {pair.key.name: pair.value for pair in description.typed_search_attributes}
    assert found["AgentStatus"] == "completed"
    assert found["AgentName"] == "tester"
    *left, last = [await attributes_of(run, run_id) for run_id in await runs_of(run)]
    assert [(began, is_) for began, is_ in left[1:]] == [("running", "continued")] * len(left[1:])
    assert left[0][1] == "continued"
    assert last == ("running", "completed")


async def attributes_of(run: Run, run_id: str) -> tuple[str | None, str | None]:
    """The status that lists showed of one run of a chain when it began, and show now."""
    handle = client_of(run).get_workflow_handle(run.id, run_id=run_id)
    event = (await handle.fetch_history()).events[0]
    began = event.workflow_execution_started_event_attributes.search_attributes.indexed_fields
    shown = (await handle.describe()).raw_description.workflow_execution_info.search_attributes
    statuses = [fields["AgentStatus"].data for fields in (began, shown.indexed_fields)]
    before, now = (json.loads(data) if data else None for data in statuses)
    return before, now


def client_of(run: Run) -> Client:
    """The client that has started a run."""
    return run.handle._client


async def test_a_continued_run_is_marked_and_its_next_one_named(
    launch: Launch,
) -> None:
    run = await (await launch(looking(6), **OFTEN)).start(["look_up"], agent=MANY)
    await run.result()
    first, *_, last = await runs_of(run)
    pages = {}
    for run_id in (first, last):
        handle = client_of(run).get_workflow_handle(run.id, run_id=run_id)
        pages[run_id] = (await handle.query("__temporal_workflow_metadata")).current_details
    started = (await handle.fetch_history()).events[0].workflow_execution_started_event_attributes

    assert "has continued as new" in pages[first]
    assert "has continued as new" not in pages[last]
    head = json.loads(started.input.payloads[0].data)
    assert (head["agent"], head["task"]) == ("tester", "go")
    assert head["note"].startswith("Continues the previous run.")


async def test_no_client_starts_a_run_as_the_continuation_of_another(launch: Launch) -> None:
    backend: Backend = await launch([Answer("done")])
    head = {"agent": "x", "turns": 1, "entries": 1, "body": 1, "pages": []}
    handle = await backend.client.start_workflow(
        "AgentWorkflow", args=[head, b"forged"], id="forged-start", task_queue=backend.task_queue
    )
    failure = await Run(handle).failure()
    assert failure.type == "invalid_request"
    assert "one JSON object" in failure.message


AGENT = {
    "name": "tester",
    "model": {"endpoint": "fake", "name": "fake"},
    "tools": ["pay"],
    "approval": {"auto": ["pay"]},
}
PAYS = [Answer(calls=[call("pay", amount=7)]), Answer("paid")]
REQUESTS: dict[str, Any] = {
    "AgentWorkflow": {"agent": AGENT, "input": "go"},
    "CallWorkflow": {"tool": "pay", "arguments": {"amount": 7}},
}
CRON = {"cron_schedule": "@every 1s"}
RETRIED = {"retry_policy": RetryPolicy(initial_interval=timedelta(milliseconds=10))}


def forged() -> list[Any]:
    """What another run would have left: a snapshot of an agent that is not checked."""
    body = zlib.compress(b'{"request": {"agent": "x"}, "run": {}}')
    return [{"agent": "x", "turns": 1, "entries": 1, "body": 1, "pages": []}, body]


async def refused_as(run: Run, which: int) -> str:
    """Why the run of this number, from 1, of those under one id was not started."""

    async def chained_run() -> str | None:
        runs = await runs_of(run)
        return runs[which - 1] if len(runs) >= which else None

    one = run.handle._client.get_workflow_handle(run.id, run_id=await eventually(chained_run))

    async def failed() -> Failure | None:
        last = (await one.fetch_history()).events[-1]
        # What failed and will come again is written down as if it continued.
        again = last.workflow_execution_continued_as_new_event_attributes.failure
        found = again if again.message else last.workflow_execution_failed_event_attributes.failure
        return found if found.message else None

    failure = await eventually(failed)
    assert failure.application_failure_info.type == "invalid_request"
    return failure.message


async def start(backend: Backend, workflow: str, *given: Any, **how: Any) -> Run:
    """Start a workflow with these values, in this way."""
    id = f"again-{uuid.uuid4().hex[:12]}"
    handle = await backend.client.start_workflow(
        workflow, args=given, id=id, task_queue=backend.task_queue, **how
    )
    return Run(handle, backend.client)


@pytest.mark.parametrize(
    ("workflow", "given"),
    [*((workflow, [request]) for workflow, request in REQUESTS.items()), ("AgentWorkflow", None)],
    ids=[*REQUESTS, "forged"],
)
async def test_a_cron_schedule_is_refused(
    launch: Launch, workflow: str, given: list[Any] | None
) -> None:
    """To Temporal, a later tick continues the one before; its input is the first one's."""
    run = await start(await launch(PAYS), workflow, *(given or forged()), **CRON)

    for tick in (1, 2):
        assert "make a Temporal Schedule" in await refused_as(run, tick)
    await run.handle.terminate()
    assert tools.read() == []


@pytest.mark.parametrize("workflow", REQUESTS)
async def test_a_retry_policy_is_refused(launch: Launch, workflow: str) -> None:
    run = await start(await launch(PAYS), workflow, REQUESTS[workflow], **RETRIED)

    assert "start it without one" in await refused_as(run, 1)
    assert len(await runs_of(run)) == 1
    assert tools.read() == []


async def asked(again: Run) -> list[dict[str, Any]]:
    """What a run that was reset asks."""

    async def waiting() -> Any:
        with suppress(RPCError):  # it is not there yet
            return await again.waiting()

    found: list[dict[str, Any]] = await eventually(waiting)
    return found


async def test_a_run_that_is_reset_asks_before_it_does_again_what_it_has_done(
    launch: Launch,
) -> None:
    """A decision by signal is given again by Temporal; it does not do for this."""
    backend = await launch(PAYS)
    run = await start(backend, "CallWorkflow", REQUESTS["CallWorkflow"])
    await run.waiting()
    await run.signal("t1c1", "approve")
    await run.result()
    again = await run.reset(0)

    [waiting] = await asked(again)
    assert waiting["kind"] == "reconcile"
    assert waiting["question"].startswith("`pay` may have run before the run was res")
    await again.decide("t1c1", "happened", result="paid")
    assert (await again.result())["output"] == "paid"
    assert tools.read() == [f"pay 7 {run.id}/t1c1"]


@pytest.mark.parametrize("how", ["signal", "update"])
async def test_no_call_is_repeated_by_a_decision_that_temporal_applies_again_after_a_reset(
    launch: Launch, how: str
) -> None:
    backend = await launch([Answer(calls=[call("pay", amount=n) for n in (5, 6)]), Answer("paid")])
    run = await backend.start(["pay"])
    await run.waiting(2)
    decide = run.signal if how == "signal" else run.decide
    await decide("t1c2", "approve")
    completed = EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
    tasks = sum(event.event_type == completed for event in await run.history())
    await decide("t1c1", "approve")
    await run.result()
    paid = sorted(tools.read())
    again = await run.reset(tasks - 1)

    waiting = await asked(again)
    assert "t1c1" in [one["callId"] for one in waiting if one["kind"] == "reconcile"]
    await again.handle.terminate()
    assert sorted(tools.read()) == paid == [f"pay {n} {run.id}/t1c{n - 4}" for n in (5, 6)]


async def test_a_run_replays_what_temporal_applies_again_after_a_reset(launch: Launch) -> None:
    """Live, core hands on an update before a later signal; at replay, after it."""
    backend = await launch([Answer(calls=[call("pay", amount=n) for n in (5, 6)]), Answer("paid")])
    run = await backend.start(["pay"])
    await run.waiting(2)
    completed = EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
    tasks = sum(event.event_type == completed for event in await run.history())
    await run.decide("t1c2", "approve")
    await run.signal("t1c1", "approve")
    await run.result()
    again = await run.reset(tasks)

    for one in await again.waiting(2):  # a worker without a cache replays it
        await again.decide(one["callId"], "happened", result="paid")
    assert (await again.result())["output"] == "paid"


async def test_so_does_one_that_is_reset_to_its_first_task_while_it_runs(launch: Launch) -> None:
    paying = Answer(calls=[call("held_payment", name="b")])
    backend = await launch([paying, Answer("paid")])
    run = await backend.start(["held_payment"])
    await ledger_has(f"paid b {run.id}/t1c1")
    again = await run.reset(0)
    tools.write("open b")

    [waiting] = await asked(again)
    assert waiting["kind"] == "reconcile"
    await again.decide("t1c1", "happened", result="b")
    await again.result()
    assert [line for line in tools.read() if line.startswith("paid")] == [f"paid b {run.id}/t1c1"]


async def test_a_further_attempt_is_not_believed_to_continue_a_run(
    client: Client, tmp_path: Path
) -> None:
    """The first attempts were too long without a worker."""
    queue = f"queue-{uuid.uuid4().hex[:8]}"
    backend = Backend(client, queue, ModelServer(lambda *_: PAYS[0]))
    second = timedelta(seconds=2)
    run = await start(backend, "AgentWorkflow", *forged(), run_timeout=second, **RETRIED)

    await eventually(partial(has_continued, run))
    endpoints = tmp_path / "endpoints.yaml"
    endpoints.write_text("fake: {provider: openai, baseUrl: 'http://127.0.0.1:1/v1'}\n")
    settings = WorkerSettings(task_queue=queue, endpoints=endpoints, cached_runs=0)
    async with build_worker(client, settings):
        failure = await run.failure()
    assert (failure.type, "retry policy" in failure.message) == ("invalid_request", True)
