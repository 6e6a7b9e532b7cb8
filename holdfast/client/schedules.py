"""Temporal's schedules that start runs, as the files of a catalog's `schedules/` state them.

A schedule that is made here has the name of its folder's set in its memo, which never changes; a
schedule without one, or of another set, is never changed. Each is written by one request, so that
an interrupted `apply` leaves whole schedules, and the next one writes the others.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from temporalio import client as sdk
from temporalio.api.common.v1 import Payload
from temporalio.common import TypedSearchAttributes
from temporalio.service import RPCError, RPCStatusCode

from holdfast.client.errors import RUN_FAILED, HoldfastError, read_input, wrong_command
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.start import StartRequest
from holdfast.schemas import names
from holdfast.schemas.run import RunRequest
from holdfast.schemas.settings.schedules import ScheduleDefinition

# By Temporal's words, such as `AllowAll`.
_OVERLAP = {each.name.title().replace("_", ""): each for each in sdk.ScheduleOverlapPolicy}


class ScheduleSets:
    """The schedules of a namespace that belong to sets."""

    def __init__(self, client: HoldfastClient) -> None:
        self._client, self._temporal = client, client.temporal

    async def find(self, id: str, owner: str | None = None) -> sdk.ScheduleHandle | None:
        """Return a schedule of a set, by default of any; None if there is none of this id.

        Raises:
            HoldfastError: the schedule is not of this set.
        """
        handle = self._temporal.get_schedule_handle(id)
        try:
            found = await (await handle.describe()).memo_value(names.SCHEDULE_SET, default=None)
        except RPCError as error:
            if error.status != RPCStatusCode.NOT_FOUND or error.message.startswith("Namespace"):
                raise
            return None
        if found is None or owner not in (None, found):
            maker = f"is of the set {found}" if found else "was not made by `schedules apply`"
            todo = "rename the file, or change that one with the command `temporal schedule`"
            raise wrong_command(f"the schedule {id} {maker}", todo)
        return handle

    async def apply(self, id: str, wanted: ScheduleDefinition, owner: str) -> str:
        """Make a schedule as its file states it; return `created`, `updated` or `unchanged`.

        Whether it is paused does not change.
        """
        found, request = await self.find(id, owner), wanted.request()
        checked = read_input(RunRequest, request, "run", "change the file of the schedule")
        memo = {names.LABELS: wanted.labels} if wanted.labels else {}
        new = StartRequest.of(checked, request, started_by=f"the schedule `{id}`", memo=memo)
        plain = _schedule(id, wanted, new, self._client.task_queue)
        if found is not None:
            before = (await found.describe()).schedule
            if await self._terms(before) == await self._terms(plain):
                return "unchanged"

        async def write(search_attributes: TypedSearchAttributes | None = None) -> None:
            whole = _schedule(id, wanted, new, self._client.task_queue, search_attributes)
            if found is None:
                memo = {names.SCHEDULE_SET: owner}
                await self._temporal.create_schedule(id, whole, memo=memo)
                return

            def edit(now: sdk.ScheduleUpdateInput) -> sdk.ScheduleUpdate:
                present = now.description.schedule.state
                state = sdk.ScheduleState(note=present.note, paused=present.paused)
                return sdk.ScheduleUpdate(replace(whole, state=state))

            await found.update(edit)

        try:
            await self._client.send_start(write, new)
        except sdk.ScheduleAlreadyRunningError:
            wrong = f"the schedule {id} was made by another program meanwhile"
            raise HoldfastError(wrong, "run the command again", RUN_FAILED) from None
        except RPCError as error:
            if error.status != RPCStatusCode.INVALID_ARGUMENT:
                raise
            wrong = f"Temporal refuses the schedule {id}: {error.message}"
            raise wrong_command(wrong, "change its file, and run the command again") from error
        return "created" if found is None else "updated"

    async def list(self) -> list[tuple[sdk.ScheduleListDescription, str]]:
        """Return the schedules with their sets, as Temporal's list has them: a moment behind."""
        found = list[tuple[sdk.ScheduleListDescription, str]]()
        async for each in await self._temporal.list_schedules():
            if (owner := await each.memo_value(names.SCHEDULE_SET, default=None)) is not None:
                found.append((each, owner))
        return sorted(found, key=lambda one: one[0].id)

    async def _terms(self, schedule: sdk.Schedule) -> Sequence[Any]:
        """Return what a file states of a schedule, or leaves unset, decrypted."""
        action, spec = schedule.action, schedule.spec
        assert isinstance(action, sdk.ScheduleActionStartWorkflow)  # Temporal has no other
        memo, decode = action.memo or {}, self._temporal.data_converter.decode
        values = [
            (await decode([each]))[0] if isinstance(each, Payload) else each
            for each in (*action.args, *memo.values())
        ]
        # The server makes calendars of cron expressions, with their comments.
        crons = [each.comment for each in spec.calendars]
        crons += [each.partition(" # ")[2] for each in spec.cron_expressions]
        times = (crons, replace(spec, calendars=[], cron_expressions=[]))
        own = (action.workflow, action.id, action.task_queue, action.retry_policy, action.priority)
        limits = (action.execution_timeout, action.run_timeout, action.task_timeout)
        policies = (schedule.policy, schedule.state.limited_actions)
        return (*own, *limits, [*memo], values, *times, *policies)


def _schedule(
    id: str,
    wanted: ScheduleDefinition,
    new: StartRequest,
    task_queue: str,
    attributes: TypedSearchAttributes | None = None,
) -> sdk.Schedule:
    every = [] if wanted.interval is None else [sdk.ScheduleIntervalSpec(wanted.interval)]
    cron = [] if wanted.cron is None else [f"{wanted.cron} # {wanted.cron}"]
    action = sdk.ScheduleActionStartWorkflow(
        new.workflow,
        new.payload,
        id=id,
        task_queue=task_queue,
        memo=new.memo or None,
        typed_search_attributes=attributes or TypedSearchAttributes.empty,
        static_summary=new.summary,
        static_details=new.details,
    )
    return sdk.Schedule(
        action,
        sdk.ScheduleSpec(intervals=every, cron_expressions=cron, time_zone_name=wanted.time_zone),
        sdk.SchedulePolicy(_OVERLAP[wanted.overlap or "Skip"], wanted.catchup_window),
    )
