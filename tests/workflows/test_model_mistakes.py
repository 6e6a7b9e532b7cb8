"""Everything a model can get wrong: none of it ends or hangs a run."""

import json
import re
from typing import Any

import pytest

from tests.support import tools
from tests.support.house import OpenHouse
from tests.support.model_server import Answer, call

DONE = Answer("done")


async def test_arguments_that_are_no_json(open_house: OpenHouse) -> None:
    house = await open_house([Answer(calls=[("look_up", "seven, please")]), DONE])
    run = await house.start(["look_up"])
    assert (await run.result())["output"] == "done"
    error = await run.error()
    assert error["code"] == "invalid_arguments"
    assert error["message"].startswith("invalid_arguments: ")


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


async def test_an_unknown_tool(open_house: OpenHouse) -> None:
    run = await (await open_house([Answer(calls=[call("format_disk")]), DONE])).start(
        ["look_up", "echo"]
    )
    assert (await run.result())["output"] == "done"
    assert await run.error() == {
        "code": "tool_not_allowed",
        "message": "Tool 'format_disk' is not allowed for agent 'tester'. Allowed: [look_up, echo]",
    }


async def test_wrong_and_missing_arguments_are_named_field_by_field(open_house: OpenHouse) -> None:
    answers = [
        Answer(calls=[call("look_up", id="3.5"), call("look_up"), call("echo", text=7)]),
        DONE,
    ]
    run = await (await open_house(answers)).start(["look_up", "echo"])
    await run.result()
    assert "id: " in (await run.error("t1c1"))["message"]
    assert "'id' is a required" in (await run.error("t1c2"))["message"]
    assert (await run.results())["t1c3"] == "7"


async def test_a_thousand_calls_in_one_turn(open_house: OpenHouse) -> None:
    answers = [Answer(calls=[call("look_up", id=n) for n in range(1000)]), DONE]
    # With the cache off, a thousand calls would be decided anew for each of forty workflow tasks.
    run = await (await open_house(answers, max_cached_workflows=100)).start(["look_up"])
    result = await run.result()
    assert result["status"] == "budget_exceeded"
    assert result["calls"] == 1000
    results = await run.results()
    assert len(results) == 1000
    ends = [event for event in await run.events() if event["type"] == "tool_end"]
    assert sum("error" not in end for end in ends) == 32
    assert {end["error"]["code"] for end in ends if "error" in end} == {"blocked"}


async def test_empty_answers_cost_turns_until_the_budget_is_used_up(open_house: OpenHouse) -> None:
    run = await (await open_house([Answer("")])).start()
    result = await run.result()
    assert result["status"] == "budget_exceeded"
    assert result["turns"] == 8


async def test_an_empty_answer_is_told_and_mended(open_house: OpenHouse) -> None:
    run = await (await open_house([Answer(" "), DONE])).start()
    assert (await run.result())["output"] == "done"


@pytest.mark.parametrize("ids", [["same", "same"], [None, None], ["", ""]])
async def test_repeated_and_missing_ids_are_replaced(
    open_house: OpenHouse, ids: list[str | None]
) -> None:
    twice = Answer(calls=[call("look_up", id=1), call("look_up", id=2)], ids=ids)
    house = await open_house([twice, twice, DONE])
    run = await house.start(["look_up"])
    assert (await run.result())["calls"] == 4
    messages = house.model.requests[-1]["messages"]
    sent = [c["id"] for m in messages if m["role"] == "assistant" for c in m["tool_calls"]]
    assert len(set(sent)) == 4
    answered = [m["tool_call_id"] for m in messages if m["role"] == "tool"]
    assert answered == sent


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


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.mark.parametrize("wrong", ["no json", '{"n": "many"}', "[1"])
async def test_an_output_that_does_not_fit_costs_a_turn(open_house: OpenHouse, wrong: str) -> None:
    run = await (await open_house([Answer(wrong), Answer('```json\n{"n": "3"}\n```')])).start(
        agent={"output": SCHEMA}
    )
    result = await run.result()
    assert result["output"] == {"n": 3}
    assert result["turns"] == 2
    said = [e["message"].get("content", "") for e in await run.context() if e["type"] == "message"]
    assert any(text.startswith("invalid_output: ") for text in said if isinstance(text, str))


async def test_required_answered_without_a_call(open_house: OpenHouse) -> None:
    answers = [Answer("I would rather not"), Answer(calls=[call("look_up", id=1)]), DONE]
    house = await open_house(answers)
    run = await house.start(["look_up"], toolChoice="required")
    assert (await run.result())["output"] == "done"
    assert [body.get("tool_choice") for body in house.model.requests] == [
        "required",
        "auto",
        "auto",
    ]


async def test_the_same_call_for_ever_is_finalised(open_house: OpenHouse) -> None:
    def answer(_: int, body: dict[str, object]) -> Answer:
        if body.get("tool_choice") == "none" or "tools" not in body:
            return Answer("all I know")
        return Answer(calls=[call("look_up", id=1)])

    house = await open_house(answer)
    run = await house.start(["look_up"])
    result = await run.result()
    assert result["status"] == "completed"
    assert result["output"] == "all I know"
    assert result["calls"] == 6
    last = house.model.requests[-1]["messages"]
    assert any(m["content"] == "iteration limit reached; finalise your answer" for m in last)


async def test_calls_all_the_same_after_the_last_round_are_not_carried_out(
    open_house: OpenHouse,
) -> None:
    run = await (await open_house([Answer("still", calls=[call("pay", amount=1)])])).start(
        ["pay"], agent={"budget": {"maxIterations": 0}}
    )
    result = await run.result()
    assert result["output"] == "still"
    assert (await run.error())["code"] == "blocked"
    assert tools.read() == []


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
