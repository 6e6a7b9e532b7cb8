"""A single call: the way of every call of a run, without a model, and with an end of its own."""

from typing import Any

import pytest

from holdfast.schemas.decision import Decision
from holdfast.schemas.tool import CallLimits
from holdfast.workflows.engine.call.outcomes import Unknown
from holdfast.workflows.engine.execution_base import MAX_RESULT_BYTES
from holdfast.workflows.engine.phases import RunCalls
from tests.engine.driver import PlayCall, tool

PAYMENT = {
    "type": "object",
    "properties": {"amount": {"type": "number"}},
    "required": ["amount"],
    "additionalProperties": False,
}
LOOK = tool("look", {"type": "object", "properties": {"id": {"type": "integer"}}})
PAY = tool("pay", PAYMENT, side_effects=True, idempotent=False)
LOST = Unknown("the outcome of `pay` is unknown")


def calls(one: Any, arguments: Any = None, **more: Any) -> PlayCall:
    return PlayCall(one, arguments, **more).to_end()


def fails(one: Any, arguments: Any = None, **more: Any) -> tuple[str, str]:
    failure = calls(one, arguments, **more).failure
    return failure.code, failure.message


def test_what_the_tool_returns_is_the_output_and_no_turn_was_taken() -> None:
    play = calls(LOOK, {"id": "7"}, outcome={"name": "item 7"})

    assert play.result == {
        "status": "completed",
        "output": {"name": "item 7"},
        "state": {},
        "turns": 0,
        "calls": 1,
        "usage": {"inputTokens": 0, "outputTokens": 0, "cachedTokens": 0, "cost": 0.0},
    }


def test_its_record_is_that_of_a_call_in_a_run_and_names_no_turn() -> None:
    play = calls(LOOK, {"id": "7", "_reasoningForCall": "asked for"})

    assert play.event_lines() == ["tool_call t1c1", "tool_start t1c1", "tool_end t1c1", "done"]
    [asked, answered] = play.messages()
    assert (asked["role"], asked["calls"][0]["arguments"]["id"]) == ("user", "7")
    assert (answered["role"], answered["callId"]) == ("tool", "t1c1")
    [told] = play.records("tool_call")
    assert (told["turn"], told["arguments"], told["reasoning"]) == (0, {"id": 7}, "asked for")


@pytest.mark.parametrize(
    ("one", "arguments", "code", "said"),
    [
        (LOOK, {"id": "x"}, "invalid_arguments", 'id: "x" is not of type "integer"'),
        (LOOK, {"id": 1, "note": "†state.note"}, "unresolved_reference", "†state.note"),
        (
            tool("pay", requires=["orders:pay"]),
            {},
            "token_scope_insufficient",
            "needs the scope orders:pay",
        ),
        (tool("pay", limits=CallLimits(after=["look"])), {}, "blocked", "after look only"),
        (
            tool("look", chosen={"_outputPath": {"type": "string"}}),
            {"_outputPath": "state.x"},
            "invalid_arguments",
            "_outputPath",
        ),
        (LOOK, {"id": 1, "note": "x" * 1_000_001}, "invalid_arguments", "at most 1000000"),
    ],
)
def test_a_call_that_cannot_be_executed_fails_with_its_own_error(
    one: Any, arguments: Any, code: str, said: str
) -> None:
    play = calls(one, arguments)

    assert (play.failure.code, play.run.status) == (code, "failed")
    assert said in play.failure.message
    assert play.event_lines() == ["tool_call t1c1", "tool_end t1c1", "error"]
    assert play.errors() == {"t1c1": code}


@pytest.mark.parametrize(
    ("decisions", "request_", "expected"),
    [
        ([{"decision": "deny", "reason": "no"}], {}, ("denied", "no")),
        (["expire"], {}, ("approval_timeout", "the approval of `pay` expired")),
        ([], {"approvals": "deny"}, ("denied", "this run does not wait for approvals")),
    ],
)
def test_a_call_that_is_not_approved_fails(
    decisions: Any, request_: Any, expected: tuple[str, str]
) -> None:
    assert fails(PAY, {"amount": 5}, decisions=decisions, **request_) == expected


def test_a_lost_call_is_reconciled_and_ends_with_the_answer() -> None:
    happened = {"decision": "happened", "result": "paid"}
    play = calls(PAY, {"amount": 5}, outcome=LOST, decisions=["approve", happened])

    assert play.result["output"] == "paid"
    assert [asked["approval"]["kind"] for asked in play.records("confirmation_required")] == [
        "call",
        "reconcile",
    ]


def test_a_result_that_is_too_large_to_be_handed_on_is_an_error_and_not_a_hang() -> None:
    play = calls(LOOK, outcome="x" * MAX_RESULT_BYTES)

    assert play.failure.code == "invalid_output"
    assert "the call was run; its result is too large to pass on" in play.failure.message
    assert play.errors() == {"t1c1": None}


def test_a_cancelled_call_has_its_one_result_and_is_over() -> None:
    play = PlayCall(PAY, {"amount": 5})
    step = play.next()
    assert isinstance(step, RunCalls)
    play.decided(play.run.calls.check_and_start(step.turn, step.turn.calls))
    play.run.cancel()

    assert (play.run.status, play.failure.code) == ("cancelled", "cancelled")
    assert play.event_lines() == [
        *("tool_call t1c1", "confirmation_required t1c1", "tool_end t1c1", "error"),
    ]
    assert play.desk.list_open() == []


def test_a_decision_on_an_unknown_call_is_noted_however_the_run_ends() -> None:
    for arguments in ({"id": 7}, {"id": "x"}):
        play = PlayCall(LOOK, arguments)
        play.run.state.pending.add_early(Decision(call_id="t9c9", decision="approve"))
        [notice] = play.to_end().records("notice")
        assert notice["text"].endswith("was pending: `t9c9`")
