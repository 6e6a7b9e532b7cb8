"""The claim on one question: an approver shows others that they look at the call.

A claim is part of the run, which is what all inboxes, Slack and terminals read: an inbox has no
store, so that a claim of its own would be lost with it, and unseen by others. It is no entry of the
log, as it decides nothing. It ends with its question, with a decision of the same person, and at
its time, which readers compare with their clock: it needs no timer, no search attribute and no
signature. It locks nothing.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from holdfast.schemas.base import rfc3339
from holdfast.schemas.decision import ApprovalClaim, Claimed
from holdfast.validation.text_safety import is_same_person
from holdfast.workflows.engine.approvals.verdicts import invalid


@dataclass
class QuestionClaim:
    """The claim on one question; `shown` may be past."""

    shown: Claimed | None = None

    def is_of(self, person: str | None) -> bool:
        return self.shown is not None and is_same_person(self.shown.by, person)

    def check(self, claim: ApprovalClaim) -> None:
        """Raise `DecisionRejected` if a person gives back what they do not have."""
        if not (claim.seconds or self.is_of(claim.by)):
            raise invalid("you have no claim on this call: there is nothing to give back")

    def take(self, claim: ApprovalClaim, at: datetime, latest: datetime) -> Claimed:
        """Show a checked claim of this time until `latest`, or end it; return it."""
        until = min(at + timedelta(seconds=claim.seconds), latest)
        claimed = Claimed(by=claim.by, until=rfc3339(until))
        self.shown = claimed if claim.seconds else None
        return claimed

    def end_of(self, person: str | None) -> None:
        """End the claim of a person who has decided."""
        if self.is_of(person):
            self.shown = None
