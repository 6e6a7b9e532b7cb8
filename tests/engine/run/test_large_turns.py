"""However much a model writes into one answer, a workflow task thinks about it for a short time:
Temporal takes one that thinks for two seconds for dead, and a run that always does never ends.
"""

import json
from dataclasses import replace
from typing import Any

import pytest

from holdfast.schemas.internal.solution import WrittenCall
from holdfast.schemas.log_entry import MessageEntry
from holdfast.schemas.message import ChatMessage
from holdfast.workflows.engine.call.outcomes import Succeeded
from holdfast.workflows.engine.call.states import MetaProperties, Turn
from holdfast.workflows.engine.conversation import scopes
from holdfast.workflows.engine.execution import preparation, results
from holdfast.workflows.engine.model.composed import read_answer
from tests.engine.driver import Play, agent, call, reply, tool
from tests.support.costs import some_of, within

CALLS = 1_000
# Of functions that are called while a turn is decided on. To compare all with all takes more.
MAX_STEPS = 10_000_000
WRITE = tool("write", chosen={"_outputPath": {"type": "string"}})


def opened(*calls: WrittenCall, **more: Any) -> tuple[Play, Turn]:
    """A run whose turn of these calls is decided on, in no time."""
    play = Play(WRITE, definition={"budget": {"max_calls": 2 * CALLS}}, **more)
    play.next()
    play.run.model_answered(reply("", *calls))
    turn: Turn = play.next().turn  # type: ignore[union-attr]  # there are calls
    within(MAX_STEPS, lambda: play.decided(play.run.calls.check_and_start(turn, turn.calls)))
    return play, turn


def write(path: str, **arguments: Any) -> WrittenCall:
    return call("write", {"_outputPath": path, **arguments})


SHAPES = {
    "apart": lambda n: write(f"†state.k{n}"),
    "list": lambda n: write(f"†state.k[{n}]", x="†input"),
    "chain": lambda n: write(f"†state.k{n}", x=f"†state.k{n - 1}"),
    "circle": lambda n: write(f"†state.k{n}", x=f"†state.k{(n + 1) % CALLS}"),
    "many references": lambda n: write(f"†state.k{n}", x=[f"†input.x{m}" for m in range(100)]),
    "many sources": lambda n: write(f"†state.k{n}", x=[f"†state.k{m}.x" for m in range(15)]),
}


@pytest.mark.parametrize("shape", some_of(SHAPES, ["chain"]))
def test_a_thousand_calls_are_decided_on_in_no_time(shape: str) -> None:
    _, turn = opened(*map(SHAPES[shape], range(CALLS)))

    assert len(turn.calls) == CALLS


@pytest.mark.slow
def test_each_call_at_one_place_waits_for_all_before_it() -> None:
    _, turn = opened(*[write("†state.k", x="†state.k")] * (CALLS // 2))

    assert len(turn.calls) == CALLS // 2


def test_a_thousand_writes_to_a_large_state_are_kept_in_no_time() -> None:
    play, turn = opened(
        *[write(f"†state.k{n}") for n in range(CALLS)], state={"big": ["x" * 50] * 10_000}
    )
    for one in turn.calls:
        play.run.calls.apply_outcome(turn.number, one, Succeeded("ok"))
    within(1_000_000, lambda: play.decided(results.finish(turn.number, turn.calls, play.run.state)))

    assert play.run.state.data["state"][f"k{CALLS - 1}"] == "ok"


def test_calls_that_hold_too_many_references_together_are_refused_from_there_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    many, of_each = 4, 50
    monkeypatch.setattr(preparation, "MAX_REFERENCES_IN_TURN", many * of_each)
    calls = [write(f"†state.k{n}", x=["†input"] * of_each) for n in range(many)]
    _, turn = opened(*calls, write("†state.a", x="†input"), write("†state.b"))

    refusals = [one.id for one in turn.calls if one.outcome is not None]
    assert refusals == [f"t1c{many + 2}"], "the one that goes beyond it is the last"


def test_a_thousand_calls_of_a_large_tool_are_read_in_no_time() -> None:
    one: dict[str, Any] = {"type": "object", "properties": {"a": {"enum": ["x", None]}}}
    large = tool("large", {"type": "object", "properties": {f"p{n}": one for n in range(60)}})
    said = {"calls": [{"_tool": "large", "p1": {"a": "x"}}] * CALLS, "output": None}
    by = agent(large, calling="composed")
    read = within(1_000_000, lambda: read_answer(json.dumps(said), by, [large]))

    assert read.calls[-1].arguments == {"p1": {"a": "x"}}


def test_of_a_very_long_conversation_a_call_receives_the_newest() -> None:
    play = Play(WRITE)
    play.next()
    for number in range(10 * scopes.MAX_TRANSCRIPT_MESSAGES):
        play.log.append(MessageEntry(message=ChatMessage(role="user", content=f"{number}")))
    play.run.model_answered(reply("", call("write")))
    [one] = play.next().turn.calls  # type: ignore[union-attr]  # there is one
    one.revise(replace(one.prepared, meta=MetaProperties(scopes=[scopes.CONTEXT])))
    said = within(500_000, lambda: scopes.transcript(one, play.run.state))

    assert [said[1].content, said[-1].content] == ["9000", "9999"]
    assert said[0].content == "(9001 earlier messages are left out.)", "the input is the first"
