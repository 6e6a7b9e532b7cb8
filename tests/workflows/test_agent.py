"""Runs of an agent: messages, time, cancellation, beginnings, skills and summaries."""

import asyncio
import threading
import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from temporalio.client import (
    WithStartWorkflowOperation,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowUpdateFailedError,
    WorkflowUpdateStage,
)
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.exceptions import ApplicationError, CancelledError

from holdfast.schemas.base import link, sha256
from holdfast.schemas.log_entry import digested
from tests.support import tools
from tests.support.eventually import eventually
from tests.support.house import SIDE_BY_SIDE, House, OpenHouse, Run
from tests.support.model_server import Answer, call
from tests.support.small_model import MANY, Small
from tests.support.tools import MAX_WAIT_SECONDS

DONE = Answer("done")


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        ("just do it", "input"),
        ({"agent": "nobody", "input": "x"}, "nobody"),
        ({"input": "x"}, "agent"),
        ({"agent": {"model": {"endpoint": "fake"}}}, "input"),
        ({"agent": {"model": {"endpoint": "nowhere"}}, "input": "x"}, "nowhere"),
        ({"agent": {"model": {"endpoint": "fake"}, "tools": ["ech"]}, "input": "x"}, "echo"),
        ({"agent": {"model": {"endpoint": "fake"}}, "input": "x", "budgets": {}}, "budgets"),
        (
            {"agent": {"model": {"endpoint": "fake"}}, "input": "x", "budget": {"maxTurns": 0}},
            "maxTurns",
        ),
        (
            {"agent": {"model": {"endpoint": "fake"}, "input": {"type": "object"}}, "input": "x"},
            "input",
        ),
        (
            {"agent": {"model": {"endpoint": "fake"}}, "input": "x", "toolChoice": {"name": "z"}},
            "z",
        ),
    ],
)
async def test_a_request_that_makes_no_run_says_why(
    open_house: OpenHouse, request_: Any, says: str
) -> None:
    house = await open_house([DONE])
    handle = await house.client.start_workflow(
        "AgentWorkflow", request_, id=f"bad-{id(request_)}", task_queue=house.task_queue
    )
    failure = await Run(handle).failure()
    assert failure.type == "invalid_request"
    assert says in failure.message


async def test_the_context_is_append_only_and_its_digest_can_be_checked(
    open_house: OpenHouse,
) -> None:
    run = await (await open_house([Answer(calls=[call("look_up", id=1)]), DONE])).start(["look_up"])
    await run.result()
    entries = await run.context()
    assert [entry["n"] for entry in entries] == list(range(1, len(entries) + 1))
    digest = ""
    for entry in entries:
        digest = link(digest, sha256(digested(entry)))
    assert (await run.status())["log"] == {"entries": len(entries), "digest": digest}


async def test_a_message_steers_before_the_next_request(open_house: OpenHouse) -> None:
    gate = threading.Event()
    house = await open_house([Answer(calls=[call("look_up", id=1)], hold=gate), DONE])
    run = await house.start(["look_up"])
    await eventually(lambda: _asked(house, 1))
    await run.handle.signal("message", {"content": "in French, please"})
    gate.set()
    await run.result()
    assert house.model.requests[1]["messages"][-2]["content"] == "in French, please"


async def test_a_conversation_answers_until_it_is_closed(open_house: OpenHouse) -> None:
    run = await (await open_house([Answer("one"), Answer("two"), Answer("three")])).start(
        conversation=True
    )
    await eventually(lambda: _status(run, "awaiting_message"))
    assert await run.handle.execute_update("send", "and two?") == "two"
    assert await run.handle.execute_update("send", {"content": "and three?"}) == "three"
    await eventually(lambda: _status(run, "awaiting_message"))
    await run.handle.signal("close")
    assert (await run.result())["output"] == "three"


async def test_a_conversation_ends_when_nobody_speaks(open_house: OpenHouse) -> None:
    run = await (await open_house([Answer("one")])).start(conversation={"idleTimeout": "100ms"})
    assert (await run.result())["output"] == "one"


async def test_a_run_that_is_no_conversation_refuses_to_be_sent_to(open_house: OpenHouse) -> None:
    gate = threading.Event()
    house = await open_house([Answer("done", hold=gate)])
    run = await house.start()
    await eventually(lambda: _asked(house, 1))
    with pytest.raises(WorkflowUpdateFailedError):
        await run.handle.execute_update("send", "hello")
    gate.set()
    await run.result()


async def test_a_model_call_is_cancelled_with_its_run(open_house: OpenHouse) -> None:
    gate = threading.Event()
    house = await open_house([Answer("slow", hold=gate)])
    run = await house.start()
    await eventually(lambda: _asked(house, 1))
    await run.handle.cancel()
    await eventually(lambda: _status(run, "cancelled"))
    gate.set()


async def test_a_conversation_can_be_sent_to_before_it_has_begun(open_house: OpenHouse) -> None:
    run = await (await open_house([Answer("one"), Answer("two")])).start(conversation=True)
    assert await run.handle.execute_update("send", "hello") in ("one", "two")
    await run.handle.signal("close")
    await run.result()


async def test_runs_at_once_do_not_mix(open_house: OpenHouse) -> None:
    answers = [Answer(calls=[call("look_up", id=1)]), DONE]
    house = await open_house(answers, max_cached_workflows=100)
    runs = await asyncio.gather(*(house.start(["look_up"]) for _ in range(5)))
    results = await asyncio.gather(*(run.result() for run in runs))
    assert [result["turns"] for result in results] == [2] * 5


async def _asked(house: Any, turn: int) -> bool:
    return bool(house.model.asked(turn))


async def _status(run: Any, status: str) -> bool:
    return bool((await run.status())["status"] == status)


async def test_time_at_work_is_bounded_also_while_the_model_is_silent(
    open_house: OpenHouse,
) -> None:
    gate = threading.Event()
    house = await open_house([Answer("late", hold=gate)])
    run = await house.start(agent={"budget": {"maxDuration": "300ms"}})
    assert (await run.result())["status"] == "budget_exceeded"
    gate.set()


async def test_waiting_for_people_takes_no_time(open_house: OpenHouse) -> None:
    answers = [Answer(calls=[call("pay", amount=1)]), DONE]
    run = await (await open_house(answers)).start(
        ["pay"],
        agent={
            "budget": {"maxDuration": "2s"},
            "approval": {"timeout": "3s", "onTimeout": "approve"},
        },
    )
    assert (await run.result())["status"] == "completed"


async def finished(open_house: OpenHouse, model: Small, **settings: Any) -> Run:
    """A run of this model that came to its end."""
    house = await open_house(model, **settings)
    run = await house.start(["look_up", "echo"], agent=MANY)
    assert (await run.result())["output"] == "done"
    return run


async def test_so_it_does_where_it_continues_as_new_meanwhile(open_house: OpenHouse) -> None:
    warm, chained = Small(4_000), Small(4_000)
    run = await finished(open_house, warm, **SIDE_BY_SIDE)
    often = await finished(open_house, chained, continue_after=60, **SIDE_BY_SIDE)

    assert await often.results() == await run.results()
    assert (chained.refused, chained.summaries) == (warm.refused, warm.summaries)


SKILLS: list[dict[str, Any]] = [
    {"name": "items", "description": "Find items.", "instructions": "Be quick.",
     "tools": ["look_up"]},
    {"name": "money", "description": "Move money.", "tools": ["pay"]},
    {"name": "gate", "description": "Go through a gate.",
     "activity": {"type": "held", "startToCloseTimeout": "5s"}},
]  # fmt: skip


AGENT = {"skills": SKILLS}


async def test_a_skill_with_an_activity_that_the_model_chose_is_cancelled_with_its_run(
    open_house: OpenHouse,
) -> None:
    house = await open_house([Answer(calls=[call("choose_skill", skill="gate")])])
    run = await house.start(agent=AGENT, input={"name": "south"})
    await tools.until("begun south")
    await run.handle.cancel()

    async def cancelled() -> bool:
        return bool((await run.status())["status"] == "cancelled")

    await eventually(cancelled)
    assert (await run.error("t1c2"))["code"] == "cancelled"
    assert len(house.model.requests) == 1


AGENT_BEGINNINGS = {"name": "tester", "model": {"endpoint": "fake", "name": "fake"}}


REQUESTS = {
    "AgentWorkflow": {"agent": AGENT_BEGINNINGS, "input": "go"},
    "CallWorkflow": {"tool": "echo"},
}


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Set once a definition is being read, which does not end before the test does."""
    begun, over = threading.Event(), threading.Event()

    def held(*_: Any) -> None:
        begun.set()
        over.wait(MAX_WAIT_SECONDS)

    monkeypatch.setattr("holdfast.activities.resolve._check", held)
    yield begun
    over.set()


def starting(
    house: House, workflow: str, request: dict[str, Any]
) -> WithStartWorkflowOperation[Any, Any]:
    """A workflow, to be started as something is said to it."""
    return WithStartWorkflowOperation(
        workflow,
        request,
        id=f"begin-{uuid.uuid4().hex[:12]}",
        task_queue=house.task_queue,
        id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
        task_timeout=timedelta(seconds=1),  # a worker hears so often of a cancellation
    )


async def cancelled(handle: WorkflowHandle[Any, Any]) -> bool:
    """Whether it ends as cancelled."""
    with pytest.raises(WorkflowFailureError) as failed:
        await handle.result()
    return isinstance(failed.value.cause, CancelledError)


@pytest.mark.parametrize("workflow", REQUESTS)
async def test_one_that_is_cancelled_as_its_definition_is_read_is_cancelled(
    open_house: OpenHouse, reading: threading.Event, workflow: str
) -> None:
    house = await open_house([])
    handle = await house.client.start_workflow(
        workflow,
        REQUESTS[workflow],
        id=f"begin-{uuid.uuid4().hex[:12]}",
        task_queue=house.task_queue,
        task_timeout=timedelta(seconds=1),
    )

    async def begun() -> bool:
        return reading.is_set()

    await eventually(begun)
    await handle.cancel()
    assert await cancelled(handle)


async def test_who_waits_for_an_answer_is_told_that_the_run_was_cancelled(
    open_house: OpenHouse, reading: threading.Event
) -> None:
    house = await open_house([])
    start = starting(house, "AgentWorkflow", {"agent": AGENT_BEGINNINGS, "conversation": True})
    update = await house.client.start_update_with_start_workflow(
        "send", "hello", start_workflow_operation=start, wait_for_stage=WorkflowUpdateStage.ACCEPTED
    )
    handle = await start.workflow_handle()
    await handle.cancel()
    assert await cancelled(handle)
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await update.result()
    assert isinstance(refused.value.cause, ApplicationError)
    assert refused.value.cause.type == "cancelled"
    assert refused.value.cause.message == "the run was cancelled before it began"


async def test_who_waits_for_an_answer_is_told_why_the_run_cannot_begin(
    open_house: OpenHouse,
) -> None:
    house = await open_house([])
    start = starting(house, "AgentWorkflow", {"agent": "nobody", "conversation": True})
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await house.client.execute_update_with_start_workflow(
            "send", "hello", start_workflow_operation=start
        )
    assert isinstance(refused.value.cause, ApplicationError)
    assert refused.value.cause.type == "invalid_request"
    assert "there is no agent `nobody`" in refused.value.cause.message
