"""Input that no handler expects: nonsense and floods of signals."""

import asyncio
import uuid
from itertools import pairwise, product
from typing import Any

import pytest
from temporalio import exceptions
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowQueryFailedError, WorkflowUpdateFailedError
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError, ApplicationError, TimeoutType

from holdfast.workflows.base_workflow import MAX_NOTES
from holdfast.workflows.input import MAX_INPUT_VALUES, failed_usage
from tests.support import tools
from tests.support.backend import SIDE_BY_SIDE, Launch, Run
from tests.support.model_server import Answer, call


def raw(data: bytes, encoding: bytes = b"json/plain") -> RawValue:
    """A payload as it may come from anywhere."""
    return RawValue(Payload(metadata={"encoding": encoding}, data=data))


BROKEN: dict[str, list[Any]] = {
    "no JSON": [raw(b"{{{")],
    "half a character": [raw(b'"\\ud800"')],
    "too deep": [raw(b"[" * 5000 + b"]" * 5000)],
    "binary": [raw(b"\x00\x01", b"binary/plain")],
    "an encoding of others": [raw(b"\x00\x01", b"foo/bar")],
    "an encoding without end": [raw(b"x", b"foo" * 100_000)],
    "nothing": [],
}


@pytest.fixture
async def plain(client: Client) -> Client:
    """A client that encodes nothing for us."""
    return await Client.connect(client.service_client.config.target_host)


async def test_no_workflow_starts_with_it(launch: Launch, plain: Client) -> None:
    backend = await launch([], **SIDE_BY_SIDE)
    for workflow, given in product(("AgentWorkflow", "CallWorkflow"), BROKEN.values()):
        id = f"nonsense-{uuid.uuid4().hex}"
        handle = await plain.start_workflow(
            workflow, args=given, id=id, task_queue=backend.task_queue
        )
        failure = await Run(handle).failure()
        assert failure.type == "invalid_request"
        assert "JSON" in failure.message
        assert len(failure.message) < 500


async def test_a_running_run_survives_all_of_it(launch: Launch, plain: Client) -> None:
    backend = await launch([Answer(calls=[call("pay", amount=5)]), Answer("paid")])
    run = await backend.start(["pay"])
    await run.waiting()
    handle = plain.get_workflow_handle(run.id)
    three: list[Any] = [1, 2, 3]
    for given in [*BROKEN.values(), three]:
        for signal in ("approve", "message", "no_such_signal"):
            await handle.signal(signal, args=given)
        updates = (
            handle.execute_update(update, args=given)
            for update in ("decide", "send", "no_such_update")
        )
        refused = await asyncio.gather(*updates, return_exceptions=True)
        assert [type(each) for each in refused] == [WorkflowUpdateFailedError] * 3
        wrong: list[Any] = given or [{"after": -1}]
        with pytest.raises(WorkflowQueryFailedError):
            await handle.query("events", args=wrong)
    await run.decide("t1c1", "approve")
    assert (await run.result())["output"] == "paid"
    assert tools.read() == [f"pay 5 {run.id}/t1c1"]


async def test_a_conversation_is_closed_whatever_is_sent_along(
    launch: Launch, plain: Client
) -> None:
    backend = await launch([Answer("hello")], **SIDE_BY_SIDE)
    for given in BROKEN.values():
        run = await backend.start(conversation=True)
        await plain.get_workflow_handle(run.id).signal("close", args=given)
        assert (await run.result())["output"] == "hello"


async def test_what_is_ignored_again_and_again_is_not_noted_for_ever(
    launch: Launch,
) -> None:
    backend = await launch([Answer(calls=[call("pay", amount=5)]), Answer("paid")])
    run = await backend.start(["pay"])
    await run.waiting()
    signals = (run.handle.signal("no_such_signal", "x") for _ in range(MAX_NOTES + 20))
    await asyncio.gather(*signals)
    notes = [entry["text"] for entry in await run.context() if entry["type"] == "notice"]
    assert len(notes) == MAX_NOTES
    assert notes[-1] == "something was ignored; further ignored input is not logged"
    await run.decide("t1c1", "approve")
    assert (await run.result())["output"] == "paid"


# Each takes as long to be checked as one thing may.
ABSURD = {"amount": [1] * 50_000}
SLOW: dict[str, Any] = {
    "type": "object",
    "properties": {"amount": {"items": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}},
}


async def test_what_is_slow_to_read_and_to_check_comes_all_at_once(launch: Launch) -> None:
    backend = await launch([Answer(calls=[call("pay_all", amount=5)]), Answer("paid")])
    tool = {"_tool": "pay_all", **SLOW, "_activity": "pay", "_sideEffects": True}
    run = await backend.start([tool])
    await run.waiting()
    message = {"content": [{"type": "data", "kind": "state", "data": ABSURD}]}
    # Below 2 MB in sum: with more input waiting, the server itself fails the workflow task.
    for _ in range(6):
        await asyncio.gather(
            run.signal("t1c1", "edit", arguments=ABSURD), run.handle.signal("message", message)
        )
    huge = {"amount": [1] * (MAX_INPUT_VALUES + 2)}
    await run.signal("t1c1", "edit", arguments=huge)
    with pytest.raises(WorkflowUpdateFailedError):
        await run.decide("t1c1", "edit", arguments=huge)
    await run.decide("t1c1", "approve")

    assert (await run.result())["output"] == "paid"
    assert tools.read() == [f"pay 5 {run.id}/t1c1"]
    failed = EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED
    assert failed not in [event.event_type for event in await run.history()]


def timed_out(*heartbeat: Any) -> exceptions.TimeoutError:
    kind = TimeoutType.HEARTBEAT
    return exceptions.TimeoutError("late", type=kind, last_heartbeat_details=heartbeat)


SPENT = {"failedUsage": {"inputTokens": 7, "outputTokens": 1}}
LESS = {"failedUsage": {"inputTokens": 3}}


@pytest.mark.parametrize(
    ("causes", "tokens"),
    [
        ([ApplicationError("down", SPENT)], 7),
        ([timed_out(SPENT)], 7),
        ([timed_out(), timed_out(SPENT)], 7),
        ([timed_out(LESS), ApplicationError("down", SPENT)], 7),
        ([timed_out({"attempt": 1})], 0),
        ([], 0),
    ],
)
def test_the_failed_answers_of_a_request_count_also_where_it_timed_out(
    causes: list[Exception], tokens: int
) -> None:
    failed = ActivityError(
        "failed",
        scheduled_event_id=1,
        started_event_id=2,
        identity="",
        activity_type="generate",
        activity_id="1",
        retry_state=None,
    )
    for outer, inner in pairwise([failed, *causes]):
        outer.__cause__ = inner
    assert failed_usage(failed).input_tokens == tokens
