"""§2: a tool that nothing carries out is answered by the model, in a request of its own."""

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
