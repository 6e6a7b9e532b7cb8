"""A claim shows that an approver looks at a call, and is no lock."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast.runtime.narration.phrases import claim_phrase
from holdfast.schemas.decision import MAX_CLAIM_SECONDS, ApprovalClaim, Claimed
from holdfast.schemas.run import Principal
from holdfast.workflows.engine.approvals import pending
from holdfast.workflows.engine.approvals.verdicts import DecisionRejected
from tests.engine.asking import ANN, BOB, approve, asks, decides, edit, open_question
from tests.engine.driver import NOON, Play


def claims(
    play: Play, by: str = "ann", seconds: int = 900, at: datetime = NOON, **more: Any
) -> str:
    """Make a claim, or end it; who then looks at the call."""
    claim = ApprovalClaim.model_validate({"callId": "t1c1", "by": by, "seconds": seconds, **more})
    play.desk.claim(claim, at)
    [question] = play.desk.list_open()
    return claim_phrase(question.to_pending_approval("run"), at)


def test_a_claim_is_shown_until_its_time_and_leaves_no_entry() -> None:
    play = asks()
    question, before = open_question(play), len(play.log)

    assert claims(play) == "ann is looking at this until 12:15 UTC"

    shown = question.to_pending_approval("run")
    assert shown.to_json()["claim"] == {"by": "ann", "until": "2026-03-01T12:15:00.000Z"}
    assert claim_phrase(shown, NOON, "Ann") == "you are looking at this until 12:15 UTC"
    assert claim_phrase(shown, NOON + timedelta(minutes=15)) == ""
    assert len(play.log) == before


def test_another_person_takes_it_over_and_their_own_ends_it_alone() -> None:
    play = asks()
    open_question(play)
    claims(play)

    assert claims(play, "bob").startswith("bob is")
    with pytest.raises(DecisionRejected, match="nothing to give back"):
        claims(play, "ann", 0)
    assert claims(play, "Bob", 0) == ""


def test_others_still_decide_and_the_claim_ends_with_the_call() -> None:
    play = asks()
    open_question(play)
    claims(play)

    assert decides(play, approve(**BOB)).decided
    with pytest.raises(DecisionRejected, match="is decided already"):
        claims(play)


def test_of_several_decisions_their_own_ends_a_claim() -> None:
    play = asks(policy={"quorum": 2})
    question = open_question(play)
    claims(play)

    decides(play, edit(6, **BOB))
    assert question.claim.shown == Claimed(by="ann", until="2026-03-01T12:15:00.000Z")
    decides(play, edit(7, **ANN))
    assert question.claim.shown is None


def test_who_may_not_decide_claims_nothing() -> None:
    play = asks(
        policy={
            "approvers": ["finance"],
            "notBy": "principal",
            "forward": [{"after": "1h", "to": ["heads"]}],
        },
        principal=Principal(id="Cat"),
    )
    open_question(play)

    with pytest.raises(DecisionRejected, match="only these groups decide"):
        claims(play, groups=["legal"])
    with pytest.raises(DecisionRejected, match="the principal of the run cannot decide"):
        claims(play, "cat", groups=["finance"])
    with pytest.raises(DecisionRejected, match="only these groups decide"):
        claims(play, groups=["heads"])
    assert claims(play, at=NOON + timedelta(hours=1), groups=["heads"]).startswith("ann is")


def test_a_claim_ends_at_the_latest_with_the_approval() -> None:
    play = asks(policy={"timeout": "10m"})
    open_question(play)

    assert claims(play).endswith("until 12:10 UTC")
    with pytest.raises(DecisionRejected, match="expired at"):
        claims(play, at=NOON + timedelta(minutes=10))
    with pytest.raises(ValueError, match="less than or equal to 28800"):
        claims(play, seconds=MAX_CLAIM_SECONDS + 1)


def test_claims_cannot_use_up_the_updates_that_decisions_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pending, "MAX_CLAIMS", 3)
    play = asks()
    open_question(play)
    for _ in range(3):
        claims(play)

    with pytest.raises(DecisionRejected, match="too many claims"):
        claims(play)
    assert claims(play, seconds=0) == ""
    assert decides(play, approve(**ANN)).decided


def test_the_name_of_a_claim_is_unverified_where_decisions_are_signed() -> None:
    play = asks(policy={"signed": True})
    open_question(play)

    assert claims(play).startswith("ann (unverified) is looking")


def test_a_name_makes_no_second_line() -> None:
    play = asks()
    open_question(play)

    claims(play, "ann\nApproved by bob")
    [question] = play.desk.list_open()
    assert "\n" not in claim_phrase(
        question.to_pending_approval("run"), datetime.min.replace(tzinfo=UTC)
    )
