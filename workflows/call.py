"""`CallWorkflow`: the durable shell around a single call."""

from typing import Any

from temporalio import workflow
from temporalio.common import RawValue

with workflow.unsafe.imports_passed_through():
    from holdfast.schemas import names
    from holdfast.schemas.agent import ToolSnapshot
    from holdfast.schemas.run import CallRequest

from holdfast.workflows.authorization import admitted
from holdfast.workflows.base_workflow import FAILURES, BaseWorkflow
from holdfast.workflows.commands.step_executor import StepExecutor
from holdfast.workflows.engine.single_call import SingleCall
from holdfast.workflows.engine.steps import RunCalls, Step
from holdfast.workflows.handler_input import MISSING_PAYLOAD, fail, raw_payload_handler, read


@workflow.defn(name=names.CALL_WORKFLOW, failure_exception_types=FAILURES)
class CallWorkflow(BaseWorkflow[SingleCall]):
    """One call of one tool, from a `schemas.run.CallRequest` to a `RunResult`.

    A call that ends in an error fails the workflow with it: its type is the error's code.
    """

    @workflow.init
    @raw_payload_handler
    def __init__(self, request: RawValue = MISSING_PAYLOAD, *more: Any) -> None:
        super().__init__()
        self._asked = read(request, more, CallRequest, '{"tool": …, "arguments": {…}}')

    @workflow.run
    @raw_payload_handler
    async def run(self, request: RawValue = MISSING_PAYLOAD, *_: Any) -> dict[str, Any]:
        """Carry the call out, or say why not."""
        return await self._see_through()

    async def _begin(self) -> SingleCall:
        if self._asked.request is None:
            fail(names.INVALID_REQUEST, self._asked.wrong)
        resolved = await self._resolve(names.RESOLVE_TOOL, self._asked.given, "tool")
        snapshot = ToolSnapshot.read(resolved)
        self._facts = snapshot.worker
        request = await admitted(self._asked.request, self._facts)
        return SingleCall(request, snapshot.tool, self._desk, workflow.now)

    async def _take(self, work: SingleCall, hands: StepExecutor, step: Step) -> None:
        assert isinstance(step, RunCalls)  # a single call has no other step but its end
        await hands.carry_out(step.turn)
        work.closed()
