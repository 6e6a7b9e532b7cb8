"""§8: what becomes of a plan while it runs: a message comes, a call fails, the model continues."""

from typing import Any

import pytest

from holdfast.schemas.names import ErrorCode
from holdfast.workflows.engine.call.outcomes import Unknown, fail
from holdfast.workflows.engine.call.states import ToolCall
from tests.engine.driver import Play, call, reply, tool
from tests.engine.plans.test_plan import LOOK, PAY, QUOTE, asked, lazy, started

CHAIN = (
    call("quote", {"item": 7}),
    call("pay", {"amount": "†state.price"}),
    call("look", {"at": "†state.paid", "_outputPath": "†state.seen"}),
)
BROKEN = fail(ErrorCode.TOOL_ERROR, "no")


def chain(
    *then: Any, message: Any = "wait", at: str = "quote", calls: Any = CHAIN, **more: Any
) -> Play:
    """A plan of three calls, each of which waits for the one before; while that `at` runs, a person
    sends a message. `then` is what the model answers to it."""

    def ended(one: ToolCall) -> Any:
        if one.name == at and one.id.startswith("t1"):
            play.receive(message)
        return 40 if one.name == "quote" else one.arguments

    names = ("quote", "pay", "look")
    play = lazy(*calls, then=[*then, reply("done")], outcomes=dict.fromkeys(names, ended), **more)
    return play


def tail_of(play: Play) -> str:
    """What stands behind the conversation now."""
    return play.run.settings.ask().tail or ""


# A message in the middle.


def test_a_message_holds_back_unstarted_calls_and_the_model_is_requested() -> None:
    play = chain().to_end()

    assert play.errors() == {"t1c1": None, "t1c2": "cancelled", "t1c3": "cancelled"}
    assert "a message came before this call started" in play.results()["t1c2"]
    assert started(play) == ["t1c1"]
    assert play.engine_messages() == ["wait"]


def test_the_model_receives_the_state_of_the_plan() -> None:
    play = chain()
    play.take(play.next())
    play.take(play.next())
    play.next()

    told = tail_of(play)
    assert "- t1c1 quote: done\n" in told
    assert '- t1c2 pay {"amount": "†state.price"}: left\n' in told
    assert '- t1c3 look {"at": "†state.paid"}: left\n' in told
    assert "make them again unchanged to run them" in told
    assert tail_of(chain().to_end()).count("plan") == 0


def test_the_remainder_runs_and_needs_approval_only_for_new_values() -> None:
    play = chain(reply("", *CHAIN[1:])).to_end()

    assert [one["callId"] for one in asked(play)] == ["t1-plan", "t2c1"]
    assert started(play) == ["t1c1", "t2c1", "t2c2"]
    assert play.result["state"]["seen"] == {"at": {"amount": 40}}


def test_what_is_left_counts_once_against_the_most_of_its_tool() -> None:
    once = PAY.model_copy(update={"limits": PAY.limits.model_copy(update={"per_run": 1})})
    play = chain(reply("", *CHAIN[1:]), tools=(QUOTE, once, LOOK)).to_end()

    assert play.errors()["t2c1"] is None


ELSEWHERE = call("look", {"at": "†state.paid", "_outputPath": "†state.elsewhere"})


def data(**state: Any) -> list[dict[str, Any]]:
    """A message with what is in the state."""
    return [{"type": "data", "kind": "state", "data": state}]


ANYTHING_ELSE: list[tuple[str, tuple[Any, ...], Any]] = [
    ("other arguments", (call("pay", {"amount": 41}),), "wait"),
    ("a call that was done", CHAIN, "wait"),
    ("one more call", (*CHAIN[1:], call("look", {})), "wait"),
    ("twice the same", (CHAIN[1], CHAIN[1]), "wait"),
    ("another place", (CHAIN[1], ELSEWHERE), "wait"),
    ("without what it waits for", (CHAIN[2],), data(paid=1)),
    ("a value that has changed since", (CHAIN[1],), data(price=9_999)),
]


@pytest.mark.parametrize(
    ("calls", "message"), [row[1:] for row in ANYTHING_ELSE], ids=[row[0] for row in ANYTHING_ELSE]
)
def test_anything_else_is_a_new_plan(calls: tuple[Any, ...], message: Any) -> None:
    play = chain(reply("", *calls), message=message).to_end()

    plans = [one["callId"] for one in asked(play) if one["kind"] == "plan"]
    assert plans == ["t1-plan", "t2-plan"]


def test_a_call_with_its_own_question_is_held_back_too_and_still_asks_for_itself() -> None:
    legal = PAY.model_copy(
        update={"approval": PAY.approval.model_copy(update={"approvers": ["legal"]})}
    )
    other = tool(
        "other", side_effects=True, approval=PAY.approval.model_copy(update={"approvers": ["ops"]})
    )
    groups = {"decision": "approve", "by": "ann"}
    play = lazy(
        call("pay", {"amount": 1}),
        call("other"),
        tools=(legal, other),
        then=[reply("", call("pay", {"amount": 1})), reply("done")],
        decisions={
            "t1-plan": [{**groups, "groups": ["ops"]}],
            "t2c1": [{**groups, "groups": ["legal"]}],
        },
        pick=lambda count: count - 1,
    )
    play.outcomes["other"] = lambda one: play.receive("wait")
    play.to_end()

    assert play.errors() == {"t1c1": "cancelled", "t1c2": None, "t2c1": None}
    assert [one["callId"] for one in asked(play)] == ["t1-plan", "t1c1", "t2c1"]
    assert play.desk.list_open() == []


def test_a_call_that_may_have_happened_is_not_let_go_for_a_message() -> None:
    once = PAY.model_copy(update={"idempotent": False})

    def lost(one: ToolCall) -> Any:
        play.receive("what is it?")
        return Unknown("it is unknown")

    play = lazy(
        call("pay", {"amount": 1}),
        tools=(once,),
        outcomes={"pay": lost},
        decisions={"t1c1": [{"decision": "happened", "result": 5}]},
    )
    play.to_end()

    assert play.results()["t1c1"] == "5"


def test_a_call_that_is_queued_among_those_that_run_is_held_back() -> None:
    """It is reported as started; only when it has room would it really be."""
    play = chain()
    play.take(play.next())
    step: Any = play.next()
    play.begin(step.turn)
    play.advance(play.turn)
    first = step.turn.calls[0]
    assert first.is_running
    play.receive("wait")
    play.run.planning.hold_back([first])

    assert first.outcome.error.code == "cancelled"
    assert first.is_decidable


# A call fails.


def test_after_a_failure_its_dependents_are_a_new_plan_without_an_older_value() -> None:
    play = lazy(
        *CHAIN,
        then=[reply("", *CHAIN[1:]), reply("done")],
        outcomes={"quote": BROKEN},
        state={"price": 9_999},
    )
    play.take(play.next())
    play.take(play.next())
    play.next()
    told = tail_of(play)
    assert (
        "- t1c1 quote: not done (tool_error)\n- t1c2 pay: not done (unresolved_reference)" in told
    )
    assert "are still approved" not in told
    play.to_end()

    assert play.errors()["t1c2"] == "unresolved_reference"
    assert [one["callId"] for one in asked(play)] == ["t1-plan", "t2-plan"]
