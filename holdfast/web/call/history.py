"""The part of a run's log around one question: before it, its decisions, and the outcome.

… records before │ request │ decisions, edits │ decided or expired │ outcome …
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from holdfast.runtime.narration.log_narration import LogNarration, NarrationLine
from holdfast.runtime.narration.phrases import EXPIRED, author_phrase
from holdfast.runtime.text_safety import clean, message_after_code, one_line
from holdfast.schemas.decision import Decided, PendingApproval, brief_arguments, shown_calls
from holdfast.schemas.log_entry import (
    ConfirmationRequiredEntry,
    DecisionEntry,
    LogRecord,
    MessageEntry,
    NoticeEntry,
    SummaryEntry,
    ToolCallEntry,
    ToolEndEntry,
    ToolStartEntry,
    read_record,
)
from holdfast.schemas.names import ErrorCode
from holdfast.schemas.run import ReportedCall
from holdfast.web.auth.permissions import RunAccess
from holdfast.web.call.plan import PlanStep, PlanSteps
from holdfast.web.message_files import PageFile, page_files

# The most lines that are shown.
MAX_LINES: Final = 14
MAX_DECISIONS: Final = 10
_CODE_CHARS: Final = 100
_NOT_STARTED: Final[Mapping[str, str]] = {
    ErrorCode.DENIED: "denied",
    ErrorCode.APPROVAL_TIMEOUT: f"{EXPIRED}: not executed",
}
_LEAD_UP: Final = (MessageEntry, ToolCallEntry, ToolEndEntry, SummaryEntry, NoticeEntry)
# A decided call is not started, started, ended with a result or an error, or has no more outcome.
CallStage = Literal["ready", "running", "ended", "done", "failed", "settled"]
Narrated = tuple[LogRecord, list[NarrationLine]]


@dataclass(frozen=True)
class ArgumentsVersion:
    """The arguments of a call at some time; `by` is the author of the change, if any."""

    digest: str
    arguments: dict[str, Any]
    by: str | None = None


@dataclass
class QuestionRound:
    """A question about a call, requested `at` that time, or ended then by entry `end_number`.

    `decisions` are those on it with their arguments; `verdict` is the one that ended it. Without a
    verdict, it was withdrawn, or its timeout ended it (`expired`).
    """

    approval: PendingApproval
    number: int
    at: str
    decisions: list[tuple[Decided, Any]] = field(default_factory=list)
    end_number: int | None = None
    verdict: Decided | None = None
    expired: bool = False

    def add(self, record: LogRecord, entry: DecisionEntry) -> None:
        """Take a decision on the question, or its end, from the log."""
        if entry.decided is not None:
            self.decisions.append((entry.decided, entry.arguments))
        if self.end_number is None and entry.outcome in ("decided", "expired"):
            self.end_number, self.at, self.verdict = record.n, record.at, entry.decided
            self.expired = entry.outcome == "expired"

    def take_move(self) -> None:
        """Take the last edit as the end: the call is requested again, by another rule."""
        if self.end_number is None and self.decisions:
            self.verdict = self.decisions[-1][0]
            self.at = self.verdict.at

    @property
    def is_denied(self) -> bool:
        return self.verdict is not None and self.verdict.decision == "deny"


@dataclass(frozen=True)
class StepResult:
    """The outcome of one step of a plan: in words, and its result or error."""

    step: PlanStep
    text: str
    tone: str
    body: str = ""
    outside: bool = False


@dataclass(frozen=True)
class CallHistory:
    """The log around a question; `question` is the newest one about that call, if any.

    `steps` are the outcomes of the steps of a plan, `last_message` a person's before it. `repeated`
    has the tools and starts of earlier calls that it repeats, with the same arguments.
    `first_limit` is the first limit of a budget, if the records contain it. The log has
    `hidden_entries` before the first line of `lead_up`.
    """

    question: QuestionRound | None = None
    versions: list[ArgumentsVersion] = field(default_factory=list)
    lead_up: list[NarrationLine] = field(default_factory=list)
    files: list[PageFile] = field(default_factory=list)
    earlier_decisions: list[NarrationLine] = field(default_factory=list)
    outcome_lines: list[NarrationLine] = field(default_factory=list)
    earlier_requests: list[QuestionRound] = field(default_factory=list)
    steps: list[StepResult] = field(default_factory=list)
    last_message: NarrationLine | None = None
    repeated: list[tuple[str, NarrationLine]] = field(default_factory=list)
    hidden_entries: int = 0
    stage: CallStage = "settled"
    first_limit: Any = None


def history_of(
    entries: Sequence[Mapping[str, Any]],
    run_id: str,
    call_id: str,
    access: RunAccess | None = None,
    calls: Sequence[ReportedCall] = (),
) -> CallHistory:
    """Return the history of a call from these entries of a log.

    `calls` are those of the current turn, of which the log has the results when all have ended.
    """
    narration = LogNarration(run_id, with_all_arguments=True, in_terminal=False)
    records = map(read_record, entries)
    narrated = _visible([(record, narration.lines(record)) for record in records], access)
    questions, others = list[QuestionRound](), list[NarrationLine]()
    limits: dict[tuple[str, str], Any] = {}
    for record, lines in narrated:
        is_own = _call_id(record) == call_id
        match record.entry:
            case ConfirmationRequiredEntry(approval=asked) as entry if not entry.reminder:
                limits.setdefault((asked.kind, asked.tool), asked.arguments.get(asked.tool))
                if is_own:
                    for one in questions[-1:]:
                        one.take_move()
                    questions.append(QuestionRound(asked, record.n, record.at))
            case ConfirmationRequiredEntry(approval=asked) if is_own and questions:
                last, now = questions[-1], {"approvers": asked.approvers}  # it may be forwarded
                last.approval = last.approval.model_copy(update=now)
            case DecisionEntry() as entry if is_own and questions:
                questions[-1].add(record, entry)
            case DecisionEntry() as entry if not (is_own or entry.ignored):
                others += lines
    if not questions:
        return CallHistory()
    *earlier, last = questions
    before = [one for one in narrated if one[0].n < last.number]
    lead_up, hidden = _lead_up(before, call_id, last.approval)
    said = [line for line in lead_up if line.word == "user" and line.body]
    files = [file for record, _ in before for file in page_files(run_id, record)]
    versions = _versions(last)
    history = CallHistory(
        question=last,
        last_message=said[-1] if said else None,
        repeated=_repeated(before, last.approval, versions[-1].arguments),
        versions=versions,
        lead_up=lead_up,
        files=files[-MAX_LINES:] if access is None or "read" in access.rights else [],
        earlier_decisions=others[-MAX_DECISIONS:],
        earlier_requests=earlier,
        hidden_entries=hidden,
        first_limit=limits.get(("budget", last.approval.tool)) if narrated[0][0].n == 1 else None,
    )
    if (end := last.end_number) is None:
        return history
    ended = {one.call_id for one in calls if one.stage == "ended"}
    after = [one for one in narrated if one[0].n > end]
    outcome = [
        # The error of a denied call is the decision, not a failure.
        replace(line, tone="plain") if line.tone == "bad" and last.is_denied else line
        for one, lines in after
        if _call_id(one) == call_id and not isinstance(one.entry, ConfirmationRequiredEntry)
        for line in lines
    ]
    return replace(
        history,
        outcome_lines=outcome[:MAX_LINES],
        steps=_step_results(last, history.versions[-1], after, ended),
        stage=_stage(last.approval, [one for one, _ in after], ended),
    )


def _visible(narrated: list[Narrated], access: RunAccess | None) -> list[Narrated]:
    """Leave out the calls that others decide on, and those that they may still be asked about."""
    if access is None or "read" in access.rights:
        return narrated
    approvers, ended = dict[str, list[str]](), set[str]()
    for entry in (record.entry for record, _ in narrated):
        match entry:
            case ConfirmationRequiredEntry(approval=asked):
                planned = brief_arguments("plan", asked.arguments) if asked.kind == "plan" else ()
                approvers |= dict.fromkeys([asked.call_id, *planned], asked.approvers)
            case ToolEndEntry(call_id=call):
                ended.add(call)
    return [
        one
        for one in narrated
        if ((call := _call_id(one[0])) in approvers and access.sees(approvers[call]))
        or (call not in approvers and call in {"", *ended})
    ]


def _call_id(record: LogRecord) -> str:
    match record.entry:
        case MessageEntry(message=message):
            return message.call_id or ""
        case entry:
            return str(getattr(entry, "call_id", ""))


def _versions(question: QuestionRound) -> list[ArgumentsVersion]:
    """Return the requested arguments, and the arguments after each edit."""
    approval = question.approval
    versions = [ArgumentsVersion(approval.digest, approval.arguments)]
    for decided, edit in question.decisions:
        if decided.decision != "edit" or not isinstance(edit, dict):
            continue
        changed: dict[str, Any] = edit
        if approval.kind == "plan":
            # A plan's edit has the remaining calls, and the arguments that it changes.
            before = versions[-1].arguments
            others = {call["id"]: call.get("arguments") for call in shown_calls(edit)}
            calls = [
                call if others[call["id"]] is None else {**call, "arguments": others[call["id"]]}
                for call in shown_calls(before)
                if call["id"] in others
            ]
            changed = {**before, "calls": calls}
        author = author_phrase(decided) or "A person"
        versions.append(ArgumentsVersion(str(decided.digest), changed, author))
    return versions


def _repeated(
    before: Sequence[Narrated], approval: PendingApproval, arguments: dict[str, Any]
) -> list[tuple[str, NarrationLine]]:
    """Return the calls that did what the question is about, or may have done it."""
    own = [{"tool": approval.tool, "arguments": arguments}]
    asked = [*shown_calls(arguments)] if approval.kind == "plan" else own
    wanted = [(one.get("tool"), one.get("arguments")) for one in asked]
    calls = dict[str, tuple[Any, Any]]()
    started = dict[str, tuple[str, NarrationLine]]()
    for record, lines in before:
        match record.entry:
            case ToolCallEntry(call_id=call, tool=tool, arguments=known):
                calls[call] = tool, known
            case DecisionEntry(call_id=call, arguments={} as edited):
                own = [{"id": call, "arguments": edited}]
                calls |= _changed(calls, own if call in calls else shown_calls(edited))
            case ToolStartEntry(call_id=call, tool=tool, arguments=known):
                if known is not None:
                    calls[call] = tool, known
                if calls.get(call) in wanted and call != approval.call_id:
                    started[call] = tool, lines[0]
            case ToolEndEntry(call_id=call, error=error):
                if error is not None and error.code != ErrorCode.OUTCOME_UNKNOWN:
                    started.pop(call, None)
            case _:
                pass
    return [] if approval.kind in ("budget", "reconcile") else [*started.values()]


def _changed(
    calls: Mapping[str, tuple[Any, Any]], edits: Iterable[Mapping[str, Any]]
) -> dict[str, tuple[Any, Any]]:
    """Return the calls that edits, of one or of a plan, give other arguments."""
    changed = {one["id"]: one.get("arguments") for one in edits}
    return {
        id: (calls[id][0], new) for id, new in changed.items() if id in calls and new is not None
    }


def _lead_up(
    narrated: Sequence[Narrated], call_id: str, approval: PendingApproval
) -> tuple[list[NarrationLine], int]:
    """Return the lines before a question, and the number of hidden entries before the first line.

    The lines of the question's own calls are left out.
    """
    own = [call_id]
    if approval.kind == "plan":
        own += brief_arguments("plan", approval.arguments)
    found = [
        (record.n, line)
        for record, lines in narrated
        if isinstance(record.entry, _LEAD_UP)
        and not (isinstance(record.entry, ToolCallEntry) and record.entry.call_id in own)
        for line in lines
        if not line.minor
    ]
    shown = found[-MAX_LINES:]
    is_cut = len(found) > MAX_LINES or bool(narrated and narrated[0][0].n > 1)
    first = shown[0][0] if shown else 0
    return [line for _, line in shown], max(first - 1, 0) if is_cut else 0


def _stage(
    approval: PendingApproval, after: Sequence[LogRecord], ended: Collection[str]
) -> CallStage:
    """Return the stage of a decided call; a plan has the stage of its last call."""
    if approval.kind == "budget":
        return "settled"
    is_plan = approval.kind == "plan"
    calls = {*brief_arguments("plan", approval.arguments)} if is_plan else {approval.call_id}
    entries = [one.entry for one in after if _call_id(one) in calls]
    errors = [entry.error for entry in entries if isinstance(entry, ToolEndEntry)]
    if len(errors) == len(calls):
        return "failed" if any(errors) else "done"
    if ToolStartEntry not in map(type, entries):
        return "ready"
    return "ended" if calls.issubset(ended) else "running"


def _step_results(
    question: QuestionRound,
    last: ArgumentsVersion,
    after: Sequence[Narrated],
    ended: Collection[str],
) -> list[StepResult]:
    """Return the outcome of each step of a decided plan; `last` is the plan after all edits."""
    if question.approval.kind != "plan":
        return []
    remaining = {call["id"] for call in shown_calls(last.arguments)}
    found = []
    for step in PlanSteps(question.approval.arguments, {}).all:
        if question.is_denied or step.id not in remaining:
            text = "not executed" if question.is_denied else "removed: not executed"
            found.append(StepResult(step, text, "dim"))
        else:
            own = [one for one in after if _call_id(one[0]) == step.id]
            found.append(_step_result(step, own, has_ended=step.id in ended))
    return found


def _step_result(step: PlanStep, own: Sequence[Narrated], *, has_ended: bool) -> StepResult:
    """Return the outcome of an approved step from its own records."""
    entries = [record.entry for record, _ in own]
    end = next((entry for entry in entries if isinstance(entry, ToolEndEntry)), None)
    if end is None and entries and isinstance(entries[-1], ConfirmationRequiredEntry):
        return StepResult(step, "waiting for approval", "asks")
    if end is None:
        is_started = any(isinstance(entry, ToolStartEntry) for entry in entries)
        if is_started and has_ended:
            return StepResult(step, "finished: its result is logged with the turn's end", "dim")
        return StepResult(step, "running" if is_started else "not started", "dim")
    if end.error is not None:
        code = one_line(end.error.code, _CODE_CHARS)
        body = clean(message_after_code(code, end.error.message))
        if code in _NOT_STARTED:
            return StepResult(step, _NOT_STARTED[code], "dim", body)
        return StepResult(step, f"failed: {code}", "bad", body)
    # The line of the result has the value; without it, the line of the end has it.
    values = [
        line
        for record, lines in own
        if isinstance(record.entry, MessageEntry | ToolEndEntry)
        for line in lines
        if line.body
    ]
    body, outside = (values[-1].body, values[-1].outside) if values else ("", False)
    return StepResult(step, "executed", "good", body, outside)
