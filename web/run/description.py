"""What Temporal itself knows of a run: enough for a page while no worker answers."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import Client, WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.exceptions import FailureError

from holdfast.client.command_errors import EncryptedError
from holdfast.client.run_handle import attempts, queued_request
from holdfast.client.stream.heartbeats import update_in
from holdfast.client.stream.live_text import progress_line
from holdfast.runtime.text_safety import one_line
from holdfast.schemas import names

MAX_ACTIVITIES: Final = 50
_FAILURE_CHARS: Final = 300
_LIVE: Final = (WorkflowExecutionStatus.RUNNING, WorkflowExecutionStatus.CONTINUED_AS_NEW)
_STARTED: Final = PendingActivityState.PENDING_ACTIVITY_STATE_STARTED


@dataclass(frozen=True)
class Doing:
    """An activity under way, on a task `queue`. `failed` is how the attempt before this one failed,
    `again_at` when the next one is made, where none is under way; `told` is what the call that it
    carries out has told of itself."""

    id: str
    type: str
    since: datetime | None
    queue: str = ""
    attempt: int = 1
    begun: bool = True
    paused: bool = False
    failed: str = ""
    again_at: datetime | None = None
    told: str = ""


@dataclass(frozen=True)
class Known:
    """A run by Temporal's own account. `place` changes whenever the run has moved on."""

    id: str
    place: str
    started: datetime
    single: bool = False
    ended: datetime | None = None
    summary: str = ""
    agent: str = ""
    status: str = ""
    principal: str = ""
    parent: str | None = None
    root: str = ""
    waits_for: tuple[str, ...] = ()
    waits_since: datetime | None = None
    doing: tuple[Doing, ...] = ()
    in_line: bool = False

    @property
    def call_of_parent(self) -> str | None:
        """The call of its parent that it carries out, where it is a delegate."""
        if self.parent is None or not self.id.startswith(f"{self.parent}."):
            return None
        return self.id.removeprefix(f"{self.parent}.")


def place(run_id: str, history_length: int, attempts: int) -> str:
    """How far a run has come: it differs as soon as anything of its page may."""
    return f"{run_id}:{history_length}:{attempts}"


async def known(client: Client, description: WorkflowExecutionDescription) -> Known:
    """What a description says."""
    pending = description.raw_description.pending_activities
    found = description.typed_search_attributes
    told = {pair.key.name: pair.value for pair in found}
    return Known(
        id=description.id,
        place=place(description.run_id, description.history_length, attempts(description)),
        started=description.start_time,
        single=description.workflow_type == names.CALL_WORKFLOW,
        ended=None if description.status in _LIVE else description.close_time,
        summary=await _summary(description),
        agent=str(told.get(names.AGENT_NAME) or ""),
        status=str(told.get(names.AGENT_STATUS) or ""),
        principal=str(told.get(names.AGENT_PRINCIPAL) or ""),
        parent=description.parent_id,
        root=description.root_id or description.id,
        waits_for=tuple(_texts(told.get(names.PENDING_TOOLS))),
        waits_since=_since(told.get(names.PENDING_SINCE)),
        doing=tuple([await _doing(client, one) for one in pending[:MAX_ACTIVITIES]]),
        in_line=queued_request(description.task_queue, pending) is not None,
    )


async def _summary(description: WorkflowExecutionDescription) -> str:
    try:
        return await description.static_summary() or ""
    except EncryptedError:
        return ""  # that it cannot be read is told by what the run is asked


async def _doing(client: Client, one: PendingActivityInfo) -> Doing:
    begun = one.state == _STARTED
    return Doing(
        id=one.activity_id,
        type=one.activity_type.name,
        since=_moment(one, "last_started_time" if begun else "scheduled_time"),
        queue=one.activity_options.task_queue.name,
        attempt=one.attempt,
        begun=begun,
        paused=one.paused,
        failed=await _failure(client, one),
        again_at=None if begun else _moment(one, "next_attempt_schedule_time"),
        told=await _told(client, one),
    )


async def _told(client: Client, one: PendingActivityInfo) -> str:
    try:
        update = await update_in(one, client.data_converter)
    except EncryptedError:
        return ""  # as above
    return "" if update is None else progress_line(update)


async def _failure(client: Client, one: PendingActivityInfo) -> str:
    if not one.HasField("last_failure"):
        return ""
    try:
        error = await client.data_converter.decode_failure(one.last_failure)
    except EncryptedError as unreadable:
        return one_line(str(unreadable), _FAILURE_CHARS)
    said = error.message if isinstance(error, FailureError) else str(error)
    return one_line(said, _FAILURE_CHARS)


def _moment(one: PendingActivityInfo, field: str) -> datetime | None:
    stamp: Timestamp = getattr(one, field)
    return stamp.ToDatetime(UTC) if one.HasField(field) else None  # type: ignore[arg-type]


def _texts(value: Any) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list | tuple) else []


def _since(value: Any) -> datetime | None:
    return value if isinstance(value, datetime) else None
