"""§2: a tool that nothing carries out is answered by the model, in a request of its own."""

import json
from collections.abc import Callable
from typing import Any

from tests.support.house import OpenHouse, Run
from tests.support.model_server import Answer, call

MOOD = {
    "_tool": "mood",
    "description": "The mood of a text.",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "_output": {
        "type": "object",
        "properties": {"mood": {"enum": ["good", "bad"]}},
        "required": ["mood"],
    },
}
ASKS = Answer(calls=[call("mood", text="hooray")])
GOOD, MISFIT = Answer('{"mood": "good"}'), Answer('{"mood": "so-so"}')


def model(*latent: Answer) -> Callable[[int, dict[str, Any]], Answer]:
    """A model that calls `mood`, answers that call with these, and is done."""

    def answer(turn: int, body: dict[str, Any]) -> Answer:
        if "You answer one call of a tool" in body["messages"][0]["content"]:
            return latent[min(turn, len(latent)) - 1]
        return ASKS if turn == 1 else Answer("done")

    return answer


async def requests(run: Run) -> list[str]:
    """The ids of the requests to the model, as activities."""
    events = [event.activity_task_scheduled_event_attributes for event in await run.history()]
    return [one.activity_id for one in events if one.activity_type.name == "generate"]


async def test_the_model_answers_the_call_apart_from_the_conversation(
    open_house: OpenHouse,
) -> None:
    house = await open_house(model(GOOD))
    run = await house.start([MOOD], input="a secret")
    result = await run.result()

    assert (result["status"], result["turns"], result["calls"]) == ("completed", 3, 1)
    assert result["usage"]["inputTokens"] == 30
    assert json.loads((await run.results())["t1c1"]) == {"mood": "good"}
    assert "t1c1" in await requests(run)
    _, latent, last = house.model.requests
    assert latent["messages"][1]["content"].endswith('Arguments: {"text": "hooray"}')
    assert "secret" not in str(latent)
    assert "tools" not in latent
    assert latent["response_format"]["json_schema"]["schema"] == MOOD["_output"]
    assert "You answer one call" not in str(last), "the conversation is as it was"
    assert [event["turn"] for event in await run.events() if event["type"] == "turn_start"] == [
        1,
        2,
    ]


async def test_an_answer_that_does_not_fit_is_asked_for_once_more(open_house: OpenHouse) -> None:
    run = await (await open_house(model(MISFIT, GOOD))).start([MOOD])
    assert (await run.result())["turns"] == 4

    assert json.loads((await run.results())["t1c1"]) == {"mood": "good"}
    assert [one for one in await requests(run) if one.startswith("t1c1")] == ["t1c1", "t1c1-again"]


async def test_a_model_that_cannot_answer_a_call_does_not_end_the_run(
    open_house: OpenHouse,
) -> None:
    refuses = Answer(status=400, body={"error": {"message": "too hard"}})
    run = await (await open_house(model(refuses))).start([MOOD])
    assert (await run.result())["output"] == "done"

    assert await run.error() == {
        "code": "tool_error",
        "message": "`mood` could not be answered now.",
    }
    notices = [entry["text"] for entry in await run.context() if entry["type"] == "notice"]
    assert any("t1c1 was not answered" in text and "too hard" in text for text in notices)


async def test_without_a_request_left_the_call_is_blocked(open_house: OpenHouse) -> None:
    run = await (await open_house(model(GOOD))).start([MOOD], budget={"maxTurns": 2})
    assert (await run.result())["status"] == "completed"

    error = await run.error()
    assert error["code"] == "blocked"
    assert "maxTurns (2)" in error["message"]
