"""Refuse runs of another task queue, whose histories another program has written.

Temporal sends a run's next task to the task queue that the worker of the last one names, as its
sticky one. So a worker of any program can write a history, with a definition and decisions of its
own, and have this worker continue it. Temporal sends no worker the queue of its run: the run is
described, once for each time that it is read into the cache.
"""

import asyncio
from typing import Any

from temporalio import workflow
from temporalio.client import Client
from temporalio.worker import (
    ExecuteWorkflowInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)


class ForeignRunError(Exception):
    """A run of another task queue; the error fails its workflow task."""


class OwnRunsInterceptor(Interceptor):
    """Runs the workflows of the worker's task queue alone."""

    def __init__(self, client: Client) -> None:
        self._client, self._loop = client, asyncio.get_running_loop()

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor]:
        """Return the interceptor of each workflow; the SDK calls this."""
        client, loop = self._client, self._loop

        class Inbound(WorkflowInboundInterceptor):
            async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:
                info = workflow.info()
                run = client.get_workflow_handle(info.workflow_id, run_id=info.run_id)
                # A run works in a thread of its own.
                found = asyncio.run_coroutine_threadsafe(run.describe(), loop).result()
                if found.task_queue != info.task_queue:
                    raise ForeignRunError(
                        f"the run is of the task queue `{found.task_queue}`, and this worker runs"
                        f" those of `{info.task_queue}`: start it there"
                    )
                return await super().execute_workflow(input)

        return Inbound
