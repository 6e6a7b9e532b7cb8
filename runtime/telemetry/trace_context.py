"""The place of this thread's work: its run, turn and call, and its span in a trace.

Every log record has this place, so that a log line leads to its run, and a run to its log lines.
"""

import logging
from contextvars import ContextVar
from typing import Any, Final

from opentelemetry import trace
from temporalio import activity, workflow

from holdfast.schemas import names

RUN: Final = "run"
TURN: Final = "turn"
CALL: Final = "call"
TRACE: Final = "trace_id"
SPAN: Final = "span_id"

# The turn and call in the input of the running activity.
_told: ContextVar[dict[str, Any] | None] = ContextVar("holdfast-told", default=None)
# The span of the running activity.
_span: ContextVar[trace.Span] = ContextVar("holdfast-span")


def enter_activity(told: dict[str, Any]) -> None:
    """Set the turn and call of the running activity, from its input."""
    _told.set(told)


def enter_span(span: trace.Span) -> None:
    """Set the span of the running activity, for its log records too."""
    _span.set(span)


def current_place() -> dict[str, str]:
    """Return the run, turn, call and span of this thread; empty outside of a run."""
    found = _here()
    current = trace.get_current_span()
    context = current.get_span_context()
    if not context.is_valid:
        context = _span.get(current).get_span_context()
    if context.is_valid:
        found[TRACE] = trace.format_trace_id(context.trace_id)
        found[SPAN] = trace.format_span_id(context.span_id)
    return found


def _here() -> dict[str, str]:
    if activity.in_activity():
        info = activity.info()
        told = _told.get() or {}
        call = told.get(CALL) or names.call_of(info.activity_id)
        return _place(info.workflow_id or "", told.get(TURN) or names.turn_of(call), call)
    if workflow.in_workflow():
        turn = getattr(workflow.instance(), "turn", 0)
        return _place(workflow.info().workflow_id, turn, "")
    return {}


def _place(run: str, turn: int, call: str) -> dict[str, str]:
    place = {RUN: run, TURN: str(turn or ""), CALL: call}
    return {name: value for name, value in place.items() if value}


class TraceContextFilter(logging.Filter):
    """Add its place to each log record: `place` as text, `at` by name."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the place to a record; logging calls this."""
        record.at = at = current_place()
        text = " ".join(f"{name}={value}" for name, value in at.items())
        record.place = f" [{text}]" if text else ""
        return True
