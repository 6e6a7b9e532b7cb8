"""Spans from a run's log, created after the fact since no process can hold a span open for a run.

    tool_start ─► tool_end                  execute_tool TOOL: the process that ran the call
    confirmation_required ─► a decision     approval TOOL: the wait for people
    the first entry ─► done, error          invoke_agent AGENT: the whole run

Each entry of the log is read once, from the last position on, so nothing is reported twice; a
replay computes the same spans. A call that never ran is a span of zero length. A call's span ends
at the time in `ended`, if the workflow set one: the log records the ends of all calls of a turn
together.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from holdfast.schemas.base import Lenient
from holdfast.schemas.internal.tracing import SpanRecord, TraceOrigin
from holdfast.schemas.names import CALL_WORKFLOW, ErrorCode
from holdfast.schemas.run import Spent
from holdfast.workflows.engine.log.compressed_pages import Record
from holdfast.workflows.engine.log.log import Log

# The most characters of a reported value, as JSON.
MAX_CONTENT_CHARACTERS = 8_000
MAX_ASKED_MESSAGES = 10

Attributes = dict[str, JsonValue]


@dataclass(frozen=True)
class Subject:
    """The subject of the spans: a run of `agent`, or, without one, a single call.

    It holds the position in the trace, and whether content is reported.
    """

    origin: TraceOrigin
    parent_id: str | None = None
    agent: str | None = None
    model: str | None = None
    content: bool = False


class SpansProgress(Lenient, frozen=False):
    """The part of a log that is reported as spans: up to entry `upto`.

    `began` is the start of the run, and `asked` its input, if content is reported.
    """

    upto: int = 0
    began: str = ""
    asked: list[JsonValue] = []


class Wait:
    """An open question of the log, with the decisions on it so far."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.decided: list[dict[str, Any]] = []


class Spans:
    """The spans of one run, as its log grows."""

    def __init__(self, subject: Subject, progress: SpansProgress) -> None:
        self._subject = subject
        self.progress = progress
        # When the calls of the current turn ended.
        self.ended: dict[str, str] = {}
        self._started: dict[str, Record] = {}
        self._called: dict[str, Record] = {}
        self._waits: dict[str, Wait] = {}
        self._ready: list[SpanRecord] = []

    def take(self, log: Log, spent: Callable[[], Spent]) -> list[SpanRecord]:
        """Return the spans that ended since the last call.

        `spent` returns the run's usage so far.
        """
        for record in log.records_after(self.progress.upto):
            self._follow(record, spent)
        self.progress.upto = len(log)
        ready, self._ready = self._ready, []
        return ready

    def _follow(self, record: Record, spent: Callable[[], Spent]) -> None:
        match record["type"]:
            case "message":
                self._hear(record["message"])
            case "tool_call":
                self._called[record["callId"]] = record
            case "tool_start":
                self._started.setdefault(record["callId"], record)
            case "confirmation_required":
                self._waits.setdefault(record["callId"], Wait(record))
            case "decision":
                self._decide(record)
            case "tool_end":
                self._end_call(record)
            case "turn_end":
                self._end_waits(record["at"])
            case "done" | "error":
                self._end_run(record, spent())

    def _hear(self, message: dict[str, Any]) -> None:
        """Record people's messages, and the outcome of a call, if content is reported."""
        if not self._subject.content:
            return
        said = message.get("content")
        if message.get("role") == "user" and said and len(self.progress.asked) < MAX_ASKED_MESSAGES:
            self.progress.asked.append(_shown(said))
        if message.get("role") == "tool" and self._ready:
            last = self._ready[-1]
            if last.attributes.get("gen_ai.tool.call.id") == message.get("callId"):
                last.attributes.setdefault("gen_ai.tool.call.result", _shown(said))

    # Approvals.

    def _decide(self, record: Record) -> None:
        wait = self._waits.get(record["callId"])
        if wait is None:
            return
        if record.get("decided") is not None:
            wait.decided.append(record["decided"])
        if record.get("outcome") is not None:
            expired = record["outcome"] == _EXPIRED
            verdict = _EXPIRED if expired else wait.decided[-1]["decision"]
            self._end_wait(record["callId"], record["at"], verdict)

    def _end_waits(self, at: str) -> None:
        """End all waits, including those whose end is not in the log.

        Examples are a plan that a message interrupted, and a budget that was not extended in time.
        """
        for call_id in list(self._waits):
            until = self._waits[call_id].record["approval"]["expiresAt"]
            self._end_wait(call_id, at, _left(until, at))

    def _end_wait(self, call_id: str, at: str, verdict: str) -> None:
        wait, subject = self._waits.pop(call_id), self._subject
        asked = wait.record["approval"]
        attributes: Attributes = {
            **self._of_run(),
            "gen_ai.tool.name": asked["tool"],
            "gen_ai.tool.call.id": call_id,
            "holdfast.turn": wait.record["turn"],
            "holdfast.approval.kind": asked["kind"],
            "holdfast.approval.verdict": verdict,
            "holdfast.approval.quorum": asked.get("quorum", 1),
            "holdfast.approval.decisions": len(wait.decided),
            "holdfast.approval.signed": any(each.get("signed") for each in wait.decided),
        }
        if subject.content:
            attributes["holdfast.approval.by"] = [one["by"] for one in wait.decided if "by" in one]
            attributes["gen_ai.tool.call.arguments"] = _shown(asked["arguments"])
        # An approval precedes the call's span; a question on an unknown outcome is inside it.
        inside = call_id if asked["kind"] == "reconcile" else ""
        self._ready.append(
            SpanRecord(
                kind="approval",
                name=f"approval {asked['tool']}",
                span_id=subject.origin.span_id(f"{call_id} asked {wait.record['n']}"),
                parent_id=subject.origin.span_id(inside),
                start=wait.record["at"],
                end=max(at, wait.record["at"]),
                attributes=attributes,
            )
        )

    # Calls.

    def _end_call(self, record: Record) -> None:
        call_id, subject = record["callId"], self._subject
        if call_id in self._waits:  # the run ended before a decision
            self._end_wait(call_id, record["at"], _WITHDRAWN)
        called, started = self._called.pop(call_id, None), self._started.pop(call_id, None)
        end = self.ended.pop(call_id, record["at"])
        start = end if started is None else started["at"]
        attributes: Attributes = {
            **self._of_run(),
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": record["tool"],
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": call_id,
            "holdfast.turn": record["turn"],
            "holdfast.carried_out": started is not None,
        }
        if started is not None and started.get("delegate"):
            attributes["holdfast.delegate"] = started["delegate"]
        if subject.content:
            attributes |= _content_of(called, started, record)
        self._ready.append(
            SpanRecord(
                kind="tool",
                name=f"execute_tool {record['tool']}",
                span_id=subject.origin.span_id(call_id),
                parent_id=subject.origin.span_id(),
                start=start,
                end=max(end, start),
                error=(record.get("error") or {}).get("code"),
                attributes=attributes,
            )
        )

    # The run.

    def _end_run(self, record: Record, spent: Spent) -> None:
        subject, failed = self._subject, record["type"] == "error"
        self._end_waits(record["at"])
        status = record.get("status", "failed")
        if failed and record["code"] == ErrorCode.CANCELLED:
            status = "cancelled"
        attributes: Attributes = {
            **self._of_run(),
            **_kind_of(subject),
            **_used(spent),
            "holdfast.status": status,
        }
        if subject.model is not None:
            attributes["gen_ai.request.model"] = subject.model
        if subject.content:
            attributes["gen_ai.input.messages"] = _said("user", self.progress.asked)
            output = _shown(record.get("output"))
            attributes["gen_ai.output.messages"] = _said("assistant", [output])
        self._ready.append(
            SpanRecord(
                kind="run",
                name=_name_of(subject),
                span_id=subject.origin.span_id(),
                parent_id=subject.parent_id,
                start=self.progress.began,
                end=max(record["at"], self.progress.began),
                error=record["code"] if failed else None,
                attributes=attributes,
            )
        )

    def _of_run(self) -> Attributes:
        """Return the attributes that every span of the run has."""
        of: Attributes = {"gen_ai.conversation.id": self._subject.origin.workflow_id}
        if self._subject.agent is not None:
            of["gen_ai.agent.name"] = self._subject.agent
        return of


_WITHDRAWN = "withdrawn"
_EXPIRED = "expired"


def _left(until: str, at: str) -> str:
    """Return the outcome of a wait whose end is not in the log, from its deadline."""
    return _EXPIRED if until <= at else _WITHDRAWN


def _name_of(subject: Subject) -> str:
    if subject.agent is None:
        return f"invoke_workflow {CALL_WORKFLOW}"
    return f"invoke_agent {subject.agent}"


def _kind_of(subject: Subject) -> Attributes:
    if subject.agent is None:
        return {
            "gen_ai.operation.name": "invoke_workflow",
            "gen_ai.workflow.name": CALL_WORKFLOW,
        }
    return {"gen_ai.operation.name": "invoke_agent"}


def _used(spent: Spent) -> Attributes:
    """Return the known usage of a run."""
    usage = spent.usage
    much: Attributes = {
        "holdfast.turns": spent.turns,
        "holdfast.calls": spent.calls,
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
        "holdfast.usage.cost": usage.cost,
    }
    return {name: value for name, value in much.items() if value is not None}


def _content_of(called: Record | None, started: Record | None, ended: Record) -> Attributes:
    """Return the arguments and the result of a call; the result may follow it in the log."""
    known = [each["arguments"] for each in (started, called) if each and "arguments" in each]
    content: Attributes = {}
    if known:
        content["gen_ai.tool.call.arguments"] = _shown(known[0])
    if "value" in ended:
        content["gen_ai.tool.call.result"] = _shown(ended["value"])
    return content


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text[:MAX_CONTENT_CHARACTERS]


def _said(role: str, texts: list[Any]) -> str:
    """Return messages in the form of the semantic conventions."""
    return json.dumps(
        [{"role": role, "parts": [{"type": "text", "content": each}]} for each in texts],
        ensure_ascii=False,
    )
