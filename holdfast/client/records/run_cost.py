"""The cost of a run on Temporal: Actions, history and heartbeats.

Temporal Cloud bills Actions. They are counted in the histories as the server counts them
(`common/rpc/interceptor/telemetry.go` of Temporal's server 1.32). Two kinds are in no history:
heartbeats, which are estimated here from the time that activities ran, and queries. A delegate is a
run of its own, and counted with its parent.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

from holdfast.client.errors import NoSuchRunError, explain_rpc_errors
from holdfast.schemas import names

MAX_EXECUTIONS: Final = 1_000
# By event: the kind of its Actions, and their number.
_ACTIONS: Final = {
    "workflow_execution_continued_as_new": ("continue-as-new", 1),
    "timer_started": ("timer", 1),
    "upsert_workflow_search_attributes": ("search attributes", 1),
    "start_child_workflow_execution_initiated": ("child workflow", 2),
    "signal_external_workflow_execution_initiated": ("signal", 1),
    "workflow_execution_update_accepted": ("update", 1),
}
_ACTIVITY_ENDS: Final = [
    f"activity_task_{end}" for end in ("completed", "failed", "timed_out", "canceled")
]


@dataclass
class RunCost:
    """The cost of a run, and of the delegates that it started.

    `actions` are by kind, without `heartbeats`, an estimate, and without queries. A run that
    continued as new has several `executions`; `is_partial` reports that not all could be read.
    """

    actions: Counter[str] = field(default_factory=Counter)
    heartbeats: int = 0
    history_bytes: int = 0
    events: int = 0
    executions: int = 0
    is_partial: bool = False


async def read_run_cost(client: Client, run_id: str) -> RunCost:
    """Read the cost of a run from its histories, which needs no worker.

    Raises:
        HoldfastError: the run does not exist, or Temporal does not answer.
    """
    cost, unread = RunCost(), [(run_id, "")]
    while unread and cost.executions < MAX_EXECUTIONS:
        workflow_id, execution = unread.pop()
        handle = client.get_workflow_handle(workflow_id, run_id=execution or None)
        try:
            with explain_rpc_errors(run_id):
                description = await handle.describe()
                counted = _Execution(workflow_id, cost)
                async for event in handle.fetch_history_events():
                    counted.add(event)
        except NoSuchRunError:
            if not cost.executions:
                raise
            cost.is_partial = True  # retention has removed it
        else:
            info = description.raw_description.workflow_execution_info
            cost.history_bytes += info.history_size_bytes
            cost.executions += 1
            unread += counted.others
    cost.is_partial = cost.is_partial or bool(unread)
    return cost


class _Execution:
    """Counts the events of one execution; `others` are the one before it, and its children."""

    def __init__(self, workflow_id: str, cost: RunCost) -> None:
        self.others: list[tuple[str, str]] = []
        self._workflow_id, self._cost = workflow_id, cost
        self._last_marker = 0
        # By the number of the event that scheduled an activity.
        self._beats_a_second: dict[int, float] = {}
        self._begins: dict[int, float] = {}

    def add(self, event: HistoryEvent) -> None:
        seconds, field = event.event_time.ToNanoseconds() / 1e9, str(event.WhichOneof("attributes"))
        attributes: Any = getattr(event, field, None)
        name = field.removesuffix("_event_attributes")
        kind, number = _ACTIONS.get(name, ("", 0))
        match name:
            case "workflow_execution_started":
                if previous := attributes.continued_execution_run_id:
                    self.others.append((self._workflow_id, previous))
                # The two others are counted where they were requested.
                is_own = not previous and not attributes.HasField("parent_workflow_execution")
                kind, number = "start", is_own
            case "start_child_workflow_execution_initiated":
                self.others.append((attributes.workflow_id, ""))
            case "workflow_execution_signaled":
                kind, number = "signal", not attributes.HasField("external_workflow_execution")
            case "marker_recorded":
                # All markers of a workflow task are one.
                task = attributes.workflow_task_completed_event_id
                kind, number = "local activities", task != self._last_marker
                self._last_marker = task
            case "activity_task_scheduled":
                is_model = attributes.activity_type.name == names.GENERATE
                kind, number = "request to a model" if is_model else "activity", 1
                timeout_seconds = attributes.heartbeat_timeout.ToNanoseconds() / 1e9
                beats = names.BEATS_PER_TIMEOUT / timeout_seconds if timeout_seconds else 0.0
                self._beats_a_second[event.event_id] = beats
            case "activity_task_started":
                kind, number = "retry", attributes.attempt - 1
                self._begins[attributes.scheduled_event_id] = seconds
            case _ if name in _ACTIVITY_ENDS:
                scheduled = attributes.scheduled_event_id
                ran_seconds = seconds - self._begins.get(scheduled, seconds)
                self._cost.heartbeats += int(ran_seconds * self._beats_a_second[scheduled])
        self._cost.events += 1
        if number:
            self._cost.actions[kind] += number
