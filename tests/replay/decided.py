"""What a run decided, read off while its stored history is replayed.

Replaying compares kinds and order of commands, not what is in them. This reads the rest: every
activity, delegate and signal with its input and options, and the whole log. It runs in the
workflow's sandbox and hands what it saw out through an extern function.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from temporalio import workflow
from temporalio.worker import (
    ExecuteWorkflowInput,
    Interceptor,
    SignalExternalWorkflowInput,
    StartActivityInput,
    StartChildWorkflowInput,
    StartLocalActivityInput,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
    WorkflowOutboundInterceptor,
)

from holdfast.schemas import names

SAW = "holdfast_test_saw"
_OPTIONS = (
    "activity_id",
    "task_queue",
    "schedule_to_close_timeout",
    "schedule_to_start_timeout",
    "start_to_close_timeout",
    "heartbeat_timeout",
    "summary",
)


class DecisionReader(Interceptor):
    """Reads off what the workflows of a replayer decide."""

    def __init__(self) -> None:
        self._decided: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)

    def decided(self, run_id: str) -> list[dict[str, Any]]:
        """What one of them decided."""
        return self._decided[run_id]

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor]:
        """Let what is seen inside the sandbox out."""
        input.unsafe_extern_functions[SAW] = self._saw
        return _Inbound

    def _saw(self, run_id: str, what: dict[str, Any]) -> None:
        self._decided[run_id].append(what)


class _Inbound(WorkflowInboundInterceptor):
    def init(self, outbound: WorkflowOutboundInterceptor) -> None:
        super().init(_Outbound(outbound))

    async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:
        try:
            result = await super().execute_workflow(input)
            _saw({"result": result})
            return result
        finally:
            running = workflow.instance()
            if hasattr(running, names.CONTEXT):
                _saw({"log": running.context({"limit": 1000})})


class _Outbound(WorkflowOutboundInterceptor):
    def start_activity(self, input: StartActivityInput) -> Any:
        _saw(_recorded("activity", input.activity, input.args, vars(input)))
        return super().start_activity(input)

    def start_local_activity(self, input: StartLocalActivityInput) -> Any:
        _saw(_recorded("local", input.activity, input.args, vars(input)))
        return super().start_local_activity(input)

    async def start_child_workflow(self, input: StartChildWorkflowInput) -> Any:
        _saw(
            _recorded("child", input.workflow, input.args, {"activity_id": input.id, **vars(input)})
        )
        return await super().start_child_workflow(input)

    async def signal_external_workflow(self, input: SignalExternalWorkflowInput) -> None:
        _saw({"signal": input.signal, "input": list(input.args)})
        await super().signal_external_workflow(input)


def _saw(what: dict[str, Any]) -> None:
    workflow.extern_functions()[SAW](workflow.info().run_id, what)


def _recorded(kind: str, name: str, args: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    said = {key: str(options[key]) for key in _OPTIONS if options.get(key) is not None}
    policy = options.get("retry_policy")
    attempts = {"attempts": policy.maximum_attempts} if policy is not None else {}
    return {kind: name, "input": list(args), **said, **attempts}
