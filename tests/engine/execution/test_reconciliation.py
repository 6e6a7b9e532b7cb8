"""What people are shown of a call whose outcome is unknown; see `tests/engine/plays/outcomes`."""

from datetime import datetime
from typing import Any

from holdfast.runtime.narration.question_view import QuestionView
from holdfast.workflows.engine.approvals.pending import PendingApprovals
from holdfast.workflows.engine.call.outcomes import Unknown
from tests.engine.asking import DIGEST, asks, early
from tests.engine.driver import run_again


def shown(reason: str, attempts: int = 1) -> list[Any]:
    """The pending approval of each attempt of a call that is lost for this reason."""
    found: list[Any] = []

    def again(question: Any) -> Any:
        found.append(question.to_pending_approval("execution"))
        return run_again(question) if len(found) < attempts else "give_up"

    lost = (Unknown(reason),) * attempts
    asks("approve", *[again] * attempts, outcomes={"pay": lost}, of={"idempotent": False}).to_end()
    return found


def test_a_call_whose_end_is_unknown_is_asked_about() -> None:
    [waiting] = shown("the outcome of `pay` is unknown: it\x1b[2J\u202e failed")

    assert (waiting.kind, waiting.call_id) == ("reconcile", "t1c1")
    assert waiting.question.startswith("the outcome of `pay` is unknown: it failed. "), "printable"
    assert "`did_not_happen` runs it again" in waiting.question
    assert waiting.digest != DIGEST


def test_each_attempt_is_shown_with_its_time_and_asked_about_with_another_digest_and_nonce() -> (
    None
):
    found = shown("it is unknown", attempts=3)

    starts = [[datetime.fromisoformat(at) for at in one.attempts] for one in found]
    assert [len(each) for each in starts] == [1, 2, 3]
    assert starts[1] == starts[2][:2]
    assert QuestionView.of(found[2]).heading.startswith("Attempt 3, outcome unknown: Payment")
    assert len({(one.digest, one.nonce) for one in found}) == 3


def test_a_decision_with_a_nonce_never_comes_before_its_question() -> None:
    assert not early(PendingApprovals(), decision="did_not_happen", digest=DIGEST, nonce="n")
