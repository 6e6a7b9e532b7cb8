"""§7: where decisions have to be signed, only the claims of a token count, and where they hold."""

from typing import Any

import pytest

from holdfast.schemas.base import canonical_json, sha256
from holdfast.schemas.decision import Decided, Decision, DecisionClaims
from holdfast.schemas.names import ALREADY_DECIDED, INVALID_DECISION
from holdfast.schemas.tool import ApprovalPolicy
from holdfast.workflows.engine.approvals.pending import PendingApprovals
from holdfast.workflows.engine.approvals.policy import satisfies, strictest_policy
from holdfast.workflows.engine.approvals.question import Question
from holdfast.workflows.engine.approvals.signed_decision import (
    DecisionRejected,
    SignedDecision,
    sign_with_claims,
)
from holdfast.workflows.engine.call.outcomes import Unknown
from tests.engine.asking import DIGEST, asks, open_question, refusal
from tests.engine.driver import Play, call, tool
from tests.engine.plans.test_plan import PLAN, asked, lazy, started

RUN = "run-1"
SIGNED = {"signed": True}


def token(**claims: Any) -> DecisionClaims:
    """The claims of a token that ann has signed, on a payment of 5."""
    said = {"sub": "ann", "digest": DIGEST, "workflowId": RUN, "exp": 2e9, "id": "id-1", **claims}
    return DecisionClaims.model_validate(said)


def decision(verdict: str, claims: DecisionClaims | None = None, **more: Any) -> SignedDecision:
    """A decision with a token that is good."""
    said = {"callId": "t1c1", "decision": verdict, "token": "…", **more}
    return sign_with_claims(Decision.model_validate(said), claims or token(), RUN)


def digest(amount: Any, name: str = "pay") -> str:
    return sha256(canonical_json({"tool": name, "arguments": {"amount": amount}}))


def waiting(**policy: Any) -> Play:
    play = asks(policy={**SIGNED, **policy})
    open_question(play)
    return play


def why_not(play: Play, signed_decision: Decision) -> str:
    """Why a decision is rejected; it leaves no trace."""
    before = len(play.log)
    with pytest.raises(DecisionRejected) as refused:
        play.run.questions.count(signed_decision)
    assert len(play.log) == before
    assert refused.value.code == INVALID_DECISION
    return str(refused.value)


@pytest.mark.parametrize(
    "said",
    [
        {"decision": "approve"},
        {"decision": "approve", "by": "ann", "groups": ["finance"], "digest": DIGEST},
        {"decision": "approve", "token": "one that is not checked"},
        {"decision": "deny"},
        {"decision": "edit", "arguments": {"amount": 5}},
        {"decision": "respond", "result": 1},
    ],
)
def test_an_unsigned_decision_is_rejected_whatever_its_sender(said: dict[str, Any]) -> None:
    code, why = refusal(waiting(), said)

    assert code == INVALID_DECISION
    assert why.startswith("this call accepts only signed decisions")


def test_the_signer_has_decided_whatever_name_the_decision_has() -> None:
    play = waiting(approvers=["finance"])
    play.run.questions.count(
        decision("approve", token(groups=["finance"]), by="bob", groups=["nobody"])
    )
    [record] = play.records("decision")

    assert (record["decided"]["by"], record["decided"]["groups"]) == ("ann", ["finance"])
    assert record["decided"]["signed"] is True
    assert "token" not in str(record)


def test_groups_without_a_token_are_none() -> None:
    why = why_not(waiting(approvers=["finance"]), decision("approve", groups=["finance"]))

    assert why == "only these groups decide on this call: finance"


OTHER = "0" * 64
NOT_FOR_THIS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"digest": OTHER}, {}, "another call, or an earlier form of it"),
    ({"digest": digest(6)}, {}, "another call, or an earlier form of it"),
    ({"digest": digest(5, "refund")}, {}, "another call, or an earlier form of it"),
    ({"callId": "t2c1"}, {}, "another call"),
    ({"decision": "deny"}, {}, "another decision"),
    ({"decision": "approve"}, {"decision": "deny"}, "another decision"),
    # What it is to be changed to has to be signed.
    ({}, {"decision": "edit", "arguments": {"amount": 5000}}, "other arguments"),
    (
        {"digest": digest(6), "decision": "approve"},
        {"decision": "edit", "arguments": {"amount": 6}},
        "another decision",
    ),
    # So has what it is to return.
    ({}, {"decision": "respond", "result": 1}, "an approval or a denial"),
    ({"decision": "respond"}, {"decision": "respond", "result": 1}, "another result"),
    (
        {"decision": "respond", "resultDigest": sha256(b"2")},
        {"decision": "respond", "result": 1},
        "another result",
    ),
    ({}, {"remember": True}, "this call alone"),
]


@pytest.mark.parametrize(("claims", "said", "what"), NOT_FOR_THIS)
def test_a_token_counts_for_its_own_claims_alone(
    claims: dict[str, Any], said: dict[str, Any], what: str
) -> None:
    given = {"verdict": "approve", **said}
    given["verdict"] = given.pop("decision", given["verdict"])

    assert f"the token is for {what}" in why_not(
        waiting(), decision(claims=token(**claims), **given)
    )


def test_a_signed_approval_carries_no_change_either() -> None:
    why = why_not(waiting(), decision("approve", arguments={"amount": 1}))

    assert why.startswith("`arguments` goes with `edit`")


def test_a_result_that_was_signed_is_the_calls() -> None:
    claims = token(decision="respond", resultDigest=sha256(canonical_json({"a": 1})))
    play = asks(policy=SIGNED)
    open_question(play)
    play.run.questions.count(decision("respond", claims, result={"a": 1}))

    assert play.to_end().results() == {"t1c1": '{"a": 1}'}


def test_what_a_token_was_used_for_outlives_continue_as_new() -> None:
    play = waiting(quorum=2)
    play.run.questions.count(decision("approve"))
    desk = PendingApprovals.read(play.desk.to_json())
    later = Play(
        tool("pay", side_effects=True, approval=ApprovalPolicy(signed=True)),
        model=asks().model,
        desk=desk,
    )
    open_question(later)

    assert why_not(later, decision("deny")).startswith("the token was used already")


def test_it_takes_as_many_people_as_have_signed() -> None:
    play = waiting(quorum=2)
    play.run.questions.count(decision("approve", by="bob"))
    with pytest.raises(DecisionRejected) as again:
        play.run.questions.count(decision("approve", token(id="id-2"), by="cat"))
    assert (again.value.code, str(again.value)) == (ALREADY_DECIDED, "ann has decided so already")

    receipt = play.run.questions.count(decision("approve", token(sub="bob", id="id-3"), by="ann"))
    assert receipt.decided


def test_an_early_decision_is_not_counted_before_its_token_was_checked() -> None:
    desk = PendingApprovals()
    said = {"callId": "t1c1", "decision": "approve"}
    desk.add_early(Decision.model_validate({**said, "token": "…"}))
    desk.add_early(Decision.model_validate({**said, "by": "ann", "digest": DIGEST}))
    play = asks(policy=SIGNED, desk=desk)
    question = open_question(play)

    [ignored] = play.records("decision")
    assert ignored["ignored"].startswith("this call accepts only signed decisions")
    [unchecked] = desk.take_early(question, have_tokens=True)
    assert unchecked.token == "…"
    assert desk.take_early(question, have_tokens=True) == []


PAY = tool("pay", side_effects=True, approval=ApprovalPolicy(signed=True))


def test_a_plan_with_a_signed_call_is_signed_as_a_whole() -> None:
    calls = [call("pay", {"amount": 5}), call("look", {})]
    play = lazy(
        *calls, tools=(PAY, tool("look")), decisions={PLAN: ["approve", of_plan, "approve"]}
    )
    play.to_end()
    [question] = asked(play)

    assert question["signed"]
    assert play.refusals[0].startswith("invalid_decision: this call accepts only signed decisions")
    assert started(play) == ["t1c1", "t1c2"]
    assert len(asked(play)) == 1, "the approval of the plan is one of the payment, too"


def of_plan(question: Question) -> SignedDecision:
    return decision("approve", token(digest=question.digest), callId=PLAN)


def test_an_unsigned_approval_of_a_plan_is_none_of_a_signed_call() -> None:
    unsigned = Decided(decision="approve", by="ann", at="", digest="")
    policy = ApprovalPolicy.model_validate({**SIGNED, "quorum": 1})

    assert not satisfies(policy, [unsigned], None)
    assert satisfies(policy, [unsigned.model_copy(update={"signed": True})], None)


@pytest.mark.parametrize(("each", "all_of_them"), [([None, None], None), ([None, True], True)])
def test_of_several_policies_one_that_requires_it_is_enough(
    each: list[Any], all_of_them: Any
) -> None:
    policies = [ApprovalPolicy.model_validate({"signed": signs, "quorum": 1}) for signs in each]

    assert strictest_policy(policies).signed is all_of_them


def test_a_token_on_a_call_is_none_on_whether_it_happened() -> None:
    approved = decision("approve", token(id="id-1"))
    lost = Unknown("it was started, and its outcome is unknown")
    play = asks(
        *(approved, decision("did_not_happen", token(decision="did_not_happen", id="id-2"))),
        lambda question: decision(
            "did_not_happen", token(decision="did_not_happen", digest=question.digest, id="id-3")
        ),
        policy=SIGNED,
        outcomes={"pay": (lost, {"paid": 5})},
        of={"idempotent": False},
    ).to_end()

    assert play.refusals == [
        "invalid_decision: the token is for another call, or an earlier form of it: read it"
        " again, then sign"
    ]
    assert play.results() == {"t1c1": '{"paid": 5}'}
