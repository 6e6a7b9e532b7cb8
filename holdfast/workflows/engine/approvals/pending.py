"""The pending approvals of one run: its open questions, and the decisions on them.

A decision that arrives before its question is stored. A decision on a question that already has its
ruling is rejected: a decision counts once.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from pydantic import Field
from pydantic.dataclasses import dataclass

from holdfast.runtime.narration.phrases import author_phrase
from holdfast.schemas.base import MUTABLE, json_size, rfc3339
from holdfast.schemas.decision import OTHER_QUESTION, ApprovalClaim, Claimed, Decided, Decision
from holdfast.schemas.names import ALREADY_DECIDED, INVALID_DECISION, NO_SUCH_CALL
from holdfast.schemas.phrases import first_names, quote_value
from holdfast.schemas.run import CallApprover
from holdfast.validation.schema_node import ValidationLimits
from holdfast.workflows.engine.approvals import verdicts
from holdfast.workflows.engine.approvals.question import Question
from holdfast.workflows.engine.approvals.rulings import Moved
from holdfast.workflows.engine.state.redaction import truncate

MAX_EARLY_DECISIONS = 256
# The latest decided questions: a decision on one of them is late, on any other too early.
MAX_CLOSED_QUESTIONS = 10_000
SHOWN_BYTES = 700_000
MAX_CALLS_NAMED = 10
# Of one execution: the server accepts 2,000 updates of all kinds, and decisions need some.
MAX_CLAIMS = 500
_LATE = "the approval of call {call} expired at {expiry}; this decision was received at {at}"


@dataclass(config=MUTABLE)
class PendingApprovals:
    """The open questions of one run, and the decisions that arrived before their questions.

    As JSON, it is its own snapshot while no question is open. `early` holds decisions without a
    question yet, `closed` the outcomes by call, `remembered` the tools, or rules of tools, that
    people approved for the rest of the run, `approvers` who approved each of these, and `tokens`
    the use of each token.
    """

    early: list[Decision] = Field(default=[])
    closed: dict[str, str] = Field(default={})
    remembered: list[str] = Field(default=[])
    approvers: dict[str, CallApprover] = Field(default={})
    tokens: dict[str, str] = Field(default={})

    def __post_init__(self) -> None:
        self._open: dict[str, Question] = {}
        self._holds = self._claims = 0

    def list_open(self) -> list[Question]:
        """List the questions without a ruling, in the order of their requests."""
        return list(self._open.values())

    def describe_open(self, run_id: str, title: str = "") -> list[dict[str, Any]]:
        """Return the open questions of this execution as JSON, at most a megabyte in total.

        If they are larger, arguments are truncated, and `cut` holds their original size.
        """
        waiting = [one.to_pending_approval(run_id, title).to_json() for one in self._open.values()]
        if json_size(waiting) <= SHOWN_BYTES:
            return waiting
        room = SHOWN_BYTES // len(waiting) // 2
        return [
            {
                **one,
                "arguments": truncate(one["arguments"], room),
                "cut": json_size(one["arguments"]),
            }
            for one in waiting
        ]

    def add(self, question: Question) -> list[Decision]:
        """Add a question, and return the decisions before it, but not those with a token."""
        self._open[question.call_id] = question
        self.closed.pop(question.call_id, None)
        return self.take_early(question, have_tokens=False)

    def take_early(self, question: Question, *, have_tokens: bool) -> list[Decision]:
        """Take the early decisions on a question, with tokens to verify or without.

        Those of groups that only a later forward entitles stay.
        """
        own = [each for each in self.early if each.call_id == question.call_id]
        taken = [
            each
            for each in own
            if (each.token is not None) == have_tokens
            and not question.waits_for_forward(verdicts.claimed_groups(each))
        ]
        self.early = [each for each in self.early if each not in taken]
        return taken

    def add_early(self, decision: Decision) -> bool:
        """Store a decision whose question can still come; return whether it is stored.

        A nonce is of a question that was shown: it cannot come before.
        """
        known = decision.call_id in self._open or decision.call_id in self.closed
        if known or bool(decision.nonce) or len(self.early) >= MAX_EARLY_DECISIONS:
            return False
        self.early.append(decision)
        return True

    def name_unused(self) -> str:
        calls = dict.fromkeys(quote_value(decision.call_id) for decision in self.early)
        return first_names(calls, MAX_CALLS_NAMED)

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Let no question expire while the time or the token of a decision is checked."""
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1

    @property
    def is_held(self) -> bool:
        return self._holds > 0

    def find_open(self, call_id: str) -> Question | None:
        return self._open.get(call_id)

    def check(
        self, decision: Decision, at: datetime, limits: ValidationLimits, run_id: str = ""
    ) -> tuple[Question, Decision]:
        """Return the question and meaning of a decision at a time, or raise `DecisionRejected`.

        Nothing is changed. With the `run_id` of the execution, which replays do not have, the nonce
        is compared too.
        """
        question = self._find_at(decision.call_id, at)
        if run_id and decision.nonce and decision.nonce != question.nonce(run_id):
            raise verdicts.DecisionRejected(INVALID_DECISION, OTHER_QUESTION)
        if isinstance(decision, verdicts.SignedDecision):
            verdicts.check_unused(decision, self.tokens)
        return question, question.as_of(at).check(decision, limits)

    def _find_at(self, call_id: str, at: datetime) -> Question:
        """Return the question that is open at a time, or raise `DecisionRejected`."""
        if (question := self._open.get(call_id)) is not None:
            if question.expires_at <= at:
                expired_at = rfc3339(question.expires_at)
                text = _LATE.format(call=call_id, expiry=expired_at, at=rfc3339(at))
                raise verdicts.DecisionRejected(ALREADY_DECIDED, text)
            return question
        if call_id in self.closed:
            raise verdicts.DecisionRejected(
                ALREADY_DECIDED, f"call {call_id} is decided already: {self.closed[call_id]}"
            )
        waiting = first_names(self._open, MAX_CALLS_NAMED) or "none"
        raise verdicts.DecisionRejected(
            NO_SUCH_CALL, f"no call {call_id} waits for a decision; waiting: {waiting}"
        )

    def check_claim(self, claim: ApprovalClaim, at: datetime) -> Question:
        """Return the question of a claim of this time, or raise `DecisionRejected`.

        Nothing is changed. The person must be one who may decide, on any arguments.
        """
        question = self._find_at(claim.call_id, at)
        now = question.as_of(at)
        person = Decision(
            call_id=claim.call_id, decision="approve", by=claim.by, groups=claim.groups
        )
        verdicts.check_person(person, now.policy, now.forwards, now.principal)
        question.claim.check(claim)
        if claim.seconds and self._claims >= MAX_CLAIMS:
            raise verdicts.invalid("too many claims were made in this run: decide without one")
        return question

    def claim(self, claim: ApprovalClaim, at: datetime) -> Claimed:
        """Show that a person looks at a question, or does not any more; raises as `check_claim`."""
        question = self.check_claim(claim, at)
        self._claims += 1
        return question.claim.take(claim, at, question.expires_at)

    def count(
        self, decision: Decision, at: datetime, limits: ValidationLimits
    ) -> tuple[Question, Decided]:
        """Count a decision of this time on an open question, or raise `DecisionRejected`."""
        question, meant = self.check(decision, at, limits)
        decided = question.count(meant, at, limits)
        if isinstance(decision, verdicts.SignedDecision):
            self.tokens[decision.claims.id] = decision.token_use
            if len(self.tokens) > MAX_CLOSED_QUESTIONS:
                del self.tokens[next(iter(self.tokens))]
        if isinstance(question.ruling, Moved):
            self.withdraw(question.call_id)
        elif question.ruling is not None:
            author = f" by {author_phrase(decided)}" if decided.by else ""
            self._close(question, f"{decided.decision}{author}")
        return question, decided

    def release_remembered(self, question: Question, at: datetime) -> Iterator[tuple[str, Decided]]:
        """Approve the other pending calls of a tool that people approved for the whole run.

        Yield the decisions that approve each. A signed decision, and an edit, are for one call.
        Questions that had expired at the time of the decision stay.
        """
        if question.kind != "call" or question.policy.signed or not question.approves_always:
            return
        for other in self.list_open():
            is_same = (other.kind, other.remember_key) == ("call", question.remember_key)
            is_edited = other.last_edit is not None
            if is_same and not is_edited and len(other.applied) < 2 and at < other.expires_at:
                released = other.approve_like(question)
                self._close(other, f"approve with {question.call_id}")
                yield from ((other.call_id, decided) for decided in released)

    def forget_tools(self, names: Iterable[str]) -> None:
        """Forget that people approved tools of these names for the rest of the run."""
        gone = set(names)
        kept = [key for key in self.remembered if key.partition(" ")[0] not in gone]
        self.remembered = kept
        self.approvers = {key: by for key, by in self.approvers.items() if key in kept}

    def expire(self, question: Question) -> None:
        question.expire()
        self._close(question, "expired")

    def renew(self, by: str, now: datetime) -> list[tuple[Question, Decided]]:
        """Close the questions that wait for the principal's new token."""
        kind = "principal_expired"
        waiting = [one for one in self.list_open() if one.kind == kind and now < one.expires_at]
        for question in waiting:
            self._close(question, f"token renewed by {by}")
        return [(question, question.renew(by, now)) for question in waiting]

    def withdraw(self, call_id: str) -> None:
        """Drop the question on a call, if any, because the run ends or a message arrived."""
        self._open.pop(call_id, None)

    def _close(self, question: Question, outcome: str) -> None:
        self._open.pop(question.call_id, None)
        self.closed[question.call_id] = outcome
        if len(self.closed) > MAX_CLOSED_QUESTIONS:
            del self.closed[next(iter(self.closed))]
        if question.approves_always and question.kind == "call":
            key = question.remember_key
            self.remembered = list(dict.fromkeys([*self.remembered, key]))
            self.approvers = {**self.approvers, key: question.approver}
