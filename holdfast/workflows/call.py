"""`CallWorkflow`: one durable call of one tool, without a model."""

from typing import Any

from temporalio import workflow
from temporalio.common import RawValue

with workflow.unsafe.imports_passed_through():
    from holdfast.schemas import names
    from holdfast.schemas.agent import ToolSnapshot, WorkerFacts
    from holdfast.schemas.run import CallRequest

from holdfast.workflows.base_workflow import BaseWorkflow
from holdfast.workflows.commands.step_executor import StepExecutor
from holdfast.workflows.engine.execution_base import RunCalls, SingleCall, Step
from holdfast.workflows.input import FAILURES, MISSING_PAYLOAD, parse_request, raw_payload_handler


@workflow.defn(name=names.CALL_WORKFLOW, failure_exception_types=FAILURES)
class CallWorkflow(BaseWorkflow[SingleCall]):
    """One call of one tool, from a `schemas.run.CallRequest` to a `RunResult`.

    A call that ends in an error fails the workflow with it: its type is the error's code.
    """

    @workflow.init
    @raw_payload_handler
    def __init__(self, request: RawValue = MISSING_PAYLOAD, *more: Any) -> None:
        super().__init__()
        self._request = parse_request(request, more, CallRequest, '{"tool": …, "arguments": {…}}')

    @workflow.run
    @raw_payload_handler
    async def run(self, request: RawValue = MISSING_PAYLOAD, *_: Any) -> dict[str, Any]:
        """Run the call from its request to its end."""
        return await self._run()

    async def _begin(self) -> tuple[SingleCall, WorkerFacts]:
        request, snapshot = await self._admit(self._request, "tool", ToolSnapshot)
        call = SingleCall(request, snapshot.tool, self._pending, workflow.now)
        return call, snapshot.worker

    async def _execute(self, call: SingleCall, executor: StepExecutor, step: Step) -> None:
        assert isinstance(step, RunCalls)  # a single call has no other step but its end
        await executor.execute_turn(step.turn)
        call.closed(step.turn)
