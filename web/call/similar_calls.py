"""What else waits that is like a call, in other runs: a person may be about to approve it twice.

It is a help, and nothing waits long for it: what cannot be found in a moment is not told.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from holdfast.client.command_errors import CommandError
from holdfast.client.run_lists import RunFilter, RunListing, list_runs, status_query
from holdfast.runtime.text_safety import one_line
from holdfast.schemas.base import canonical_json
from holdfast.schemas.decision import PendingApproval
from holdfast.web.call.loader import Asked
from holdfast.web.pages import address
from holdfast.web.services import Services

MAX_ALIKE: Final = 5
SECONDS: Final = 1.5
_NAME_CHARS: Final = 80


@dataclass(frozen=True)
class Alike:
    """A call of the same tool that waits; `same`: with the very same arguments."""

    href: str
    run: str
    same: bool


async def alike(parts: Services, asked: Asked) -> list[Alike]:
    """Calls of the same tool, or plans, that wait for the same principal in other runs; those with
    the same arguments first."""
    found: list[Alike] = []
    if asked.waiting.kind not in ("call", "plan"):
        return found
    with suppress(CommandError, TimeoutError):
        async with asyncio.timeout(SECONDS):
            runs = await _runs(parts, asked)
            for several in await asyncio.gather(*(_in_run(parts, run, asked) for run in runs)):
                found += several
    return sorted(found, key=lambda one: not one.same)[:MAX_ALIKE]


async def _runs(parts: Services, asked: Asked) -> list[RunListing]:
    known = asked.known
    by_agent = "" if known.principal else known.agent
    wanted = RunFilter(by_agent, asked.waiting.tool, known.principal)
    query = status_query("awaiting_approval") + wanted.terms()
    runs = await list_runs(parts.client, query, MAX_ALIKE + 1)
    return [run for run in runs if run.id != asked.run_id][:MAX_ALIKE]


async def _in_run(parts: Services, run: RunListing, asked: Asked) -> list[Alike]:
    with suppress(CommandError):
        waiting = await parts.run(run.id).pending_approvals()
        return [_of(run, one, asked) for one in waiting if one.tool == asked.waiting.tool]
    return []


def _of(run: RunListing, one: PendingApproval, asked: Asked) -> Alike:
    same = canonical_json(one.arguments) == canonical_json(asked.waiting.arguments)
    return Alike(address("waiting", run.id, one.call_id), one_line(run.id, _NAME_CHARS), same)
