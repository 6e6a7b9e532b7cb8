"""The desk: where the questions of one run are put, and people's decisions come in.

It keeps a decision that comes before its question, and turns away one on a question that has its
ruling: a decision counts once.
"""

from datetime import datetime
from typing import Any

from holdfast.schemas.base import Lenient, json_size
from holdfast.schemas.decision import Decided, Decision, Receipt
from holdfast.schemas.names import ALREADY_DECIDED, INVALID_DECISION, NO_SUCH_CALL
from holdfast.schemas.phrases import first_names, quote_value
from holdfast.workflows.engine.approvals.question import DecisionRejected, Question
from holdfast.workflows.engine.approvals.signed_decision import SignedDecision
from holdfast.workflows.engine.state.truncation import truncate

MAX_EARLY_DECISIONS = 256
# So many of what was decided last are told from what never waited.
MAX_CLOSED_QUESTIONS = 10_000
SHOWN_BYTES = 700_000
MAX_CALLS_NAMED = 10


class PendingApprovals(Lenient, frozen=False):
    """The questions of one run, and the decisions that came before theirs.

    As JSON, it is its own snapshot while no question is open. `early` are decisions without a
    question yet, `closed` the outcomes by call, `remembered` the tools that people approved for
    the rest of the run, `tokens` what each token was used for.
    """

    early: list[Decision] = []
    closed: dict[str, str] = {}
    remembered: list[str] = []
    tokens: dict[str, str] = {}
    _open: dict[str, Question] = {}
    # Early decisions whose token is still to be checked.
    _unchecked: list[Decision] = []

    def list_open(self) -> list[Question]:
        """The questions without a ruling, in the order in which they were asked."""
        return list(self._open.values())

    def describe_open(self) -> list[dict[str, Any]]:
        """The open questions as JSON, in all under a megabyte.

        Where they are more, arguments are shown in part, and `cut` says how large they are.
        """
        waiting = [question.to_pending_approval().to_json() for question in self._open.values()]
        if json_size(waiting) <= SHOWN_BYTES:
            return waiting
        room = SHOWN_BYTES // len(waiting) // 2
        return [_cut(one, room) for one in waiting]

    @property
    def has_ruling(self) -> bool:
        """Whether a question of the run has had its ruling."""
        return bool(self.closed)

    def is_always_approved(self, tool: str) -> bool:
        """Whether a person approved every further call of the tool."""
        return tool in self.remembered

    def add(self, question: Question) -> list[Decision]:
        """Put a question; the decisions that are there for it already are handed back, but for
        those whose token is to be checked first."""
        self._open[question.call_id] = question
        self.closed.pop(question.call_id, None)
        early = [decision for decision in self.early if decision.call_id == question.call_id]
        self.early = [decision for decision in self.early if decision.call_id != question.call_id]
        self._unchecked += [decision for decision in early if decision.token is not None]
        return [decision for decision in early if decision.token is None]

    def take_unverified(self, question: Question) -> list[Decision]:
        """The early decisions on a question whose token is to be checked; each is given once."""
        found = [each for each in self._unchecked if each.call_id == question.call_id]
        self._unchecked = [each for each in self._unchecked if each.call_id != question.call_id]
        return found

    def add_early(self, decision: Decision) -> bool:
        """Keep a decision whose question has not been asked yet, if it can still come."""
        known = decision.call_id in self._open or decision.call_id in self.closed
        if known or len(self.early) >= MAX_EARLY_DECISIONS:
            return False
        self.early.append(decision)
        return True

    def name_unused(self) -> str:
        """The calls that decisions were kept for and that have not been asked about, in words."""
        calls = dict.fromkeys(quote_value(decision.call_id) for decision in self.early)
        return first_names(calls, MAX_CALLS_NAMED)

    def check(self, decision: Decision) -> tuple[Question, Decision]:
        """The question that a decision is on, and the decision as it is meant there.

        Raises:
            Unacceptable: there is no such question, it has its ruling, or the decision is wrong.
        """
        question = self._open.get(decision.call_id)
        if question is not None:
            self._check_use(decision)
            return question, question.check(decision)
        if decision.call_id in self.closed:
            said = self.closed[decision.call_id]
            raise DecisionRejected(
                ALREADY_DECIDED, f"call {decision.call_id} is decided already: {said}"
            )
        waiting = first_names(self._open, MAX_CALLS_NAMED) or "none"
        raise DecisionRejected(
            NO_SUCH_CALL, f"no call {decision.call_id} waits for a decision; waiting: {waiting}"
        )

    def count(self, decision: Decision, now: datetime) -> tuple[Receipt, Decided]:
        """Count a decision on an open question.

        Raises:
            Unacceptable: as `check`.
        """
        question, meant = self.check(decision)
        decided = question.count(meant, now)
        if isinstance(decision, SignedDecision):
            self.tokens[decision.claims.id] = decision.token_use
            if len(self.tokens) > MAX_CLOSED_QUESTIONS:
                del self.tokens[next(iter(self.tokens))]
        if question.ruling is not None:
            self._close(question, f"{decided.decision}{f' by {decided.by}' if decided.by else ''}")
        receipt = Receipt(
            call_id=question.call_id,
            decision=decision.decision,
            decided=question.ruling is not None,
            missing=question.count_missing(),
        )
        return receipt, decided

    def expire(self, question: Question) -> None:
        """End a wait that nobody ended."""
        question.expire()
        self._close(question, "expired")

    def withdraw(self, question: Question) -> None:
        """Ask no longer: the run ends."""
        self._open.pop(question.call_id, None)

    def _check_use(self, decision: Decision) -> None:
        """A token that was used is good for nothing more; not for the same again either, which
        whoever signed it may have changed their mind about."""
        if not isinstance(decision, SignedDecision):
            return
        use = self.tokens.get(decision.claims.id)
        if use is not None:
            code = ALREADY_DECIDED if use == decision.token_use else INVALID_DECISION
            raise DecisionRejected(code, f"the token was used already: {use}")

    def _close(self, question: Question, said: str) -> None:
        self._open.pop(question.call_id, None)
        self.closed[question.call_id] = said
        if len(self.closed) > MAX_CLOSED_QUESTIONS:
            del self.closed[next(iter(self.closed))]
        if question.approves_always and question.kind == "call":
            self.remembered = list(dict.fromkeys([*self.remembered, question.tool]))


def _cut(waiting: dict[str, Any], room: int) -> dict[str, Any]:
    arguments = waiting["arguments"]
    return {**waiting, "arguments": truncate(arguments, room), "cut": json_size(arguments)}
