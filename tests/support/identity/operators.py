"""What an operator does to a running activity, as `temporal activity …` and `temporal workflow
reset` do it."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask
from temporalio.api.activity.v1 import ActivityOptions
from temporalio.api.common.v1 import RetryPolicy, WorkflowExecution
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.api.workflowservice.v1 import (
    PauseActivityRequest,
    ResetActivityRequest,
    UnpauseActivityRequest,
    UpdateActivityOptionsRequest,
)
from temporalio.client import Client

from tests.support.backend import Run
from tests.support.eventually import eventually

SOON, LATER = timedelta(seconds=1), timedelta(minutes=1)
_WAITS = PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED
_RUNS = PendingActivityState.PENDING_ACTIVITY_STATE_STARTED
_RETRIED = [f"retry_policy.{each}" for each in ("maximum_attempts", "initial_interval")]


@dataclass(frozen=True)
class Operator:
    """An operator, and the activity of a run that the commands are for."""

    client: Client
    workflow_id: str
    activity_id: str = "t1c1"

    async def pending(self) -> list[PendingActivityInfo]:
        """The activities of the run that have not ended."""
        described = await self.client.get_workflow_handle(self.workflow_id).describe()
        return list(described.raw_description.pending_activities)

    async def pause(self) -> None:
        """`temporal activity pause`."""
        await self.client.workflow_service.pause_activity(PauseActivityRequest(**self._which))

    async def unpause(self, *, afresh: bool = False) -> None:
        """`temporal activity unpause`; `afresh`: its attempts and heartbeats are reset."""
        request = UnpauseActivityRequest(
            reset_attempts=afresh, reset_heartbeat=afresh, **self._which
        )
        await self.client.workflow_service.unpause_activity(request)

    async def reset(self) -> None:
        """`temporal activity reset`, with its heartbeats and its options."""
        request = ResetActivityRequest(
            reset_heartbeat=True, restore_original_options=True, **self._which
        )
        await self.client.workflow_service.reset_activity(request)

    async def retry(self, attempts: int, interval: timedelta, longest: timedelta) -> None:
        """`temporal activity update-options`: more attempts, which last so long at most."""
        options = ActivityOptions(
            retry_policy=RetryPolicy(
                maximum_attempts=attempts, initial_interval=_duration(interval)
            ),
            start_to_close_timeout=_duration(longest),
        )
        await self.client.workflow_service.update_activity_options(
            UpdateActivityOptionsRequest(
                activity_options=options,
                update_mask=FieldMask(paths=[*_RETRIED, "start_to_close_timeout"]),
                **self._which,
            )
        )

    async def end_attempt(self) -> None:
        """Have the attempt time out, with another one a minute later."""
        await self.retry(5, LATER, SOON)

        async def waits() -> bool:
            return [each.state for each in await self.pending()] == [_WAITS]

        await eventually(waits)

    async def restore(self) -> None:
        """`temporal activity update-options --restore-original-options`."""
        await self.client.workflow_service.update_activity_options(
            UpdateActivityOptionsRequest(restore_original=True, **self._which)
        )

    async def reset_run(self) -> None:
        """`temporal workflow reset`, to the last workflow task: the activity stays scheduled."""
        await Run(self.client.get_workflow_handle(self.workflow_id), self.client).reset(-1)

    @property
    def _which(self) -> dict[str, Any]:
        execution = WorkflowExecution(workflow_id=self.workflow_id)
        return {
            "namespace": self.client.namespace,
            "execution": execution,
            "id": self.activity_id,
        }


async def change_request(run: Run) -> None:
    """Change the options of the request to the model that is running, also between two attempts."""

    async def of_request() -> Operator | None:
        for each in await Operator(run.client, run.id).pending():
            if each.activity_type.name == "generate" and each.state == _RUNS:
                return Operator(run.client, run.id, each.activity_id)
        return None

    operator = await eventually(of_request)
    await operator.end_attempt()
    await operator.retry(5, LATER, LATER)


def _duration(of: timedelta) -> Duration:
    duration = Duration()
    duration.FromTimedelta(of)
    return duration
