"""Refuse runs of another task queue, whose histories another program has written.

Temporal sends a run's next task to the task queue that the worker of the last one names, as its
sticky one. So a worker of any program can write a history, with a definition and decisions of its
own, and have this worker go on with it. Temporal tells no worker where its run belongs: the run is
described, once for each time that it is read into the cache.
"""

import asyncio
from typing import Any

from temporalio import workflow
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.worker import WorkflowInstance, WorkflowInstanceDetails, WorkflowRunner

from holdfast.schemas import names


class WrappedRun(WorkflowInstance):
    """A run that passes everything on to another one."""

    # ruff: noqa: D102  (the SDK calls these)

    def __init__(self, inner: WorkflowInstance) -> None:
        self._inner = inner

    def activate(self, act: Any) -> Any:
        return self._inner.activate(act)

    def get_serialization_context(self, command_info: Any) -> Any:
        return self._inner.get_serialization_context(command_info)

    def get_external_store_context(self, command_info: Any) -> Any:
        return self._inner.get_external_store_context(command_info)

    def get_info(self) -> workflow.Info:
        return self._inner.get_info()

    def get_thread_id(self) -> int | None:
        return self._inner.get_thread_id()


class OwnRunsRunner(WorkflowRunner):
    """Run the workflows of the worker's task queue alone, with another runner."""

    def __init__(self, inner: WorkflowRunner, client: Client) -> None:
        self._inner = inner
        self._client = client
        self._loop = asyncio.get_running_loop()

    def prepare_workflow(self, defn: Any) -> None:
        """Prepare a workflow; the SDK calls this."""
        self._inner.prepare_workflow(defn)

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        """Create a run; the SDK calls this."""
        check, info = self._check, det.info

        class Run(WrappedRun):
            _is_checked = False

            def activate(self, act: Any) -> Any:
                # This is a thread of its own. The SDK repeats a removal until it does not raise.
                is_removal = any(job.HasField("remove_from_cache") for job in act.jobs)
                if not (self._is_checked or is_removal):
                    check(info)
                    self._is_checked = True
                return super().activate(act)

        return Run(self._inner.create_instance(det))

    def _check(self, info: workflow.Info) -> None:
        run = self._client.get_workflow_handle(info.workflow_id, run_id=info.run_id)
        found = asyncio.run_coroutine_threadsafe(run.describe(), self._loop).result()
        if found.task_queue != info.task_queue:
            reason = (
                f"the run is of the task queue `{found.task_queue}`, and this worker runs those of"
                f" `{info.task_queue}`: start it there"
            )
            raise ApplicationError(reason, type=names.NO_PERMIT)
