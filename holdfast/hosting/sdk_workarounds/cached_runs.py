"""Check the runs in a worker's cache for divergence, evict those ahead of history, and query them.

`query_divergence` describes the error of the SDK, and catches a task that comes sooner. Once
removed, the run is replayed with its next task, and nothing of what it decided for the query is in
history. Most of the removed runs are correct, since their commands were sent: replaying one costs
some milliseconds.

A query of this process is answered by the run as it is in the cache, without Temporal. The SDK
answers a query of Temporal by the same activation.

Private: the bridge's `request_workflow_eviction` and activations, and the time limit of the
deadlock detector.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from threading import Lock
from typing import Any, Final

from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.bridge.proto.workflow_activation import QueryWorkflow, WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.worker import Worker, WorkflowInstance, WorkflowInstanceDetails, WorkflowRunner

from holdfast.hosting.sdk_workarounds.query_divergence import DivergenceDetector, is_live
from holdfast.hosting.sdk_workarounds.workflow_runner import is_own_workflow

# The SDK fails a workflow task after two seconds without an answer of the workflow, by the clock. A
# worker with a few percent of a processor needs longer, and Temporal repeats a failed task at once,
# one that timed out with growing delays. So the time of a task, 10 s, is over first.
DEADLOCK_SECONDS: Final = 60
# Of a run that has ended: as long as viewers take to read its end.
ENDED_SECONDS: Final = 5
# The SDK's prefix for the id of a query that comes without a workflow task.
_STANDALONE_QUERY = "legacy"


class TrackingRunner(WorkflowRunner):
    """Run workflows with another runner, and check and evict those ahead of their history.

    `runs` are those in the cache by their workflow ids. `evict` evicts a run by its run id, and
    `remove` makes the call by which one that has ended is removed, later.
    """

    def __init__(self, inner: WorkflowRunner) -> None:
        self._inner = inner
        self.runs: dict[str, _TrackedRun] = {}
        self.evict: Callable[[str], None] = lambda run_id: None
        self.remove: Callable[[Callable[[], Any]], object] = lambda call: call()

    def attach(self, worker: Worker) -> None:
        """Evict runs from the cache of this worker, and remove them, in its event loop.

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

        def remove(call: Callable[[], Any]) -> None:
            wait = partial(loop.call_later, ENDED_SECONDS, loop.run_in_executor, None, call)
            loop.call_soon_threadsafe(wait)

        self.evict, self.remove = evict, remove

    def prepare_workflow(self, defn: Any) -> None:
        self._inner.prepare_workflow(defn)

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        return _TrackedRun(self._inner.create_instance(det), self)


class _TrackedRun(WorkflowInstance):
    def __init__(self, inner: WorkflowInstance, runner: TrackingRunner) -> None:
        self._inner, self._runner, self._runs = inner, runner, runner.runs
        self._lock = Lock()
        self._is_read = False
        self._was_replayed = False
        self._divergence = DivergenceDetector()
        # It continued after a replay, or without a task, and received no task since.
        self._may_be_ahead = False

    def query(
        self, name: str, arguments: Sequence[Payload]
    ) -> tuple[tuple[str, int], Payload] | None:
        """Answer a query, in any thread, and return the position of the run with the answer.

        The answer is right where Temporal's position of the run, its run id and the length of its
        history, is the same. None: the run raises an error, or may be ahead of its history.
        """
        info = self.get_info()
        with self._lock:
            if self._runs.get(info.workflow_id) is not self or self._may_be_ahead:
                return None
            self._is_read = True
            length, time = self._divergence.last
            act = WorkflowActivation(run_id=info.run_id, is_replaying=True, history_length=length)
            act.timestamp.FromNanoseconds(time)
            act.jobs.add().query_workflow.MergeFrom(
                QueryWorkflow(query_id="local", query_type=name, arguments=arguments)
            )
            completion, length = self._inner.activate(act), self._divergence.length
        for each in completion.successful.commands:
            if each.respond_to_query.HasField("succeeded"):
                return (info.run_id, length), each.respond_to_query.succeeded.response
        return None

    def activate(self, act: Any) -> Any:
        """Handle an activation; the SDK calls this."""
        if not any(job.HasField("remove_from_cache") for job in act.jobs):
            with self._lock:
                completion = self._activate(act)
                if is_live(act):
                    self._runs[self.get_info().workflow_id] = self
                return completion
        if not (self._is_read and self._divergence.has_ended):
            return self._remove(act)
        # Those who read it read its end next.
        self._runner.remove(partial(self._remove, act))
        completion = WorkflowActivationCompletion(run_id=act.run_id)
        completion.successful.SetInParent()
        return completion

    def _remove(self, act: Any) -> Any:
        with self._lock:
            workflow_id = self.get_info().workflow_id
            if self._runs.get(workflow_id) is self:  # it may have continued as new
                del self._runs[workflow_id]
            return self._activate(act)

    def _activate(self, act: Any) -> Any:
        jobs = [job.WhichOneof("variant") for job in act.jobs]
        is_task = self._divergence.check(act)
        if jobs == ["query_workflow"]:
            query_id = act.jobs[0].query_workflow.query_id
            if self._may_be_ahead and query_id.startswith(_STANDALONE_QUERY):
                self._may_be_ahead = False
                self._runner.evict(act.run_id)
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
