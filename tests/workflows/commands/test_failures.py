"""Failures of models and tools."""

import json
import re
import time
from typing import Any

import pytest
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import CancelledError

from tests.support import tools
from tests.support.eventually import eventually
from tests.support.house import OpenHouse
from tests.support.model_server import Answer, call

DONE = Answer("done")


async def test_a_call_cut_off_by_the_token_limit_is_never_sent_back_broken(
    open_house: OpenHouse,
) -> None:
    cut = Answer(calls=[("look_up", '{"id": 12, "na')], finish="length")
    house = await open_house([cut, DONE])
    run = await house.start(["look_up"])
    assert (await run.result())["output"] == "done"
    assert (await run.error())["code"] == "invalid_arguments"
    [again] = [m for m in house.model.requests[-1]["messages"] if m["role"] == "assistant"]
    sent = again["tool_calls"][0]["function"]["arguments"]
    assert isinstance(json.loads(sent), dict)
    [kept] = [e for e in await run.context() if e.get("message", {}).get("calls")]
    assert kept["message"]["calls"][0]["written"] == '{"id": 12, "na'


async def test_arguments_of_five_megabytes(open_house: OpenHouse) -> None:
    answers = [Answer(calls=[call("echo", text="x" * 5_000_000)]), DONE]
    run = await (await open_house(answers)).start(["echo"])
    assert (await run.result())["output"] == "done"
    error = await run.error()
    assert error["code"] == "invalid_arguments"
    assert "bytes" in error["message"]


async def test_names_with_dots_reach_the_model_mapped_and_everybody_else_whole(
    open_house: OpenHouse,
) -> None:
    tool = {
        "_tool": "rag.query",
        "properties": {"text": {"type": "string"}},
        "_activity": "echo",
    }
    offered: list[str] = []

    def answer(turn: int, body: dict[str, Any]) -> Answer:
        offered.append(body["tools"][0]["function"]["name"])
        return Answer(calls=[(offered[0], {"text": "hi"})]) if turn == 1 else DONE

    run = await (await open_house(answer)).start([tool])
    await run.result()
    assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", offered[0])
    [told] = [event for event in await run.events() if event["type"] == "tool_call"]
    assert told["tool"] == "rag.query"
    assert (await run.results())["t1c1"] == "hi"


async def test_a_provider_that_refuses_fails_the_run_with_its_words(open_house: OpenHouse) -> None:
    refused = Answer(status=400, body={"error": {"message": "the model is asleep"}})
    run = await (await open_house([refused])).start()
    failure = await run.failure()
    assert failure.type == "model_error"
    assert "the model is asleep" in failure.message
    assert [event["type"] for event in await run.events()][-1] == "error"


async def test_a_busy_provider_is_asked_again(open_house: OpenHouse) -> None:
    seen: list[int] = []

    def answer(turn: int, _: object) -> Answer:
        seen.append(turn)
        busy = Answer(status=429, headers={"Retry-After": "0.1"})
        return busy if len(seen) < 3 else DONE

    run = await (await open_house(answer)).start()
    assert (await run.result())["output"] == "done"
    assert seen == [1, 1, 1]


async def test_large_results_together_do_not_wedge_a_run(open_house: OpenHouse) -> None:
    calls = [call("big", size=1_900_000)] * 4
    house = await open_house([Answer(calls=calls), DONE])
    run = await house.start(["big"])
    assert (await run.result())["output"] == "done"
    read = [m["content"] for m in house.model.requests[1]["messages"] if m["role"] == "tool"]
    assert [len(text) for text in read] == [1_900_000] * 4


async def test_no_worker_has_it(open_house: OpenHouse) -> None:
    run = await (await open_house([Answer(calls=[call("elsewhere")]), DONE])).start(["elsewhere"])
    await run.result()
    assert (await run.error())["code"] == "timeout"


async def test_what_was_never_begun_is_not_asked_about(open_house: OpenHouse) -> None:
    answers = [Answer(calls=[call("elsewhere_once")]), DONE]
    run = await (await open_house(answers)).start(["elsewhere_once"])
    await run.result()
    error = await run.error()
    assert error["code"] == "timeout"
    assert "was not run" in error["message"]


async def test_its_worker_does_not_have_it_and_names_no_other(open_house: OpenHouse) -> None:
    elsewhere = await open_house([DONE])
    house = await open_house([Answer(calls=[call("ghost")]), DONE])
    ghost = {"_tool": "ghost", "_activity": {"type": "Ghost", "taskQueue": elsewhere.task_queue}}
    run = await house.start([ghost])
    await run.result()
    error = await run.error()
    assert error["code"] == "tool_error"
    assert "look_up" not in error["message"]
    assert "Ghost" not in error["message"]


async def test_it_hangs_at_cancellation(open_house: OpenHouse) -> None:
    answers = [Answer(calls=[call("stubborn"), call("pay", amount=1)]), DONE]
    run = await (await open_house(answers)).start(["stubborn", "pay"])
    await run.waiting()

    async def begun() -> bool:
        return "stubborn begun" in tools.read()

    await eventually(begun)
    started = time.monotonic()
    await run.handle.cancel()
    with pytest.raises(WorkflowFailureError) as failed:
        await run.handle.result()
    assert isinstance(failed.value.cause, CancelledError)
    assert time.monotonic() - started < tools.MAX_WAIT_SECONDS, "it has not waited for the tool"
    assert {
        key: json.loads(text)["error"]["code"] for key, text in (await run.results()).items()
    } == {
        "t1c1": "cancelled",
        "t1c2": "cancelled",
    }
    assert (await run.status())["status"] == "cancelled"


async def test_a_payment_cut_off_by_cancelling_is_not_said_to_be_cancelled(
    open_house: OpenHouse,
) -> None:
    run = await (await open_house([Answer(calls=[call("held_payment", name="rent")]), DONE])).start(
        ["held_payment"]
    )

    async def paid() -> bool:
        return bool(tools.read())

    await eventually(paid)
    await run.handle.cancel()
    with pytest.raises(WorkflowFailureError):
        await run.handle.result()
    assert (await run.error())["code"] == "outcome_unknown"
