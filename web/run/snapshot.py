"""A run as it stands: what Temporal knows, and what the run answers itself, if it does in time."""

import asyncio
from dataclasses import dataclass, field
from typing import Any, Final

from holdfast.client.command_errors import CommandError
from holdfast.client.result import RunEnding
from holdfast.client.run_handle import Entry, RunHandle, delegate_approvals
from holdfast.schemas import names
from holdfast.schemas.decision import PendingApproval
from holdfast.schemas.internal.delegate import DelegatePending
from holdfast.web.run.description import Known, known
from holdfast.web.services import Services

PAGE_ENTRIES: Final = 100
# Read besides, to name the calls by: an entry on a call has the name of its tool alone.
LEAD_ENTRIES: Final = 100


@dataclass(frozen=True)
class Seen:
    """A run as it stands. Where it has not answered, `silent` says why, as far as that is known;
    `lead` are entries that stand before those that are shown."""

    known: Known
    status: dict[str, Any] = field(default_factory=dict)
    waiting: list[PendingApproval] = field(default_factory=list)
    lead: list[Entry] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    ending: RunEnding | None = None
    silent: CommandError | None = None
    answered: bool = False

    @property
    def elsewhere(self) -> list[DelegatePending]:
        """What waits for a person in delegates."""
        return delegate_approvals(self.status)

    @property
    def length(self) -> int:
        """How many entries its log has."""
        return int(self.status.get("log", {}).get("entries", 0))


@dataclass(frozen=True)
class Span:
    """Which entries are wanted: those after a number, or those before one; neither: the newest."""

    after: int | None = None
    before: int | None = None

    def first(self, length: int) -> int:
        """The number of the entry that stands before the first one."""
        if self.after is not None:
            return self.after
        end = length if self.before is None else min(self.before - 1, length)
        return max(end - PAGE_ENTRIES, 0)

    def last(self, first: int) -> int:
        """The number of the last one, if there are so many."""
        return first + PAGE_ENTRIES if self.before is None else self.before - 1


async def see(parts: Services, run_id: str, span: Span, patience_seconds: float) -> Seen:
    """Look at a run, and ask it itself, for `patience_seconds` at most.

    Raises:
        CommandError: there is no such run, or Temporal does not answer.
    """
    run = parts.run(run_id)
    found = await known(parts.client, await run.describe())
    ending = None if found.ended is None else await _ending(run)
    try:
        async with asyncio.timeout(patience_seconds):
            return await _asked(run, found, ending, span)
    except TimeoutError:
        return Seen(found, ending=ending)
    except CommandError as error:
        return Seen(found, ending=ending, silent=error)


async def _ending(run: RunHandle) -> RunEnding:
    try:
        return await run.ending(whole=False)
    except CommandError as error:
        return RunEnding("ended", message=str(error))


async def _asked(run: RunHandle, found: Known, ending: RunEnding | None, span: Span) -> Seen:
    status = await run.status()
    waiting = await run.pending_approvals() if status["pending"] else []
    length = int(status.get("log", {}).get("entries", 0))
    first = span.first(length)
    read = await entries(run, max(first - LEAD_ENTRIES, 0), min(span.last(first), length))
    lead = [entry for entry in read if entry["n"] <= first]
    shown = [entry for entry in read if entry["n"] > first]
    return Seen(found, status, waiting, lead, shown, ending, answered=True)


async def entries(run: RunHandle, after: int, upto: int) -> list[Entry]:
    """The entries of the log after one number, up to another; raises as `RunHandle.entries`."""
    read: list[Entry] = []
    while after < upto and (page := await run.page(names.CONTEXT, after, upto - after)):
        read += page
        after = page[-1]["n"]
    return read
