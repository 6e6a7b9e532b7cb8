"""A run, from outside: requests, messages, conversations, budgets, queries."""

import asyncio
import threading
from typing import Any

import pytest
from temporalio.client import WorkflowUpdateFailedError

from holdfast.schemas.base import link, sha256
from holdfast.schemas.log_entry import digested
from tests.support.eventually import eventually
from tests.support.house import OpenHouse, Run
from tests.support.model_server import Answer, call

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
