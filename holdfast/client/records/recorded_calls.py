"""The calls in the log of a run, with the questions on each and what people decided.

The one reader of calls: comparisons, backtests, suites and simulations of policies take from it
what they need. A plan is one question on its calls, and a call that an edit brings under another
rule is asked about once.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from holdfast.runtime.backtest.run_record import QuestionRecord
from holdfast.runtime.narration.log_narration import content_text
from holdfast.runtime.text_safety import read_time
from holdfast.schemas import log_entry
from holdfast.schemas.base import canonical_json, parsed_or_none
from holdfast.schemas.decision import (
    AppliedRule,
    Decided,
    Decision,
    PendingApproval,
    shown_calls,
)
from holdfast.schemas.message import Content
from holdfast.schemas.names import CHOOSE_SKILL, item_id, loop_of
from holdfast.schemas.phrases import distinct_names
from holdfast.schemas.reference import references_in
from holdfast.schemas.tool import ApprovalPolicy, loop_arguments


class ApprovalTerms(NamedTuple):
    """Who decides on a call or a plan, without groups anyone; `runs_expired`: no one has to."""

    groups: tuple[str, ...]
    quorum: int
    signed: bool
    rules: tuple[AppliedRule, ...]
    runs_expired: bool

    @classmethod
    def of(cls, terms: ApprovalPolicy | PendingApproval, rules: Sequence[AppliedRule]) -> Self:
        groups = tuple(terms.approvers or ())
        runs_expired = terms.on_timeout == "approve"
        return cls(groups, terms.quorum or 1, bool(terms.signed), tuple(rules), runs_expired)

    def __str__(self) -> str:
        people = f", {self.quorum} people" if self.quorum > 1 else ""
        more = ", signed" * self.signed + ", runs if it expires" * self.runs_expired
        return f"{distinct_names(self.groups) or 'anyone'}{people}{more}"

    def loses_approvers(self, after: "ApprovalTerms") -> bool:
        """Return whether other groups, fewer people, no signature or no one would be enough."""
        has_others = bool(self.groups) and {*self.groups} != {*after.groups}
        is_looser = self.signed > after.signed or after.runs_expired > self.runs_expired
        return has_others or after.quorum < self.quorum or is_looser


@dataclass
class RecordedQuestion:
    """A question as it was asked, and the entries that decided on it, its expiry included.

    `ended_at` is of the first question on a call or a plan: when the last one ended.
    """

    asked: PendingApproval
    decisions: list[log_entry.DecisionEntry] = field(default_factory=list)
    ended_at: str = ""

    @property
    def id(self) -> str:
        return self.asked.call_id

    @property
    def is_plan(self) -> bool:
        return self.asked.kind == "plan"

    @property
    def is_expired(self) -> bool:
        """Return whether it ran out of time, and its call was not run for that."""
        ends = {one.outcome for one in self.decisions}
        return "expired" in ends and self.asked.on_timeout != "approve"

    @property
    def terms(self) -> ApprovalTerms:
        return ApprovalTerms.of(self.asked, self.asked.rules)

    @property
    def waited_hours(self) -> float:
        begin, end = read_time(self.asked.requested_at), read_time(self.ended_at)
        return (end - begin).total_seconds() / 3600 if begin and end else 0.0

    def arguments_in(self, shown: Any) -> Mapping[str, Any]:
        """Return, of what people were shown or sent, the arguments of each call by its id."""
        if not self.is_plan:
            return {self.id: shown}
        calls = shown_calls(shown) if isinstance(shown, dict) else ()
        return {each["id"]: each.get("arguments") for each in calls}


@dataclass
class RecordedCall:
    """A call of a log.

    `proposed` are its arguments as the model made them, None if their values are not known: with
    `has_references`, not when it was made. `arguments` are those that it has, with values in place
    of references, and as people changed them; as they were written, if they are not valid.
    `questions` are those that a policy asks, each once; `change` is the decision by which people
    denied the call, changed it or answered in its place. `is_released`: it ran because people had
    approved all further calls of its tool.
    """

    id: str
    tool: str
    turn: int
    skill: str | None
    label: str | None = None
    instance: str | None = None
    proposed: dict[str, Any] | None = None
    arguments: Any = None
    has_references: bool = False
    questions: list[RecordedQuestion] = field(default_factory=list)
    has_started: bool = False
    is_released: bool = False
    change: Decided | None = None

    def parts(self) -> dict[str, Any]:
        """Return the arguments that it runs with, by id: of a loop, those of its items."""
        items = loop_arguments(self.arguments)
        if items is None:
            return {self.id: self.arguments}
        return {item_id(self.id, n): one for n, one in enumerate(items) if one is not None}

    def ask(self, question: RecordedQuestion, arguments: dict[str, Any] | None) -> None:
        """Add a question of a policy; `arguments` are those that it shows, if they are known."""
        self.questions.append(question)
        if not question.is_plan and self.change is None:
            self.proposed = arguments

    def decide(self, first: RecordedQuestion, decided: Decided, sent: Any) -> None:
        """Apply a decision; `first` was the first question, `sent` are the arguments of an edit."""
        shown, edited = first.arguments_in(first.asked.arguments), first.arguments_in(sent)
        match decided.decision:
            case "approve":
                is_edited = self.change is not None and self.change.decision == "edit"
                self.change = self.change if is_edited else None
            case "edit" if self.id in edited:
                new = edited[self.id]
                is_same = new == shown[self.id] or (first.is_plan and new is None)
                self.change = None if is_same else decided
                self.arguments = self.arguments if new is None else new
            case "edit":  # struck out of its plan
                self.change = decided.model_copy(update={"decision": "deny"})
            case _:
                self.change = decided

    def start(self, arguments: Any, *, is_cut: bool, is_remembered: bool) -> None:
        """Start it, with these arguments if they were not known before; perhaps again."""
        self.arguments = self.arguments if arguments is None else arguments
        if self.proposed is None and not (is_cut or self.change):
            self.proposed = arguments
        if not self.has_started:
            self.has_started, self.is_released = True, is_remembered and not self.questions


class RecordedLog:
    """A log that is added entry by entry.

    `calls`, their `ends`, what they first wrote and the `results` that a model has read are by id.
    `started` has the ids of calls and items of loops, in the order of their start. What comes
    before a fork is of the other run: it counts if `inherits`. `unread` and `cut` are numbers of
    entries: missing or of a newer version, and without a part.
    """

    def __init__(
        self, entries: Iterable[Mapping[str, Any]] = (), *, inherits: bool = False
    ) -> None:
        self.unread = self.cut = 0
        self._inherits = inherits
        self._skill: str | None = None
        self._begin()
        for each in entries:
            self.add(each)

    def _begin(self) -> None:
        self.turn = 0
        self.calls: dict[str, RecordedCall] = {}
        self.started: dict[str, None] = {}
        self.questions: list[RecordedQuestion] = []
        self.ends: dict[str, log_entry.ToolEndEntry] = {}
        self.writes: dict[str, Any] = {}
        self.results: dict[str, Content] = {}
        self._written: dict[str, Any] = {}
        self._remembered = set[str]()
        # By call or plan: its last question, and the first one of a policy.
        self._last: dict[str, RecordedQuestion] = {}
        self._first: dict[str, RecordedQuestion] = {}

    @property
    def decided_calls(self) -> list[RecordedCall]:
        """Return the calls that reached their approval: people were asked, or they started."""
        found = (one for one in self.calls.values() if one.questions or one.has_started)
        return [one for one in found if one.tool != CHOOSE_SKILL]

    def result_of(self, id: str) -> Any:
        """Return a call's result: whole, if the log has it, or else what the model read of it.

        What the model read as JSON is a value, and any other result a text.
        """
        end, text = self.ends.get(id), self.results.get(id)
        if end is not None and end.value is not None:
            return end.value
        if id in self.writes or text is None:
            return self.writes.get(id)
        value = parsed_or_none(shown := content_text(text))
        try:
            canonical_json(value)
        except ValueError:  # a number that JSON does not have
            value = None
        return shown if value is None else value

    def question_records(self, take: Callable[[str, Decided], Any]) -> list[QuestionRecord]:
        """Return the questions and the decisions on them as they were sent; an expiry is a denial.

        `take` returns the next result that people gave a call by this decision.
        """

        def vote(entry: log_entry.DecisionEntry) -> Decision:
            id, decided = entry.call_id, entry.decided
            if decided is None:
                return Decision(call_id=id, decision="deny", reason="the approval expired")
            fields = decided.model_dump(include={"decision", "by", "groups", "reason", "remember"})
            if decided.decision in ("respond", "happened"):
                fields["result"] = take(id, decided)
            if entry.arguments is not None:
                fields["arguments"] = entry.arguments
            return Decision(call_id=id, **fields)

        return [
            QuestionRecord(one.asked.digest, [*map(vote, one.decisions)], one.asked)
            for one in self.questions
        ]

    def add(self, record: Mapping[str, Any]) -> log_entry.LogRecord:
        """Read and return the next entry, as the query `context` returns it."""
        read, is_cut = log_entry.read_record(record), "cut" in record
        self.unread += (is_unread := type(read.entry) is log_entry.Entry)
        self.cut += is_cut and not is_unread
        match read.entry:
            case log_entry.ForkedEntry() if not self._inherits:
                self._begin()
            case log_entry.TurnStartEntry(turn=turn):
                self.turn = turn
            case log_entry.SkillEntry(skill=skill):
                self._skill = skill
            case log_entry.MessageEntry(message=message) if message.role == "assistant":
                self._written = {one.id: one.written or one.arguments for one in message.calls}
            case log_entry.MessageEntry(message=message) if message.call_id is not None:
                text = message.content if message.said is None else message.said
                self.results[message.call_id] = text
            case log_entry.ConfirmationRequiredEntry(reminder=0, forwarded=[]) as entry:
                self._ask(entry, is_cut=is_cut)
            case log_entry.DecisionEntry(ignored=None, call_id=id) as entry if id in self._last:
                self._decide(entry, read.at)
            case entry:
                self._add_step(entry, is_cut=is_cut)
        return read

    def _add_step(self, entry: log_entry.Entry, *, is_cut: bool) -> None:
        """Add the proposal, the start or the end of a call."""
        match entry:
            case log_entry.ToolCallEntry():
                self._propose(entry, is_cut=is_cut)
            case log_entry.ToolStartEntry(call_id=id, arguments=arguments):
                self.started[id] = None
                if not loop_of(id):
                    call = self._call(id, entry.tool, entry.turn)
                    is_remembered = call.tool in self._remembered
                    call.start(arguments, is_cut=is_cut, is_remembered=is_remembered)
            case log_entry.WriteEntry(call_id=str(id), value=value):
                self.writes.setdefault(id, value)
            case log_entry.ToolEndEntry(call_id=id):
                self.ends[id] = entry

    def _call(self, id: str, tool: str, turn: int) -> RecordedCall:
        """Return a call, also if the log does not have the entry that made it."""
        return self.calls.setdefault(id, RecordedCall(id, tool, turn, self._skill))

    def _propose(self, entry: log_entry.ToolCallEntry, *, is_cut: bool) -> None:
        arguments = entry.arguments
        is_known = not is_cut and next(references_in(arguments), None) is None
        own = arguments if is_known and isinstance(arguments, dict) else None
        self.calls[entry.call_id] = RecordedCall(
            entry.call_id,
            entry.tool,
            entry.turn,
            self._skill,
            entry.label,
            entry.instance,
            own,
            self._written.get(entry.call_id) if arguments is None else arguments,
            has_references=own is None,
        )

    def _ask(self, entry: log_entry.ConfirmationRequiredEntry, *, is_cut: bool) -> None:
        question = RecordedQuestion(entry.approval)
        id, asked = question.id, question.asked
        self.questions.append(question)
        self._last[id] = question
        if asked.kind in ("call", "plan") and id not in self._first:
            self._first[id] = question
            tools = {each["id"]: str(each.get("tool")) for each in shown_calls(asked.arguments)}
            for own in question.arguments_in(asked.arguments):
                call = self._call(own, tools.get(own, asked.tool), entry.turn)
                call.ask(question, None if is_cut else asked.arguments)
        if id in self.calls:
            self.calls[id].arguments = asked.arguments

    def _decide(self, entry: log_entry.DecisionEntry, at: str) -> None:
        last = self._last[entry.call_id]
        last.decisions.append(entry)
        if last.asked.kind not in ("call", "plan"):
            return
        first, decided = self._first[entry.call_id], entry.decided
        if entry.outcome:
            first.ended_at = at
        if decided is None:
            return
        for id in first.arguments_in(first.asked.arguments):
            self.calls[id].decide(first, decided, entry.arguments)
        if decided.remember and entry.outcome:
            self._remembered.add(first.asked.tool)
