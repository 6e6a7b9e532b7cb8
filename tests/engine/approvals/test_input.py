"""A tool whose calls only a person can answer: the answer is the result, and nothing runs."""

from datetime import timedelta
from typing import Any

import pytest

from holdfast.schemas.agent import AgentApproval
from holdfast.schemas.decision import Decision
from holdfast.schemas.names import INVALID_DECISION
from holdfast.schemas.tool import APPROVAL_DEFAULTS, ApprovalPolicy, ResolvedTool
from tests.engine.asking import decides, open_question, refusal
from tests.engine.driver import Play, call, reply

ANSWER = {
    "type": "object",
    "properties": {"answer": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["answer"],
    "additionalProperties": False,
}
YES = {"answer": "Yes."}
RESPOND = {"decision": "respond", "result": YES}


def asks_for_help(*decisions: Any, policy: dict[str, Any] | None = None, **more: Any) -> Play:
    """A run that asks people for help, with these decisions on it."""
    own = ApprovalPolicy.model_validate(policy or {})
    escalate = ResolvedTool(
        name="escalate",
        parameters={"type": "object"},
        output=ANSWER,
        person=True,
        label="Ask for help",
        approval=own,
    )
    answers = [reply("", call("escalate", {"reason": "40 days?"})), reply("Done.")]
    decided = {"t1c1": list(decisions or [RESPOND])}
    return Play(escalate, model=answers, decisions=decided, **more)


def test_the_answer_is_the_result_and_nothing_is_started() -> None:
    play = asks_for_help().to_end()

    assert play.results() == {"t1c1": '{"answer": "Yes."}'}
    assert (play.records("tool_start"), play.errors()) == ([], {"t1c1": None})
    [asked] = play.records("confirmation_required")
    assert (asked["approval"]["kind"], asked["approval"]["question"]) == (
        "input",
        "A person answers `escalate`: `respond` takes the answer as `result`, such as"
        ' {"answer": "YOUR ANSWER", "days": 0}; `deny` gives none.',
    )


@pytest.mark.parametrize(
    ("decision", "why"),
    [
        ({"decision": "approve"}, "decide with respond or deny"),
        ({"decision": "edit", "arguments": {"reason": "?"}}, "decide with respond or deny"),
        ({"decision": "happened", "result": YES}, "is for calls whose outcome is unknown"),
        ({**RESPOND, "remember": True}, "`remember` is for a single call"),
        ({"decision": "respond", "result": "Yes."}, "does not fit the tool's `_output`"),
        ({"decision": "respond", "result": {"days": 3}}, '"answer" is a required property'),
        ({**RESPOND, "digest": "0" * 64}, "`digest` is not that of the pending call"),
    ],
)
def test_nothing_but_an_answer_that_fits_and_a_denial_is_taken(
    decision: dict[str, Any], why: str
) -> None:
    play = asks_for_help()
    open_question(play)
    code, message = refusal(play, decision)

    assert code == INVALID_DECISION
    assert why in message


def test_an_answer_is_coerced_as_arguments_are_and_bound_to_its_request() -> None:
    play = asks_for_help()
    question = open_question(play)
    digest = question.to_pending_approval("run").digest
    assert question.to_pending_approval("run").find_round() == 1

    decides(play, {"decision": "respond", "result": {**YES, "days": "3"}, "digest": digest})

    assert question.ruling.result == {"answer": "Yes.", "days": 3}


def test_a_denial_is_an_error_with_its_reason() -> None:
    play = asks_for_help({"decision": "deny", "reason": "Ask again tomorrow."}).to_end()

    assert play.errors() == {"t1c1": "denied"}
    assert "Ask again tomorrow." in play.results()["t1c1"]


@pytest.mark.parametrize(
    ("own", "agents", "shown", "status"),
    [
        ({}, {}, None, "completed"),
        ({}, {"onTimeout": "approve"}, None, "completed"),
        ({"onTimeout": "fail"}, {}, "fail", "failed"),
    ],
)
def test_without_an_answer_in_time_it_is_denied_or_the_run_fails(
    own: dict[str, Any], agents: dict[str, Any], shown: str | None, status: str
) -> None:
    approval = AgentApproval.model_validate({**APPROVAL_DEFAULTS.to_json(), **agents, "quorum": 3})
    play = asks_for_help(
        "expire", policy={"timeout": "1h", **own}, definition={"approval": approval}
    )
    question = open_question(play)
    waiting = question.to_pending_approval("run")
    assert (waiting.on_timeout, waiting.quorum) == (shown, 1)
    assert question.policy.timeout == timedelta(hours=1)

    play.to_end()
    assert play.errors() == {"t1c1": "approval_timeout"}
    assert "`escalate` got no answer in time" in play.results()["t1c1"]
    assert play.run.status == status


def test_a_run_that_waits_for_no_one_gets_no_answer() -> None:
    play = asks_for_help(approvals="deny").to_end()

    assert play.errors() == {"t1c1": "denied"}


def test_the_approval_of_a_plan_is_no_answer_to_a_call_in_it() -> None:
    play = asks_for_help(definition={"plan": "lazy"})
    play.decisions["t1-plan"] = [{"decision": "approve"}]
    play.to_end()

    kinds = [asked["approval"]["kind"] for asked in play.records("confirmation_required")]
    assert kinds == ["plan", "input"]
    assert play.results() == {"t1c1": '{"answer": "Yes."}'}


def test_an_answer_may_come_before_it_is_asked_for() -> None:
    play = asks_for_help()
    play.desk.add_early(Decision.model_validate({"callId": "t1c1", **RESPOND, "by": "ada"}))
    play.to_end()

    assert play.results() == {"t1c1": '{"answer": "Yes."}'}
