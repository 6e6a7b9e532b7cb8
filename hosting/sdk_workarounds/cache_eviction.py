"""A run that may have got ahead of its history is put out of the cache as soon as it has answered.

That is what `hosting.sdk_workarounds.query_divergence` is about: a run that was read anew, went on,
and was asked before anything else came. Put out, it is read again with its next task, and nothing
of that is in history. What gets past this, because the task came sooner, is seen there. Most of
those that are put out have done nothing wrong, since what they wanted was sent: they are read once
more, which costs some milliseconds.

It takes one thing of `temporalio` that is not public, the bridge's `request_workflow_eviction`.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from temporalio import workflow
from temporalio.worker import Worker, WorkflowInstance, WorkflowInstanceDetails, WorkflowRunner

# How the SDK begins the id of a query that comes by itself, and not together with a task.
_ALONE = "legacy"
PutOut = Callable[[str], None]


class CacheEvictingRunner(WorkflowRunner):
    """Runs workflows by another runner, and has those put out that may be ahead."""

    def __init__(self, inner: WorkflowRunner) -> None:
        self._inner = inner
        self._put_out: PutOut = lambda run_id: None

    def serve(self, worker: Worker) -> None:
        """Be the runner of this worker, in whose event loop this is called."""
        loop, bridge = asyncio.get_running_loop(), worker._bridge_worker

        def put_out(run_id: str) -> None:
            loop.call_soon_threadsafe(bridge.request_workflow_eviction, run_id)

        self._put_out = put_out

    def prepare_workflow(self, defn: Any) -> None:
        """Prepare a workflow; the SDK calls this."""
        self._inner.prepare_workflow(defn)

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        """A run; the SDK calls this."""
        return _Steady(self._inner.create_instance(det), lambda run_id: self._put_out(run_id))


class _Steady(WorkflowInstance):
    """One run, as long as it is in the cache."""

    def __init__(self, inner: WorkflowInstance, put_out: PutOut) -> None:
        self._inner = inner
        self._put_out = put_out
        self._read_anew = False
        # Whether it went on after that, and nothing has come since.
        self._went_on = False

    def activate(self, act: Any) -> Any:
        jobs = [job.WhichOneof("variant") for job in act.jobs]
        if jobs == ["query_workflow"]:
            if self._went_on and act.jobs[0].query_workflow.query_id.startswith(_ALONE):
                self._went_on = False
                self._put_out(act.run_id)
        elif act.is_replaying:
            self._read_anew = True
        else:
            self._went_on, self._read_anew = self._read_anew, False
        return self._inner.activate(act)

    # The run's own.

    def get_serialization_context(self, command_info: Any) -> Any:
        return self._inner.get_serialization_context(command_info)

    def get_external_store_context(self, command_info: Any) -> Any:
        return self._inner.get_external_store_context(command_info)

    def get_info(self) -> workflow.Info:
        return self._inner.get_info()

    def get_thread_id(self) -> int | None:
        return self._inner.get_thread_id()
