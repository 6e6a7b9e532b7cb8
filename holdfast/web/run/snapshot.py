"""A run at a moment: its description by Temporal, and its own answers if they arrive in time."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from temporalio.client import Client, WorkflowExecutionDescription

from holdfast.client.errors import EncryptedError, HoldfastError
from holdfast.client.remote_run import Entry, attempts, origin_of, queued_request, summary_of
from holdfast.client.result import RunEnding
from holdfast.client.run_lists import RunListing
from holdfast.client.stream.heartbeats import PendingActivity, read_activity
from holdfast.schemas import names
from holdfast.schemas.decision import PendingApproval
from holdfast.schemas.run import Fork, RunReport
from holdfast.web.services import Services

MAX_ACTIVITIES: Final = 50
PAGE_ENTRIES: Final = 100
# Earlier entries that are read for the labels of calls: an entry of a call has its tool only.
LEAD_ENTRIES: Final = 100
_NO_REPORT: Final = RunReport(status="running")


@dataclass(frozen=True)
class RunInfo(RunListing):
    """A run by Temporal's description: `place` changes with each step, `origin` is a fork's."""

    place: str = ""
    ended: datetime | None = None
    summary: str = ""
    root: str = ""
    activities: tuple[PendingActivity, ...] = ()
    is_rate_limited: bool = False
    origin: Fork | None = None


@dataclass(frozen=True)
class LoadedRun:
    """A run at a moment.

    If the run has not answered, `problem` is the reason, if known. `earlier_entries` precede the
    shown ones, and have the labels of their calls.
    """

    info: RunInfo
    report: RunReport = _NO_REPORT
    approvals: Sequence[PendingApproval] = ()
    earlier_entries: list[Entry] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    ending: RunEnding | None = None
    problem: HoldfastError | None = None
    has_answered: bool = False


@dataclass(frozen=True)
class EntryRange:
    """The entries to show: those after a number, those before one, or the newest."""

    after: int | None = None
    before: int | None = None

    def bounds(self, length: int) -> tuple[int, int]:
        """Return the number of the entry before the first one, and of the last one of a log."""
        if self.after is not None:
            return self.after, min(self.after + PAGE_ENTRIES, length)
        end = length if self.before is None else min(self.before - 1, length)
        return max(end - PAGE_ENTRIES, 0), end


async def take_snapshot(
    parts: Services, run_id: str, span: EntryRange, patience_seconds: float
) -> LoadedRun:
    """Describe a run and query it, for `patience_seconds` at most.

    Raises:
        HoldfastError: the run does not exist, or Temporal does not answer.
    """
    run = parts.client.run(run_id)
    found = await read_run_info(parts.client.temporal, await run.describe())
    ending = None
    if found.ended is not None:
        try:
            ending = await run.ending(unread="not read here")
        except HoldfastError as error:
            ending = RunEnding("ended", message=str(error))
    try:
        async with asyncio.timeout(patience_seconds):
            report = await run.share("status", run.status, until_change=True)
            approvals: Sequence[PendingApproval] = ()
            if report.pending:
                approvals = await run.share("approvals", run.approvals, until_change=True)
            first, last = span.bounds(report.log.entries)
            lead = max(first - LEAD_ENTRIES, 0)
            read = [entry async for entry in run.entries(names.CONTEXT, lead, last)]
    except TimeoutError:
        return LoadedRun(found, ending=ending)
    except HoldfastError as error:
        return LoadedRun(found, ending=ending, problem=error)
    earlier = [entry for entry in read if entry["n"] <= first]
    shown = [entry for entry in read if entry["n"] > first]
    return LoadedRun(found, report, approvals, earlier, shown, ending, has_answered=True)


def place(run_id: str, history_length: int, attempts: int) -> str:
    """Return the position of a run, which changes with every change of its page."""
    return f"{run_id}:{history_length}:{attempts}"


async def read_run_info(client: Client, description: WorkflowExecutionDescription) -> RunInfo:
    """Read a description."""
    pending, converter = description.raw_description.pending_activities, client.data_converter
    summary = None
    with suppress(EncryptedError):  # the query of the run reports why it cannot be read
        summary = await summary_of(description)
    return RunInfo(
        **vars(RunListing.of(description)),
        place=place(description.run_id, description.history_length, attempts(description)),
        ended=description.close_time,
        summary=summary or "",
        root=description.root_id or description.id,
        activities=tuple([await read_activity(one, converter) for one in pending[:MAX_ACTIVITIES]]),
        is_rate_limited=queued_request(description.task_queue, pending) is not None,
        origin=await origin_of(description),
    )
