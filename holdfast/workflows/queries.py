"""The queries of a run or a single call: what any client may read while it runs, and after it."""

from contextlib import suppress
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue

with workflow.unsafe.imports_passed_through():
    from holdfast.schemas import names
    from holdfast.schemas.agent import ResolvedAgent
    from holdfast.schemas.base import json_size
    from holdfast.schemas.decision import PendingApproval
    from holdfast.schemas.run import MAX_CALL_ENTRIES, PageRequest

from holdfast.workflows.engine.approvals.pending import PendingApprovals
from holdfast.workflows.engine.execution_base import ExecutionBase
from holdfast.workflows.engine.log.log import PAGE_BYTES, Log
from holdfast.workflows.engine.phases import Fail, Finish
from holdfast.workflows.engine.state.data import Data
from holdfast.workflows.engine.state.references import check_instance
from holdfast.workflows.input import (
    MISSING_PAYLOAD,
    parse_model,
    payload_value,
    raw_payload_handler,
)

# As a page of the log: it stays under the two megabytes that Temporal takes.
MAX_CALL_BYTES = 2 * PAGE_BYTES
MAX_STANDING_CALLS = 256


class QueryHandlers:
    """The queries; before the work exists, they answer that nothing has happened."""

    _pending: PendingApprovals
    _work: ExecutionBase | None
    # Of a run that cannot start: why, and a log of that.
    _start_failure: Fail | None
    _start_log: Log

    def _queued(self) -> list[dict[str, Any]]:
        return []

    @workflow.query(
        name=names.STATUS,
        description="The state of the run: turn, usage, budget, pending approvals",
    )
    def status(self) -> dict[str, Any]:
        """Return the status, the usage and the pending approvals of the run."""
        why = self._start_failure if self._work is None else self._work.failure
        error = why and {"code": why.code, "message": why.message}
        if self._work is None:
            status = self._start_failure.status if self._start_failure else "running"
            counts: dict[str, Any] = {"turn": 0, "skill": None, "usage": {}, "budget": {}}
            lists: dict[str, Any] = {"instances": [], "pending": [], "calls": [], "delegates": []}
            return {"status": status, "error": error, **counts, **lists, "queued": self._queued()}
        work, meter, turn = self._work, self._work.state.meter, self._work.phases.turn
        rules, form = work.state.rules, None
        if isinstance(work.phases.end, Finish):
            form = rules.output if isinstance(rules, ResolvedAgent) else rules.tools[0].output
        return {
            "status": work.status,
            "error": error,
            "title": work.state.title,
            "outputSchema": form if json_size(form) <= PAGE_BYTES else None,
            "turn": meter.turns,
            "skill": work.state.skill,
            "instances": work.state.data.instances,
            "pending": [
                {"callId": one.call_id, "kind": one.kind, "tool": one.tool, "label": one.label}
                for one in self._pending.list_open()
            ],
            "calls": [
                {
                    "callId": call.id,
                    "tool": call.name,
                    "stage": "ended" if call.has_ended else call.stage.value,
                }
                for call in (() if turn is None else turn.calls[:MAX_STANDING_CALLS])
            ],
            "usage": meter.usage().model_dump(mode="json", by_alias=True),
            "budget": meter.view(workflow.now()),
            "delegates": [delegate.to_json() for delegate in work.delegates.to_views()],
            "queued": self._queued(),
            "log": {"entries": len(work.state.log), "digest": work.state.log.digest},
        }

    @workflow.query(name=names.APPROVALS, description="The pending approvals")
    def approvals(self) -> list[dict[str, Any]]:
        """Return each pending approval as `schemas.decision.PendingApproval`."""
        title = "" if self._work is None else self._work.state.title
        return self._pending.describe_open(workflow.info().run_id, title)

    @workflow.query(name=names.CALL, description="What people see beside a call, by its id")
    @raw_payload_handler
    def call(self, call_id: RawValue = MISSING_PAYLOAD, *_: Any) -> dict[str, Any]:
        """Return the run, its pending approvals and the end of its log, as a `CallReport`."""
        log, tools, id = self._shown_log, dict[str, Any](), str(payload_value(call_id))
        entries = log.records(max(len(log) - MAX_CALL_ENTRIES, 0), MAX_CALL_ENTRIES)
        question = self._pending.find_open(id)
        # What a fork has from another run is of the tools of that one.
        asks = [one.get("approval") for one in entries if {"approval", "forkedFrom"} & one.keys()]
        if self._work is not None:
            with suppress(ValueError):
                last = next((one for one in reversed(asks) if not one or one["callId"] == id), None)
                shown = question and question.to_pending_approval(workflow.info().run_id)
                for name in (shown or PendingApproval.read(last)).tool_names():
                    tool = self._work.state.show_tool(name, of_any_skill=question is None)
                    tools[name] = tool.to_json()
        report = {"status": self.status(), "pending": self.approvals()}
        for name, part in (("entries", entries), ("tools", tools)):
            if json_size(report | {name: part}) <= MAX_CALL_BYTES:
                report[name] = part
        return report

    @workflow.query(name=names.STATE, description="The value that †state reads from")
    @raw_payload_handler
    def state(self, instance: RawValue = MISSING_PAYLOAD, *_: Any) -> Any:
        """Return the shared state, or what `†state` reads in an instance."""
        name = payload_value(instance)
        data = Data() if self._work is None else self._work.state.data
        if name is not None:
            check_instance(name, data)
        return data.visible_value("state", name) or {}

    @workflow.query(name=names.TOOL, description="A tool of the run, by its name")
    @raw_payload_handler
    def tool(self, name: RawValue = MISSING_PAYLOAD, *_: Any) -> dict[str, Any]:
        """Return a tool of the run as `schemas.tool.ShownTool`."""
        if self._work is None:
            raise ValueError("the run has not started; query again in a moment")
        return self._work.state.show_tool(payload_value(name)).to_json()

    @workflow.query(name=names.CONTEXT, description="The run's log, page by page: {after, limit}")
    @raw_payload_handler
    def context(self, page: RawValue = MISSING_PAYLOAD, *_: Any) -> list[dict[str, Any]]:
        """Return a page of the log."""
        want = _page(page)
        return self._shown_log.records(want.after, want.limit)

    @workflow.query(name=names.EVENTS, description="What happened, by number: {after, limit}")
    @raw_payload_handler
    def events(self, page: RawValue = MISSING_PAYLOAD, *_: Any) -> list[dict[str, Any]]:
        """Return a page of the events of the log."""
        want = _page(page)
        return self._shown_log.events(want.after, want.limit)

    @property
    def _shown_log(self) -> Log:
        return self._start_log if self._work is None else self._work.state.log


def _page(raw: Any) -> PageRequest:
    return parse_model(payload_value(raw) or {}, PageRequest, '{"after": 0, "limit": 100}')
