"""Everything a model can get wrong: none of it ends or hangs a run."""

import json
import re
from typing import Any

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
