"""Decisions: which count, how many it takes, and what they come to."""

from datetime import timedelta
from typing import Any

import pytest

from schemas.base import canonical_json, parse_duration, sha256
from schemas.decision import Decision
from schemas.names import ALREADY_DECIDED, INVALID_DECISION, NO_SUCH_CALL
from schemas.tool import ApprovalPolicy
from tests.engine.driver import Play, call, says, tool
from workflows.engine.approval import (
    MAX_COUNTED_DECISIONS,
    MAX_EARLY_DECISIONS,
    MAX_REMINDERS,
    Desk,
    Unacceptable,
)
from workflows.engine.outcome import Unknown
from workflows.engine.run import CarryOut

SCHEMA = {
    "type": "object",
    "properties": {"amount": {"type": "number"}},
    "required": ["amount"],
    "additionalProperties": False,
}
ANN, BOB, CAT = {"by": "ann"}, {"by": "bob"}, {"by": "cat"}
DIGEST = sha256(b'{"arguments":{"amount":5},"tool":"pay"}')


def approve(**more: Any) -> dict[str, Any]:
    return {"decision": "approve", **more}


def deny(**more: Any) -> dict[str, Any]:
    return {"decision": "deny", **more}


def edit(amount: Any, **more: Any) -> dict[str, Any]:
    return {"decision": "edit", "arguments": {"amount": amount}, **more}


def asks(
    *decisions: Any, policy: dict[str, Any] | None = None, turns: int = 1, **more: Any
) -> Play:
    """A run that asks about one payment of 5 in each turn; it returns what it was given."""
    own = ApprovalPolicy.model_validate(policy or {})
    pay = tool(
        "pay", SCHEMA, side_effects=True, approval=own, label="Payment", **more.pop("of", {})
    )
    model = [
        says("", call("pay", {"amount": 5, "_reasoningForCall": "owed"})) for _ in range(turns)
    ]
    more.setdefault("outcomes", {"pay": lambda one: {"paid": one.arguments["amount"]}})
    return Play(pay, model=[*model, says("done")], decisions={"t1c1": list(decisions)}, **more)


def open_question(play: Play) -> Any:
    """Take a run's steps until it waits; the question."""
    while not play.desk.open():
        step = play.run.next()
        if isinstance(step, CarryOut):
            play.run.calls.open(step.turn.number, step.turn.calls)
        else:
            play.take(step)
    return play.desk.open()[0]


def decides(play: Play, decision: Any) -> Any:
    return play.run.decide(Decision.model_validate({"callId": "t1c1", **decision}))


def refusal(play: Play, decision: Any) -> tuple[str, str]:
    before = len(play.log)
    with pytest.raises(Unacceptable) as refused:
        decides(play, decision)
    assert len(play.log) == before, "a decision that is refused leaves no trace"
    return refused.value.code, str(refused.value)


# What is asked.


def test_people_are_shown_all_that_they_decide_on() -> None:
    question = open_question(asks(policy={"approvers": ["finance"], "quorum": 2, "timeout": "1h"}))

    assert question.waiting().to_json() == {
        "callId": "t1c1",
        "kind": "call",
        "tool": "pay",
        "label": "Payment",
        "arguments": {"amount": 5},
        "reasoning": "owed",
        "digest": DIGEST,
        "requestedAt": "2026-03-01T12:00:00.000Z",
        "expiresAt": "2026-03-01T13:00:00.000Z",
        "approvers": ["finance"],
        "quorum": 2,
        "decisions": [],
        "question": "Shall `pay` be carried out with these arguments?",
    }


def test_the_digest_is_that_of_tool_and_arguments_as_canonical_json() -> None:
    said = {"tool": "pay", "arguments": {"amount": 5}}

    assert open_question(asks()).digest == sha256(canonical_json(said)) == DIGEST


def test_what_was_asked_decided_and_changed_is_kept() -> None:
    play = asks(edit(3, by="ann", groups=["finance"], reason="too much")).to_end()
    [asked] = play.records("confirmation_required")
    [decided] = play.records("decision")

    assert asked["approval"]["digest"] == DIGEST
    assert decided == {
        "n": decided["n"],
        "at": "2026-03-01T12:00:00.000Z",
        "type": "decision",
        "callId": "t1c1",
        "decided": {
            "decision": "edit",
            "by": "ann",
            "groups": ["finance"],
            "at": "2026-03-01T12:00:00.000Z",
            "reason": "too much",
            "digest": sha256(b'{"arguments":{"amount":3},"tool":"pay"}'),
        },
        "arguments": {"amount": 3},
        "outcome": "decided",
    }


# What a decision comes to.


def test_an_approved_call_is_carried_out_as_it_was_shown() -> None:
    play = asks(approve(digest=DIGEST)).to_end()

    assert play.results() == {"t1c1": '{"paid": 5}'}
    assert play.told() == [
        "turn_start",
        "tool_call t1c1",
        "confirmation_required t1c1",
        "tool_start t1c1",
        "tool_end t1c1",
        "turn_end",
        "turn_start",
        "turn_end",
        "done",
    ]


def test_of_a_denied_call_the_model_reads_the_reason() -> None:
    play = asks(deny(reason="ask again in May")).to_end()

    assert play.results() == {
        "t1c1": '{"error": {"code": "denied", "message": "ask again in May"}}'
    }
    assert "tool_start t1c1" not in play.told()


def test_a_denial_without_a_reason_says_that_it_is_one() -> None:
    assert "A person denied this call." in asks("deny").to_end().results()["t1c1"]


def test_after_an_edit_the_model_reads_what_a_person_changed_the_arguments_to() -> None:
    play = asks(edit(3)).to_end()

    assert play.results()["t1c1"] == (
        'A person changed the arguments of this call to {"amount":3}.\n{"paid": 3}'
    )


def test_an_edit_is_coerced_and_checked_like_a_models_arguments() -> None:
    play = asks()
    open_question(play)

    code, message = refusal(play, edit("much"))
    assert code == INVALID_DECISION
    assert message == "the edited arguments do not fit: amount: 'much' is not of type 'number'"
    assert refusal(play, {"decision": "edit", "arguments": {}})[0] == INVALID_DECISION

    decides(play, edit("3"))
    assert play.to_end().results()["t1c1"].endswith('{"paid": 3}')


@pytest.mark.parametrize("result", [{"paid": 1}, "by hand", None, [1], 0, False])
def test_a_persons_answer_is_the_result_and_the_tool_is_not_carried_out(result: Any) -> None:
    play = asks({"decision": "respond", "result": result}).to_end()

    assert play.results() == {
        "t1c1": result
        if isinstance(result, str)
        else canonical_json(result).decode().replace(":", ": ")
    }
    assert play.errors() == {"t1c1": None}
    assert "tool_start t1c1" not in play.told()


@pytest.mark.parametrize(
    "decision",
    [
        {"decision": "edit"},
        {"decision": "respond"},
        {"decision": "happened"},
        {"decision": "perhaps"},
        {"decision": "approve", "token": "x"},
        {"decision": "approve", "callId": ""},
        {"decision": "respond", "result": float("nan")},
        {},
    ],
)
def test_a_decision_that_is_none_is_refused_before_it_is_looked_at(decision: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        Decision.model_validate({"callId": "t1c1", **decision})


# Who decides, and how often.


def test_a_digest_must_match_where_it_is_given() -> None:
    play = asks()
    open_question(play)

    code, message = refusal(play, approve(digest="0" * 64))
    assert code == INVALID_DECISION
    assert "look at it again" in message


def test_a_decision_on_what_does_not_wait_is_refused() -> None:
    play = asks()
    open_question(play)

    assert refusal(play, approve(callId="t9c9")) == (
        NO_SUCH_CALL,
        "no call t9c9 waits for a decision; waiting: t1c1",
    )


def test_a_second_decision_on_a_decided_call_changes_nothing() -> None:
    play = asks()
    open_question(play)
    decides(play, deny(by="ann"))

    assert refusal(play, approve(by="bob")) == (
        ALREADY_DECIDED,
        "call t1c1 is decided already: deny by ann",
    )
    play.run.calls.hear(Decision.model_validate({"callId": "t1c1", **approve()}))
    assert "is decided already" in play.records("decision")[1]["ignored"]
    assert play.to_end().errors() == {"t1c1": "denied"}


def test_with_a_quorum_it_takes_so_many_different_people() -> None:
    play = asks(policy={"quorum": 2})
    open_question(play)

    receipt = decides(play, approve(**ANN))
    assert (receipt.decided, receipt.missing) == (False, 1)
    assert refusal(play, approve(**ANN)) == (ALREADY_DECIDED, "ann has decided so already")
    assert refusal(play, approve())[1] == "this call needs to know who decides: say `by`"
    receipt = decides(play, approve(**BOB))
    assert (receipt.decided, receipt.missing) == (True, 0)


def test_one_denial_denies() -> None:
    play = asks(policy={"quorum": 3})
    open_question(play)
    decides(play, approve(**ANN))

    assert decides(play, deny(**BOB)).decided
    assert play.to_end().errors() == {"t1c1": "denied"}


def test_who_approved_may_deny_as_long_as_it_is_not_decided() -> None:
    play = asks(policy={"quorum": 2})
    open_question(play)
    decides(play, approve(**ANN))

    assert decides(play, deny(**ANN)).decided


def test_an_edit_starts_the_count_anew() -> None:
    play = asks(policy={"quorum": 2})
    question = open_question(play)
    decides(play, approve(**ANN))
    assert decides(play, edit(3, **BOB)).missing == 1
    assert question.digest != DIGEST
    assert refusal(play, approve(digest=DIGEST, **CAT))[0] == INVALID_DECISION
    assert refusal(play, approve(**BOB))[1] == "bob has decided so already"

    assert decides(play, approve(**ANN)).decided, "ann approved of something else before"
    assert play.to_end().results()["t1c1"].endswith('{"paid": 3}')


def test_edits_to_different_arguments_do_not_add_up() -> None:
    play = asks(policy={"quorum": 2})
    open_question(play)
    for amount, who in ((3, ANN), (4, BOB), (3, CAT)):
        receipt = decides(play, edit(amount, **who))

    assert receipt.decided, "ann and cat want the same"


def test_answers_that_differ_do_not_add_up() -> None:
    play = asks(policy={"quorum": 2})
    open_question(play)
    for result, who in ((1, ANN), (2, BOB)):
        receipt = decides(play, {"decision": "respond", "result": result, **who})
    assert (receipt.decided, receipt.missing) == (False, 1)

    assert decides(play, {"decision": "respond", "result": 2, **CAT}).decided


def test_the_runs_own_principal_cannot_decide_where_not_by_says_so() -> None:
    play = asks(policy={"notBy": "principal"}, principal={"id": "ann"})
    open_question(play)

    assert "on whose behalf a run acts" in refusal(play, approve(**ANN))[1]
    assert "say `by`" in refusal(play, approve())[1]
    assert decides(play, approve(**BOB)).decided


def test_only_the_groups_that_are_named_decide() -> None:
    play = asks(policy={"approvers": ["finance", "board"]})
    open_question(play)

    assert refusal(play, approve(groups=["sales"]))[1] == (
        "only these groups decide on this call: finance, board"
    )
    assert refusal(play, deny())[0] == INVALID_DECISION
    assert decides(play, approve(groups=["sales", "board"])).decided


def test_a_mind_can_be_changed_so_often() -> None:
    play = asks(policy={"quorum": 2})
    open_question(play)
    for count in range(MAX_COUNTED_DECISIONS):
        decides(play, edit(count, **ANN))

    assert "too many decisions" in refusal(play, edit(-1, **ANN))[1]


# Early, and remembered.


def early(desk: Desk, **decision: Any) -> bool:
    return desk.keep(Decision.model_validate({"callId": "t1c1", **decision}))


def test_a_decision_may_come_before_the_run_gets_to_its_wait() -> None:
    desk = Desk()
    assert early(desk, decision="approve")
    play = asks(desk=desk)
    open_question_or_done = play.to_end()

    assert open_question_or_done.results() == {"t1c1": '{"paid": 5}'}
    assert [entry["outcome"] for entry in play.records("decision")] == ["decided"]


def test_of_several_early_decisions_the_first_that_decides_counts() -> None:
    desk = Desk()
    for decision in ({"decision": "approve", "digest": "0"}, {"decision": "deny"}, approve()):
        early(desk, **decision)
    play = asks(desk=desk).to_end()

    assert play.errors() == {"t1c1": "denied"}
    assert ["ignored" in entry for entry in play.records("decision")] == [True, False, True]


def test_an_early_decision_is_for_its_own_call() -> None:
    desk = Desk()
    early(desk, callId="t2c1", decision="deny")
    play = asks(desk=desk, turns=2).to_end()

    assert play.errors() == {"t1c1": None, "t2c1": "denied"}


def test_so_many_early_decisions_are_kept() -> None:
    desk = Desk()
    kept = [early(desk, callId=f"t9c{n}", decision="approve") for n in range(300)]

    assert kept == [True] * MAX_EARLY_DECISIONS + [False] * (300 - MAX_EARLY_DECISIONS)


def test_a_decision_on_a_call_that_waits_or_is_decided_is_not_kept() -> None:
    play = asks()
    open_question(play)
    assert not early(play.desk, decision="approve")

    decides(play, approve())
    assert not early(play.desk, decision="approve")


def test_a_remembered_approval_is_for_every_further_call_of_the_tool() -> None:
    play = asks(approve(remember=True), turns=3).to_end()

    assert len(play.records("confirmation_required")) == 1
    assert list(play.errors().values()) == [None] * 3


def test_an_approval_that_is_not_remembered_is_for_one_call() -> None:
    assert len(asks(turns=3).to_end().records("confirmation_required")) == 3


@pytest.mark.parametrize(
    "decision", [deny(remember=True), {"decision": "respond", "result": 1, "remember": True}]
)
def test_only_an_approval_is_remembered(decision: dict[str, Any]) -> None:
    assert len(asks(decision, turns=2).to_end().records("confirmation_required")) == 2


def test_a_tool_is_remembered_where_all_who_approved_want_it() -> None:
    one = asks(
        approve(remember=True, **ANN), approve(**BOB), policy={"quorum": 2}, turns=1
    ).to_end()
    assert not one.desk.remembers("pay")

    both = asks(
        approve(**ANN),
        edit(3, remember=True, **BOB),
        approve(remember=True, **ANN),
        policy={"quorum": 2},
    ).to_end()
    assert both.desk.remembers("pay"), "what ann thought of the first amount is not asked"


# In time.


@pytest.mark.parametrize(
    ("on_timeout", "code"),
    [(None, "approval_timeout"), ("deny", "approval_timeout"), ("approve", None)],
)
def test_when_nobody_decides_in_time_the_policy_does(on_timeout: Any, code: str | None) -> None:
    play = asks("expire", policy={"onTimeout": on_timeout}).to_end()

    assert play.errors() == {"t1c1": code}
    assert play.records("decision")[0]["outcome"] == "expired"
    assert play.run.status == "completed"


def test_a_policy_that_fails_ends_the_run_and_every_call_has_its_result() -> None:
    play = Play(
        tool("pay", side_effects=True, approval=ApprovalPolicy(on_timeout="fail")),
        tool("mail", side_effects=True),
        tool("look"),
        model=[says("", call("pay"), call("mail"), call("look"))],
        decisions={"t1c1": ["expire"]},
    ).to_end()

    assert (play.failure.code, play.failure.message) == (
        "approval_timeout",
        "nobody decided on `pay` in time",
    )
    assert play.errors() == {"t1c1": "approval_timeout", "t1c2": "cancelled", "t1c3": None}


def test_a_decision_after_the_time_is_refused() -> None:
    play = asks()
    question = open_question(play)
    play.desk.expire(question)

    assert refusal(play, approve()) == (ALREADY_DECIDED, "call t1c1 is decided already: expired")


def test_people_are_reminded_until_somebody_answers_and_the_time_is_over() -> None:
    play = asks(policy={"remind": "4h", "timeout": "10h", "quorum": 2})
    question = open_question(play)
    hours = timedelta(hours=1)

    assert question.alarm() == 4 * hours
    assert not question.rang(question.alarm())
    play.run.calls.remind(1, question)
    assert question.alarm() == 4 * hours
    decides(play, approve(**ANN))
    assert question.alarm() == 6 * hours, "somebody has answered: only the end is waited for"
    assert question.rang(question.alarm())

    asked = play.records("confirmation_required")
    assert [entry.get("reminder", 0) for entry in asked] == [0, 1]


def test_a_reminder_never_comes_after_the_end() -> None:
    question = open_question(asks(policy={"remind": "4h", "timeout": "6h"}))
    assert not question.rang(question.alarm())

    assert question.alarm() == timedelta(hours=2)
    assert question.rang(question.alarm())


def test_people_are_reminded_only_so_often() -> None:
    question = open_question(asks(policy={"remind": "1s", "timeout": "7d"}))
    question.reminders = MAX_REMINDERS

    assert question.alarm() == parse_duration("7d")


# Reconcile: a call that may be carried out once, and whose end is unknown.

LOST = Unknown("`pay` was begun, and its end was never heard of: it took too long")
ONCE: dict[str, Any] = {"of": {"idempotent": False}}


def lost(*decisions: Any, ends: Any = (LOST, {"paid": 5}), **more: Any) -> Play:
    outcomes = {"pay": ends}
    return asks("approve", *decisions, outcomes=outcomes, **ONCE, **more)


def reconciling(play: Play) -> Any:
    """Take a run to where it asks what became of the call."""
    open_question(play)
    decides(play, approve())
    step = play.run.next()
    assert isinstance(step, CarryOut)
    for _ in ("approved", "lost"):
        play.see_on(step.turn, step.turn.calls[0])
    return play.desk.open()[0]


def test_a_call_whose_end_is_unknown_is_asked_about() -> None:
    waiting = reconciling(lost()).waiting()

    assert (waiting.kind, waiting.call_id) == ("reconcile", "t1c1")
    assert "its end was never heard of" in waiting.question
    assert "`did_not_happen` carries it out again" in waiting.question
    assert waiting.digest != DIGEST


@pytest.mark.parametrize(
    "decision", [{"decision": "happened", "result": 1}, {"decision": "respond", "result": 1}]
)
def test_a_call_that_happened_has_the_result_that_a_person_gives(decision: Any) -> None:
    play = lost(decision).to_end()

    assert play.results() == {"t1c1": "1"}
    assert play.told().count("tool_start t1c1") == 1


def test_a_call_that_did_not_happen_is_carried_out_again() -> None:
    play = lost("did_not_happen").to_end()

    assert play.results() == {"t1c1": '{"paid": 5}'}
    assert play.told().count("tool_start t1c1") == 2


@pytest.mark.parametrize("decision", ["give_up", "deny", "expire"])
def test_a_call_that_is_given_up_is_unknown_to_the_model(decision: str) -> None:
    play = lost(decision).to_end()

    assert play.errors() == {"t1c1": "outcome_unknown"}
    assert play.told().count("tool_start t1c1") == 1


def test_a_late_or_repeated_approval_never_repeats_a_call() -> None:
    play = lost()
    reconciling(play)

    assert "may have happened" in refusal(play, approve())[1]
    assert "look at it again" in refusal(play, approve(digest=DIGEST))[1]
    assert "cannot be edited" in refusal(play, edit(3))[1]


def test_an_early_approval_of_a_call_that_was_never_asked_about_never_repeats_it() -> None:
    desk = Desk()
    early(desk, decision="approve")
    early(desk, decision="approve", digest=DIGEST)
    play = asks(
        "give_up", policy={"require": "never"}, outcomes={"pay": LOST}, desk=desk, **ONCE
    ).to_end()

    assert play.told().count("tool_start t1c1") == 1
    assert play.errors() == {"t1c1": "outcome_unknown"}


def test_an_approval_with_the_digest_that_is_shown_now_carries_it_out_again() -> None:
    play = lost()
    question = reconciling(play)

    assert decides(play, approve(digest=question.digest)).decided


def test_a_call_can_be_lost_and_asked_about_again() -> None:
    play = lost("did_not_happen", "did_not_happen", ends=(LOST, LOST, {"paid": 5})).to_end()

    assert play.told().count("tool_start t1c1") == 3
    assert play.results() == {"t1c1": '{"paid": 5}'}


def test_a_result_that_a_person_gives_is_checked_like_a_tools() -> None:
    pay = tool("pay", side_effects=True, idempotent=False, output={"type": "integer"})
    play = Play(
        pay,
        model=[says("", call("pay")), says("done")],
        outcomes={"pay": LOST},
        decisions={"t1c1": ["approve", {"decision": "happened", "result": "x"}]},
    ).to_end()

    assert play.errors() == {"t1c1": "invalid_output"}


def test_a_run_that_must_never_wait_does_not_ask_and_does_not_repeat() -> None:
    pay = tool("pay", side_effects=True, idempotent=False, approval=ApprovalPolicy(require="never"))
    play = Play(
        pay,
        model=[says("", call("pay")), says("done")],
        outcomes={"pay": LOST},
        approvals="deny",
    ).to_end()

    assert play.errors() == {"t1c1": "outcome_unknown"}


@pytest.mark.parametrize("verdict", ["happened", "did_not_happen", "give_up"])
def test_what_is_for_unknown_outcomes_is_refused_elsewhere(verdict: str) -> None:
    play = asks()
    open_question(play)

    assert refusal(play, {"decision": verdict, "result": 1})[1] == (
        f"`{verdict}` is for calls whose outcome is unknown"
    )
