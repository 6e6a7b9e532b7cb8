"""The cost of a run on Temporal: Actions, history and heartbeats.

Temporal Cloud bills Actions. They are counted in the histories as the server counts them
(`common/rpc/interceptor/telemetry.go` of Temporal's server 1.32). Two kinds are in no history:
heartbeats, which are estimated here from the time that activities ran, and queries. A delegate is a
run of its own, and counted with its parent.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

from holdfast.client.errors import NoSuchRunError, explain_rpc_errors
from holdfast.schemas import names

MAX_EXECUTIONS: Final = 1_000
_ACTIVITY_ENDS: Final = {
    EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED: "activity_task_completed_event_attributes",
    EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED: "activity_task_failed_event_attributes",
    EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT: "activity_task_timed_out_event_attributes",
    EventType.EVENT_TYPE_ACTIVITY_TASK_CANCELED: "activity_task_canceled_event_attributes",
}
# By event: the kind of its Actions, and their number.
_ACTIONS: Final = {
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW: ("continue-as-new", 1),
    EventType.EVENT_TYPE_TIMER_STARTED: ("timer", 1),
    EventType.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES: ("search attributes", 1),
    EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED: ("child workflow", 2),
    EventType.EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED: ("signal", 1),
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED: ("update", 1),
}


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
        self._timeouts: dict[int, float] = {}
        self._begins: dict[int, float] = {}

    def add(self, event: HistoryEvent) -> None:
        """Count an event."""
        self._cost.events += 1
        kind, number = _ACTIONS.get(event.event_type) or self._action(event)
        self._cost.actions[kind] += number
        if event.HasField("start_child_workflow_execution_initiated_event_attributes"):
            child = event.start_child_workflow_execution_initiated_event_attributes
            self.others.append((child.workflow_id, ""))
        elif field := _ACTIVITY_ENDS.get(event.event_type):
            scheduled = getattr(event, field).scheduled_event_id
            if timeout := self._timeouts[scheduled]:
                ran_seconds = _seconds(event) - self._begins.get(scheduled, _seconds(event))
                self._cost.heartbeats += int(ran_seconds * names.BEATS_PER_TIMEOUT / timeout)

    def _action(self, event: HistoryEvent) -> tuple[str, int]:
        """Return the kind and the number of the Actions of an event."""
        match event.WhichOneof("attributes"):
            case "workflow_execution_started_event_attributes":
                start = event.workflow_execution_started_event_attributes
                if previous := start.continued_execution_run_id:
                    self.others.append((self._workflow_id, previous))
                # The two others are counted where they were requested.
                is_own = not previous and not start.HasField("parent_workflow_execution")
                return "start", is_own
            case "workflow_execution_signaled_event_attributes":
                signal = event.workflow_execution_signaled_event_attributes
                return "signal", not signal.HasField("external_workflow_execution")
            case "marker_recorded_event_attributes":
                # All markers of a workflow task are one.
                marker = event.marker_recorded_event_attributes.workflow_task_completed_event_id
                is_first, self._last_marker = marker != self._last_marker, marker
                return "local activities", is_first
            case "activity_task_scheduled_event_attributes":
                activity = event.activity_task_scheduled_event_attributes
                timeout = activity.heartbeat_timeout
                self._timeouts[event.event_id] = timeout.ToNanoseconds() / 1e9
                is_model = activity.activity_type.name == names.GENERATE
                return "request to a model" if is_model else "activity", 1
            case "activity_task_started_event_attributes":
                attempt = event.activity_task_started_event_attributes
                self._begins[attempt.scheduled_event_id] = _seconds(event)
                return "retry", attempt.attempt - 1
        return "", 0


def _seconds(event: HistoryEvent) -> float:
    return event.event_time.ToNanoseconds() / 1e9
