"""Spans from a run's log, created after the fact since no process can hold a span open for a run.

    tool_start ─► tool_end                  execute_tool TOOL: the process that ran the call
    confirmation_required ─► a decision     approval TOOL: the wait for people
    the first entry ─► done, error          invoke_agent AGENT: the whole run

Each entry of the log is read once, from the last position on, so nothing is reported twice; a
replay computes the same spans. A call that never ran is a span of zero length; another call's span
ends at the time in `ended`: the log records the ends of all calls of a turn together.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import JsonValue

from holdfast.schemas.base import Lenient
from holdfast.schemas.internal.tracing import SpanRecord, TraceOrigin
from holdfast.schemas.names import CALL_WORKFLOW, ErrorCode, loop_of
from holdfast.schemas.run import Spent
from holdfast.workflows.engine.log.log import Log, Record
from holdfast.workflows.engine.state.references import as_text

# The most characters of a reported value, as JSON.
MAX_CONTENT_CHARACTERS = 8_000
MAX_ASKED_MESSAGES = 10

Attributes = dict[str, JsonValue]


@dataclass(frozen=True)
class Subject:
    """A run of `agent`, or a single call: its place in the trace; is `content` reported?"""

    origin: TraceOrigin
    parent_id: str | None = None
    agent: str | None = None
    model: str | None = None
    content: bool = False


class SpansProgress(Lenient):
    """The reported part of a log: up to entry `upto`; its start, and its input if reported."""

    upto: int = 0
    began: str = ""
    asked: list[JsonValue] = []


@dataclass
class Wait:
    """An open question of the log, with the decisions on it so far."""

    record: Record
    decided: list[dict[str, Any]] = field(default_factory=list)


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
        """Return the spans that ended since the last call; `spent` returns the usage so far."""
        for record in log.records_after(self.progress.upto):
            match record["type"]:
                case "message" if self._subject.content:
                    self._add_content(record["message"])
                case "tool_call":
                    self._called[record["callId"]] = record
                case "tool_start":
                    self._started.setdefault(record["callId"], record)
                case "confirmation_required":
                    self._ask(record)
                case "decision":
                    self._decide(record)
                case "tool_end":
                    self._end_call(record)
                case "turn_end":
                    self._end_waits(record["at"])
                case "done" | "error":
                    self._end_run(record, spent())
        self.progress = self.progress.model_copy(update={"upto": len(log)})
        ready, self._ready = self._ready, []
        return ready

    def _add_content(self, message: dict[str, Any]) -> None:
        content, has_room = message.get("content"), len(self.progress.asked) < MAX_ASKED_MESSAGES
        if message.get("role") == "user" and content and has_room:
            self.progress.asked.append(_shown(content))
        if message.get("role") == "tool" and self._ready:
            last = self._ready[-1]
            if last.attributes.get("gen_ai.tool.call.id") == message.get("callId"):
                last.attributes.setdefault("gen_ai.tool.call.result", _shown(content))

    def _ask(self, record: Record) -> None:
        if not record.get("reminder") and record["callId"] in self._waits:
            # An edit moved the call to another rule.
            self._end_wait(record["callId"], record["at"], "edit")
        self._waits.setdefault(record["callId"], Wait(record))

    def _decide(self, record: Record) -> None:
        wait = self._waits.get(record["callId"])
        if wait is None:
            return
        if record.get("decided") is not None:
            wait.decided.append(record["decided"])
        if called := self._called.get(record["callId"]):
            # With references resolved, as people saw them, or as they changed them.
            asked = wait.record["approval"]["arguments"]
            self._called[record["callId"]] = {**called, "arguments": record.get("arguments", asked)}
        if record.get("outcome") is not None:
            expired = record["outcome"] == _EXPIRED
            verdict = _EXPIRED if expired else wait.decided[-1]["decision"]
            self._end_wait(record["callId"], record["at"], verdict)

    def _end_waits(self, at: str) -> None:
        """End all waits, also those whose end is not in the log: an interrupted plan, a budget."""
        for call_id in list(self._waits):
            until = self._waits[call_id].record["approval"]["expiresAt"]
            self._end_wait(call_id, at, _EXPIRED if until <= at else _WITHDRAWN)

    def _end_wait(self, call_id: str, at: str, verdict: str) -> None:
        wait = self._waits.pop(call_id)
        approval = wait.record["approval"]
        attributes: Attributes = {
            "gen_ai.tool.name": approval["tool"],
            "gen_ai.tool.call.id": call_id,
            "holdfast.turn": wait.record["turn"],
            "holdfast.approval.kind": approval["kind"],
            "holdfast.approval.verdict": verdict,
            "holdfast.approval.quorum": approval.get("quorum", 1),
            "holdfast.approval.decisions": len(wait.decided),
            "holdfast.approval.signed": any(each.get("signed") for each in wait.decided),
        }
        if self._subject.content:
            attributes["holdfast.approval.by"] = [one["by"] for one in wait.decided if "by" in one]
            attributes["gen_ai.tool.call.arguments"] = _shown(approval["arguments"])
        # An approval precedes the call's span; a question on an unknown outcome is inside it.
        inside = call_id if approval["kind"] == "reconcile" else ""
        name, own = f"approval {approval['tool']}", f"{call_id} asked {wait.record['n']}"
        self._add("approval", name, own, inside, wait.record["at"], at, attributes)

    def _end_call(self, record: Record) -> None:
        call_id = record["callId"]
        if call_id in self._waits:  # the run ended before a decision
            self._end_wait(call_id, record["at"], _WITHDRAWN)
        called, started = self._called.pop(call_id, {}), self._started.pop(call_id, {})
        end = self.ended.pop(call_id, record["at"])
        start = started.get("at", end)
        attributes: Attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": record["tool"],
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": call_id,
            "holdfast.turn": record["turn"],
            "holdfast.carried_out": bool(started),
            "holdfast.delegate": started.get("delegate"),
        }
        if self._subject.content:
            if known := [one["arguments"] for one in (started, called) if "arguments" in one]:
                attributes["gen_ai.tool.call.arguments"] = _shown(known[0])
            if "value" in record:  # otherwise, the result follows in the log
                attributes["gen_ai.tool.call.result"] = _shown(record["value"])
        error = (record.get("error") or {}).get("code")
        name = f"execute_tool {record['tool']}"
        self._add("tool", name, call_id, loop_of(call_id), start, end, attributes, error)

    def _end_run(self, record: Record, spent: Spent) -> None:
        subject, failed = self._subject, record["type"] == "error"
        self._end_waits(record["at"])
        status, usage = record.get("status", "failed"), spent.usage
        if failed and record["code"] == ErrorCode.CANCELLED:
            status = "cancelled"
        operation = "invoke_workflow" if subject.agent is None else "invoke_agent"
        attributes: Attributes = {
            "gen_ai.operation.name": operation,
            "gen_ai.workflow.name": CALL_WORKFLOW if subject.agent is None else None,
            "holdfast.turns": spent.turns,
            "holdfast.calls": spent.calls,
            "gen_ai.usage.input_tokens": usage.input_tokens,
            "gen_ai.usage.output_tokens": usage.output_tokens,
            "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
            "holdfast.usage.cost": usage.cost,
            "holdfast.status": status,
            "gen_ai.request.model": subject.model,
        }
        if subject.content:
            attributes["gen_ai.input.messages"] = _said("user", self.progress.asked)
            output = _shown(record.get("output"))
            attributes["gen_ai.output.messages"] = _said("assistant", [output])
        name = f"{operation} {subject.agent or CALL_WORKFLOW}"
        error = record["code"] if failed else None
        start = self.progress.began
        self._add("run", name, "", subject.parent_id, start, record["at"], attributes, error)

    def _add(
        self,
        kind: Literal["approval", "tool", "run"],
        name: str,
        own: str,
        parent: str | None,
        start: str,
        end: str,
        attributes: Attributes,
        error: str | None = None,
    ) -> None:
        """Add a span: `parent` is a name in the run, and for the span of the run itself an id."""
        subject = self._subject
        of_all: Attributes = {
            "gen_ai.conversation.id": subject.origin.workflow_id,
            "gen_ai.agent.name": subject.agent,
            **attributes,
        }
        self._ready.append(
            SpanRecord(
                kind=kind,
                name=name,
                span_id=subject.origin.span_id(own),
                parent_id=parent if kind == "run" else subject.origin.span_id(parent or ""),
                start=start,
                end=max(end, start),
                error=error,
                attributes={name: value for name, value in of_all.items() if value is not None},
            )
        )


_WITHDRAWN = "withdrawn"
_EXPIRED = "expired"


def _shown(value: Any) -> str:
    return as_text(value)[:MAX_CONTENT_CHARACTERS]


def _said(role: str, texts: list[Any]) -> str:
    return json.dumps(
        [{"role": role, "parts": [{"type": "text", "content": each}]} for each in texts],
        ensure_ascii=False,
    )
