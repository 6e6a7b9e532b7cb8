"""The calls in the log of a run, with the questions on each and what people decided.

A call counts if it reached its approval: people were asked about it, or it started. A plan is one
question on its calls, and a call that an edit brings under another rule is asked about once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from holdfast.runtime.text_safety import local_time
from holdfast.schemas import log_entry
from holdfast.schemas.decision import AppliedRule, Decided, PendingApproval, shown_calls
from holdfast.schemas.names import CHOOSE_SKILL
from holdfast.schemas.phrases import distinct_names
from holdfast.schemas.reference import references_in
from holdfast.schemas.tool import ApprovalPolicy

_NEEDED = ("left_out", "skill", "tool_call", "confirmation_required", "decision", "tool_start")


class ApprovalTerms(NamedTuple):
    """Who decides on a call or a plan, and by which rules; without groups, anyone does."""

    groups: tuple[str, ...]
    quorum: int
    signed: bool
    rules: tuple[AppliedRule, ...]

    @classmethod
    def of(cls, terms: ApprovalPolicy | PendingApproval, rules: Sequence[AppliedRule]) -> Self:
        groups = tuple(terms.approvers or ())
        return cls(groups, terms.quorum or 1, bool(terms.signed), tuple(rules))

    def __str__(self) -> str:
        people = f", {self.quorum} people" if self.quorum > 1 else ""
        return f"{distinct_names(self.groups) or 'anyone'}{people}{', signed' * self.signed}"

    def loses_approvers(self, after: "ApprovalTerms") -> bool:
        """Return whether other groups, fewer people or no signature would be enough."""
        has_others = bool(self.groups) and {*self.groups} != {*after.groups}
        return has_others or after.quorum < self.quorum or self.signed > after.signed


@dataclass
class RecordedQuestion:
    """A question as it was first asked; `shown` are its call's arguments, or a plan's calls."""

    id: str
    tool: str
    is_plan: bool
    terms: ApprovalTerms
    requested_at: str
    shown: Any
    ended_at: str = ""

    @property
    def waited_hours(self) -> float:
        begin, end = local_time(self.requested_at), local_time(self.ended_at)
        return (end - begin).total_seconds() / 3600 if begin and end else 0.0

    def end(self, at: str) -> None:
        self.ended_at = at

    def arguments_in(self, shown: Any) -> Mapping[str, Any]:
        """Return, of what people were shown or sent, the arguments of each call by its id."""
        if not self.is_plan:
            return {self.id: shown}
        calls = shown_calls(shown) if isinstance(shown, dict) else ()
        return {each["id"]: each.get("arguments") for each in calls}


@dataclass
class RecordedCall:
    """A call as the model made it; `arguments` are None if their values are not known.

    With `has_references`, they were not known when it was made. `change` is the decision by which
    people denied it, changed it or answered in its place. `is_released`: it ran because people had
    approved all further calls of its tool.
    """

    id: str
    tool: str
    turn: int
    skill: str | None
    arguments: dict[str, Any] | None = None
    has_references: bool = False
    questions: list[RecordedQuestion] = field(default_factory=list)
    has_started: bool = False
    is_released: bool = False
    change: Decided | None = None

    def ask(self, question: RecordedQuestion, arguments: dict[str, Any] | None) -> None:
        """Add a question; `arguments` are those that it shows, unless it is on a plan."""
        self.questions.append(question)
        if not question.is_plan and self.change is None:
            self.arguments = arguments

    def decide(self, question: RecordedQuestion, decided: Decided, sent: Any) -> None:
        """Apply a decision on a question of the call; `sent` are the arguments of an edit."""
        shown, edited = question.arguments_in(question.shown), question.arguments_in(sent)
        match decided.decision:
            case "approve":
                is_edited = self.change is not None and self.change.decision == "edit"
                self.change = self.change if is_edited else None
            case "edit" if self.id in edited:
                new = edited[self.id]
                is_same = new == shown[self.id] or (question.is_plan and new is None)
                self.change = None if is_same else decided
            case "edit":  # struck out of its plan
                self.change = decided.model_copy(update={"decision": "deny"})
            case _:
                self.change = decided

    def start(self, arguments: Any, *, is_remembered: bool) -> None:
        """Start it, with these arguments if they were not known before; a repetition is ignored."""
        if self.has_started:
            return
        self.has_started, self.is_released = True, is_remembered and not self.questions
        is_known = self.questions and self.arguments is not None
        if isinstance(arguments, dict) and not is_known and self.change is None:
            self.arguments = arguments


class RecordedLog:
    """The calls of a log that is added entry by entry; `is_whole`: no entry of them is missing."""

    def __init__(self) -> None:
        self.is_whole = True
        self._skill: str | None = None
        self._calls: dict[str, RecordedCall] = {}
        # By call or plan: the first question, and whether decisions are on one of its policy.
        self._questions: dict[str, RecordedQuestion] = {}
        self._is_open: dict[str, bool] = {}
        self._remembered = set[str]()

    @property
    def calls(self) -> list[RecordedCall]:
        """Return the calls that reached their approval, in the order of the log."""
        found = (one for one in self._calls.values() if one.questions or one.has_started)
        return [one for one in found if one.tool != CHOOSE_SKILL]

    def add(self, record: Mapping[str, Any]) -> None:
        """Read the next entry, as the query `context` returns it."""
        read, is_cut = log_entry.read_record(record), "cut" in record
        match read.entry:
            case log_entry.SkillEntry(skill=skill):
                self._skill = skill
            case log_entry.ForkedEntry():  # what is before is in the log of the other run
                for part in (self._calls, self._questions, self._is_open, self._remembered):
                    part.clear()
            case log_entry.ToolCallEntry(call_id=id_, tool=tool, turn=turn, arguments=arguments):
                is_known = not is_cut and next(references_in(arguments), None) is None
                own = arguments if is_known and isinstance(arguments, dict) else None
                self._calls[id_] = RecordedCall(id_, tool, turn, self._skill, own, own is None)
            case log_entry.ConfirmationRequiredEntry(reminder=0, turn=turn, approval=asked):
                self._ask(turn, asked, is_cut=is_cut)
            case log_entry.DecisionEntry(ignored=None) as entry:
                self._decide(entry, read.at)
            case log_entry.ToolStartEntry(call_id=id_) as entry if id_ in self._calls:
                call, arguments = self._calls[id_], None if is_cut else entry.arguments
                call.start(arguments, is_remembered=call.tool in self._remembered)
            case entry if type(entry) is log_entry.Entry and entry.type in _NEEDED:
                self.is_whole = False

    def _ask(self, turn: int, asked: PendingApproval, *, is_cut: bool) -> None:
        is_plan, id_ = asked.kind == "plan", asked.call_id
        self._is_open[id_] = is_plan or asked.kind == "call"
        if id_ in self._questions or not self._is_open[id_]:
            return
        terms = ApprovalTerms.of(asked, asked.rules)
        question = self._questions[id_] = RecordedQuestion(
            id_, asked.tool, is_plan, terms, asked.requested_at, asked.arguments
        )
        tools = {each["id"]: str(each.get("tool")) for each in shown_calls(asked.arguments)}
        for own in question.arguments_in(asked.arguments):
            tool = tools[own] if is_plan else asked.tool
            call = self._calls.setdefault(own, RecordedCall(own, tool, turn, self._skill))
            call.ask(question, None if is_cut else asked.arguments)

    def _decide(self, entry: log_entry.DecisionEntry, at: str) -> None:
        if not self._is_open.get(entry.call_id):
            return
        question, decided = self._questions[entry.call_id], entry.decided
        if entry.outcome:
            question.end(at)
        if decided is None:
            return
        for id_ in question.arguments_in(question.shown):
            self._calls[id_].decide(question, decided, entry.arguments)
        if decided.remember and entry.outcome:
            self._remembered.add(question.tool)
