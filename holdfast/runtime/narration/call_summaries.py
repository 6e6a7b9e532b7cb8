"""Summarize the calls of a run, one summary per call, from its log as it grows.

A summary covers the call, its question and decision, its start and its end. The decision on a plan
is the decision on each call that it does not remove. Workflows use this module, so nothing here
reads a clock.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.runtime.narration.phrases import EXPIRED, decided_phrase
from holdfast.schemas.decision import Decided, Kind, brief_arguments, shown_calls
from holdfast.schemas.log_entry import (
    ConfirmationRequiredEntry,
    DecisionEntry,
    LogRecord,
    ToolCallEntry,
    ToolEndEntry,
    ToolStartEntry,
)
from holdfast.schemas.names import CallError, ErrorCode

MAX_CALLS = 30


@dataclass
class CallSummary:
    """A call, or a question about a plan or a budget, and its progress.

    `decision` and `progress` are phrases, empty while there is none; `arguments` is one line.
    """

    id: str
    turn: int
    label: str
    arguments: str = ""
    kind: Kind = "call"
    decision: str = ""
    progress: str = ""
    has_started: bool = False
    planned: tuple[str, ...] = ()

    @property
    def outcome(self) -> str:
        """The decision and the progress as far as they are known: `approved by ada, done`."""
        parts = [part for part in (self.decision, self.progress) if part]
        return (": " if self.decision.startswith("denied") else ", ").join(parts)


class CallSummaries:
    """The summaries of one run's latest calls in the order of the calls.

    `forgotten` counts those that were dropped, `last_entry` is the number of the last entry read.
    """

    def __init__(self, arguments_line: Callable[[Mapping[str, Any]], str]) -> None:
        """Start with no call; `arguments_line` writes arguments in one line."""
        self._arguments_line = arguments_line
        self._summaries: dict[str, CallSummary] = {}
        self.forgotten = 0
        self.last_entry = 0

    def follow(self, records: Iterable[LogRecord]) -> None:
        """Read the next entries of the log."""
        for record in records:
            self.last_entry = record.n
            match record.entry:
                case ToolCallEntry() as call:
                    summaries = [self._summaries.get(id) for id in call.waits_for]
                    labels = dict.fromkeys(each.label for each in summaries if each is not None)
                    progress = f"waiting for {', '.join(labels)}" if labels else ""
                    if None in summaries:
                        progress = "waiting for other calls of its turn"
                    label, arguments = call.label or call.tool, self._brief("call", call.arguments)
                    self._add(
                        CallSummary(call.call_id, call.turn, label, arguments, progress=progress)
                    )
                case ConfirmationRequiredEntry() as asked:
                    self._question(asked)
                case DecisionEntry(outcome=str()) | ToolStartEntry() | ToolEndEntry() as entry:
                    if (summary := self._summaries.get(entry.call_id)) is not None:
                        self._update(summary, entry)

    def anticipate_end(self, call_id: str, error: CallError | None) -> None:
        """Record the end of a call before the log has it, which is at the end of the turn."""
        summary = self._summaries.get(call_id)
        if summary is None or not summary.progress:
            return
        if not summary.has_started:
            summary.progress = "not run"
        else:
            summary.progress = "done" if error is None else "failed"

    def all(self) -> list[CallSummary]:
        """Return the summaries, the oldest first."""
        return list(self._summaries.values())

    def _add(self, summary: CallSummary) -> None:
        self._summaries[summary.id] = summary
        if len(self._summaries) > MAX_CALLS:
            del self._summaries[next(iter(self._summaries))]
            self.forgotten += 1

    def _question(self, asked: ConfirmationRequiredEntry) -> None:
        approval = asked.approval
        summary = self._summaries.get(asked.call_id)
        if summary is None:
            arguments = self._brief(approval.kind, approval.arguments)
            summary = CallSummary(asked.call_id, asked.turn, approval.label, arguments)
            self._add(summary)
        summary.kind, summary.decision = approval.kind, ""
        unknown = "it is unknown whether it happened"
        summary.progress = unknown if approval.kind == "reconcile" else "waiting for a decision"
        summary.planned = _planned(approval.kind, approval.arguments)
        # A plan is listed before its calls: its decision comes before any of them starts.
        for call_id in summary.planned:
            if (call := self._summaries.pop(call_id, None)) is not None:
                self._summaries[call_id] = call

    def _update(
        self, summary: CallSummary, entry: DecisionEntry | ToolStartEntry | ToolEndEntry
    ) -> None:
        match entry:
            case DecisionEntry(outcome="expired"):
                summary.decision, summary.progress = EXPIRED, ""
            case DecisionEntry(outcome="decided", decided=Decided() as decided):
                summary.decision = decided_phrase(decided, summary.kind)
                summary.progress = ""
                if decided.decision == "edit":
                    if summary.kind == "plan":
                        summary.planned = _planned("plan", entry.arguments)
                    else:
                        summary.arguments = self._brief(summary.kind, entry.arguments)
                approved = summary.decision.replace("approved with changes", "approved")
                for call in filter(None, map(self._summaries.get, summary.planned)):
                    call.decision = approved
            case ToolStartEntry():
                summary.has_started, summary.progress = True, "running"
                summary.arguments = self._brief("call", entry.arguments) or summary.arguments
            case ToolEndEntry():
                summary.progress = _end(summary, entry.error)

    def _brief(self, kind: Kind, arguments: Any) -> str:
        if not isinstance(arguments, dict):
            return ""
        return self._arguments_line(brief_arguments(kind, arguments))


def _planned(kind: Kind, arguments: Any) -> tuple[str, ...]:
    shown = arguments if kind == "plan" and isinstance(arguments, dict) else {}
    return tuple(call["id"] for call in shown_calls(shown))


def _end(summary: CallSummary, error: CallError | None) -> str:
    if error is None:
        return "done" if summary.has_started else ""
    if error.code == ErrorCode.DENIED and summary.decision:
        return error.message
    if error.code == ErrorCode.APPROVAL_TIMEOUT:
        return ""
    return f"{'failed' if summary.has_started else 'not run'}: {error.message}"
