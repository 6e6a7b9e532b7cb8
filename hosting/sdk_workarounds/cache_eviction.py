"""Check runs for divergence, and remove one that may be ahead of history once it was queried.

`query_divergence` describes the error of the SDK, and catches a task that comes sooner. Once
removed, the run is replayed with its next task, and nothing of what it decided for the query is in
history. Most of the removed runs are correct, since their commands were sent: replaying one costs
some milliseconds.

Private: the bridge's `request_workflow_eviction`, and the time limit of the deadlock detector.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from temporalio import workflow
from temporalio.worker import Worker, WorkflowInstance, WorkflowInstanceDetails, WorkflowRunner

from holdfast.hosting.sdk_workarounds.query_divergence import DivergenceDetector
from holdfast.hosting.sdk_workarounds.workflow_runner import is_own_workflow

# The SDK fails a workflow task after two seconds without an answer of the workflow, by the clock. A
# worker with a few percent of a processor needs longer, and Temporal repeats a failed task at once,
# one that timed out with growing delays. So the time of a task, 10 s, is over first.
DEADLOCK_SECONDS: Final = 60
# The SDK's prefix for the id of a query that comes without a workflow task.
_STANDALONE_QUERY = "legacy"


class CacheEvictingRunner(WorkflowRunner):
    """Run workflows with another runner, and check and evict those ahead of their history."""

    def __init__(
        self, inner: WorkflowRunner, evict: Callable[[str], None] = lambda run_id: None
    ) -> None:
        self._inner, self._evict = inner, evict

    def attach(self, worker: Worker) -> None:
        """Evict runs from the cache of this worker, in whose event loop this is called.

        The time limit is that of a whole worker, and stays if that has other workflows, too.
        """
        workflows = worker._workflow_worker
        if workflows is not None and all(
            is_own_workflow(each.cls) for each in workflows._workflows.values()
        ):
            workflows._deadlock_timeout_seconds = DEADLOCK_SECONDS
        loop, bridge = asyncio.get_running_loop(), worker._bridge_worker

        def evict(run_id: str) -> None:
            loop.call_soon_threadsafe(bridge.request_workflow_eviction, run_id)

        self._evict = evict

    def prepare_workflow(self, defn: Any) -> None:
        """Prepare a workflow; the SDK calls this."""
        self._inner.prepare_workflow(defn)

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        """Create a run; the SDK calls this."""
        return _TrackedRun(self._inner.create_instance(det), lambda run_id: self._evict(run_id))


class _TrackedRun(WorkflowInstance):
    def __init__(self, inner: WorkflowInstance, evict: Callable[[str], None]) -> None:
        self._inner, self._evict = inner, evict
        self._was_replayed = False
        self._divergence = DivergenceDetector()
        # It went on after a replay, or without a task, and no task has come since.
        self._may_be_ahead = False

    def activate(self, act: Any) -> Any:
        jobs = [job.WhichOneof("variant") for job in act.jobs]
        is_task = self._divergence.check(act)
        if jobs == ["query_workflow"]:
            query_id = act.jobs[0].query_workflow.query_id
            if self._may_be_ahead and query_id.startswith(_STANDALONE_QUERY):
                self._may_be_ahead = False
                self._evict(act.run_id)
        elif act.is_replaying:
            self._was_replayed = True
        else:
            self._may_be_ahead, self._was_replayed = self._was_replayed or not is_task, False
        completion = self._inner.activate(act)
        self._divergence.record(act, completion)
        return completion

    def get_serialization_context(self, command_info: Any) -> Any:
        return self._inner.get_serialization_context(command_info)

    def get_external_store_context(self, command_info: Any) -> Any:
        return self._inner.get_external_store_context(command_info)

    def get_info(self) -> workflow.Info:
        return self._inner.get_info()

    def get_thread_id(self) -> int | None:
        return self._inner.get_thread_id()
