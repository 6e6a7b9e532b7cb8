"""However much a model writes into one answer, a workflow task thinks about it for a short time:
Temporal takes one that thinks for two seconds for dead, and a run that always does never ends.
"""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.schemas.internal.solution import WrittenCall
from holdfast.schemas.log_entry import MessageEntry
from holdfast.schemas.message import ChatMessage
from holdfast.workflows.engine.call.tool_call import MetaProperties, Turn
from holdfast.workflows.engine.conversation import scopes
from holdfast.workflows.engine.execution.preparation import MAX_REFERENCES, MAX_REFERENCES_IN_TURN
from holdfast.workflows.engine.model.composed import read_answer
from tests.engine.driver import Play, agent, call, says, tool

CALLS = 1_000
# Of a processor that others use as well. To compare all with all would take a minute.
MAX_SECONDS = 20
WRITE = tool("write", chosen={"_outputPath": {"type": "string"}})


def opened(*calls: WrittenCall, **more: Any) -> tuple[Play, Turn]:
    """A run whose turn of these calls is decided on, in no time."""
    play = Play(WRITE, definition={"budget": {"max_calls": 2 * CALLS}}, **more)
    play.run.next()
    play.run.model_answered(says("", *calls))
    turn: Turn = play.run.next().turn  # type: ignore[union-attr]  # there are calls
    quick(lambda: play.decided(play.run.calls.check_and_start(turn, turn.calls)), MAX_SECONDS)
    return play, turn


def quick(doing: Callable[[], Any], seconds: float = 2) -> Any:
    begin = time.thread_time()
    done = doing()
    assert time.thread_time() - begin < seconds
    return done


def write(path: str, **arguments: Any) -> WrittenCall:
    return call("write", {"_outputPath": path, **arguments})


@pytest.mark.parametrize(
    "calls",
    [
        [write(f"†state.k{n}") for n in range(CALLS)],
        [write("†state.k", x="†state.k") for n in range(CALLS)],
        [write(f"†state.k[{n}]", x="†input") for n in range(CALLS)],
        [write(f"†state.k{n}", x=f"†state.k{n - 1}") for n in range(CALLS)],
        [write(f"†state.k{n}", x=f"†state.k{(n + 1) % CALLS}") for n in range(CALLS)],
        [write(f"†state.k{n}", x=[f"†input.x{m}" for m in range(100)]) for n in range(CALLS)],
        [write(f"†state.k{n}", x=[f"†state.k{m}.x" for m in range(15)]) for n in range(CALLS)],
    ],
    ids=["apart", "one place", "list", "chain", "circle", "many references", "many sources"],
)
def test_a_thousand_calls_are_decided_on_in_no_time(calls: list[WrittenCall]) -> None:
    _, turn = opened(*calls)

    assert len(turn.calls) == CALLS


def test_a_thousand_writes_to_a_large_state_are_kept_in_no_time() -> None:
    play, turn = opened(
        *[write(f"†state.k{n}") for n in range(CALLS)], state={"big": ["x" * 50] * 10_000}
    )
    for one in turn.calls:
        play.advance_call(turn, one)
    quick(lambda: play.decided(play.run.calls.finish(turn.number, turn.calls)))

    assert play.run.state.data["state"][f"k{CALLS - 1}"] == "ok"


def test_calls_that_hold_too_many_references_together_are_refused_from_there_on() -> None:
    many = MAX_REFERENCES_IN_TURN // MAX_REFERENCES
    calls = [write(f"†state.k{n}", x=["†input"] * MAX_REFERENCES) for n in range(many)]
    _, turn = opened(*calls, write("†state.a", x="†input"), write("†state.b"))

    refusals = [one.id for one in turn.calls if one.outcome is not None]
    assert refusals == [f"t1c{many + 2}"], "the one that goes beyond it is the last"


def test_a_thousand_calls_of_a_large_tool_are_read_in_no_time() -> None:
    one: dict[str, Any] = {"type": "object", "properties": {"a": {"enum": ["x", None]}}}
    large = tool("large", {"type": "object", "properties": {f"p{n}": one for n in range(60)}})
    said = {"calls": [{"_tool": "large", "p1": {"a": "x"}}] * CALLS, "output": None}
    read = quick(lambda: read_answer(json.dumps(said), agent(large, calling="composed"), [large]))

    assert read.calls[-1].arguments == {"p1": {"a": "x"}}


def test_of_a_very_long_conversation_a_call_is_told_the_newest() -> None:
    play = Play(WRITE)
    play.run.next()
    for number in range(10 * scopes.MAX_TRANSCRIPT_MESSAGES):
        play.log.append(MessageEntry(message=ChatMessage(role="user", content=f"{number}")))
    play.run.model_answered(says("", call("write")))
    [one] = play.run.next().turn.calls  # type: ignore[union-attr]  # there is one
    one.annotate(MetaProperties(scopes=[scopes.CONTEXT]))
    said = quick(lambda: [scopes.transcript(one, play.run.state) for _ in range(20)][-1])

    assert [said[1].content, said[-1].content] == ["9000", "9999"]
    assert said[0].content == "(9001 earlier messages are left out.)", "the input is the first"
