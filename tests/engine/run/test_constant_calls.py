"""A run with constant calls: each is checked, approved and recorded, and no model is asked."""

from typing import Any

import pytest

from holdfast.schemas.internal.solution import WrittenCall
from holdfast.schemas.names import ErrorCode
from holdfast.workflows.engine.call.outcomes import Stopped, fail
from tests.engine.driver import Play, tool

FIND = WrittenCall(tool="find", arguments={"id": "†input.id", "_outputPath": "†state.order"})
PAY = WrittenCall(
    tool="pay", arguments={"amount": "†state.order.paid", "_reasoningForCall": "It broke."}
)
TOOLS = (tool("find"), tool("pay", side_effects=True, idempotent=False))
FOUND = {"find": {"paid": 20}, "pay": {"receipt": "R-7"}}


def graph(*calls: WrittenCall, outcomes: Any = None, **more: Any) -> Play:
    """A run of these constant calls, to its end."""
    definition = {"model": None, "calls": list(calls or (FIND, PAY)), **more.pop("agent", {})}
    request = {"input": {"id": "7"}, **more}
    play = Play(*TOOLS, outcomes={**FOUND, **(outcomes or {})}, definition=definition, **request)
    return play.to_end()


def test_the_calls_run_with_references_and_approvals_and_no_model_is_asked() -> None:
    play = graph()
    assert play.result["output"] == {"receipt": "R-7"}
    assert (play.result["status"], play.result["turns"], play.result["calls"]) == (
        "completed",
        0,
        2,
    )
    assert play.event_lines() == [
        "tool_call t1c1",
        "tool_call t1c2",
        "tool_start t1c1",
        "confirmation_required t1c2",
        "tool_start t1c2",
        "tool_end t1c1",
        "tool_end t1c2",
        "done",
    ]
    [asked] = play.records("confirmation_required")
    assert asked["approval"]["arguments"] == {"amount": 20}
    assert asked["approval"]["reasoning"] == "It broke."


def test_the_answer_is_made_of_what_the_calls_wrote() -> None:
    answer = {"paid": "†state.order.paid", "note": "Paid †{state.order.paid}."}
    play = graph(agent={"answer": answer})
    assert play.result["output"] == {"paid": 20, "note": "Paid 20."}


def test_the_calls_come_to_the_threshold_of_their_budget() -> None:
    play = graph(agent={"on_threshold": {"maxCalls": 0.5}}, budget={"maxCalls": 4})
    [reached] = play.records("budget_threshold")
    assert (reached["budget"], reached["used"], reached["limit"]) == ("maxCalls", 2, 4)


@pytest.mark.parametrize(
    ("agent", "code"),
    [
        ({"answer": "†state.nothing"}, "unresolved_reference"),
        ({"output": {"type": "string"}}, "invalid_output"),
    ],
)
def test_an_answer_that_cannot_be_given_fails_the_run(agent: dict[str, Any], code: str) -> None:
    assert graph(agent=agent).failure.code == code


def test_a_failed_call_fails_the_run_with_its_code_and_not_with_that_of_a_later_one() -> None:
    failure = fail(ErrorCode.TOOL_ERROR, "There is no order 7.")
    play = graph(PAY, FIND, outcomes={"find": failure})
    assert play.errors() == {"t1c1": "unresolved_reference", "t1c2": "tool_error"}
    assert (play.failure.code, play.failure.message) == ("tool_error", "There is no order 7.")


def test_a_denied_call_fails_the_run() -> None:
    play = graph(decisions={"t1c2": [{"decision": "deny", "reason": "Too much."}]})
    assert (play.failure.code, play.failure.message) == ("denied", "Too much.")


def test_an_expired_call_fails_the_run_also_while_others_are_open() -> None:
    calls = (PAY, FIND, WrittenCall(tool="pay", arguments={"amount": 1}))
    play = graph(
        *calls,
        decisions={"t1c1": ["expire"]},
        agent={"approval": {"onTimeout": "fail"}},
    )
    assert play.failure.code == "approval_timeout"


def test_a_call_may_stop_the_run() -> None:
    play = graph(outcomes={"find": Stopped("The shop is closed.")})
    assert (play.result["status"], play.result["output"]) == ("stopped", "The shop is closed.")


def test_a_message_holds_no_call_of_a_plan_back() -> None:
    definition = {"model": None, "calls": [FIND, PAY], "plan": "lazy"}
    play = Play(*TOOLS, outcomes=FOUND, definition=definition, input={"id": "7"})
    play.receive("Stop!")
    assert play.to_end().result["output"] == {"receipt": "R-7"}
    [asked, *_] = play.records("confirmation_required")
    assert (asked["callId"], asked["approval"]["kind"]) == ("t0-plan", "plan")


def test_a_conversation_is_refused() -> None:
    with pytest.raises(ValueError, match="constant `calls`, which receive no messages"):
        graph(conversation=True)


def test_an_agent_without_a_model_chooses_no_skill() -> None:
    activity = {"type": "export"}
    skills = [{"name": name, "activity": activity} for name in ("monthly", "yearly")]
    definition = {"model": None, "skills": skills}
    with pytest.raises(ValueError, match="has no model that chooses one; name one of monthly, y"):
        Play(definition=definition)
    play = Play(definition=definition, skill="yearly", outcomes={"yearly": 12}).to_end()
    assert (play.result["output"], play.result["turns"]) == (12, 0)
