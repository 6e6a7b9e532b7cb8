"""`BacktestWorkflow`: a run of an agent that is tested against a recorded run.

It is an `AgentWorkflow` by another name: nothing but its worker, whose activities read the record,
and the lists of runs, which do not have it, knows the difference.
"""

from typing import Any

from temporalio import workflow
from temporalio.common import RawValue

with workflow.unsafe.imports_passed_through():
    from holdfast.schemas import names

from holdfast.workflows import input
from holdfast.workflows.agent import AgentWorkflow


@workflow.defn(name=names.BACKTEST_WORKFLOW, failure_exception_types=input.FAILURES)
class BacktestWorkflow(AgentWorkflow):
    """A backtest, from its request to a `RunResult`."""

    @workflow.init
    @input.raw_payload_handler
    def __init__(self, request: RawValue = input.MISSING_PAYLOAD, *more: Any) -> None:
        super().__init__(request, *more)

    @workflow.run
    @input.raw_payload_handler
    async def run(self, request: RawValue = input.MISSING_PAYLOAD, *_: Any) -> dict[str, Any]:
        """Run the agent as any run does."""
        return await super().run(request)
