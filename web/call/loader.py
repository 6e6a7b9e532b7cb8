"""One question, with all that a page tells of it: from Temporal, and from the run itself.

`ParsedRequest` waits for somebody; `Over` does no more, and has what came of it.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from holdfast.client.command_errors import NO_SUCH, CommandError
from holdfast.client.run_handle import RunHandle
from holdfast.client.run_lists import RunFilter, status_query
from holdfast.client.visibility import NEWEST, first_runs
from holdfast.schemas import names
from holdfast.schemas.agent import Budget
from holdfast.schemas.base import canonical_json, sha256
from holdfast.schemas.decision import PendingApproval, shown_calls
from holdfast.schemas.phrases import quote_value
from holdfast.schemas.tool import ShownTool
from holdfast.web.auth.person import Person
from holdfast.web.call.history import Past, read_past
from holdfast.web.pages import address
from holdfast.web.pending_call import is_whole
from holdfast.web.run.description import Known, known
from holdfast.web.services import Services

MAX_TOOLS: Final = 30
_MAX_NEXT_RUNS: Final = 4
_NEXT_SECONDS: Final = 3.0
_NEW_LIMIT: Final = "New limit, in all (not in addition)"
# How the mark of what waits no more begins; that of what waits is a digest.
OVER: Final = "over:"


@dataclass(frozen=True)
class Asked:
    """A question that waits. `tools` are those that it is about, by their names."""

    run_id: str
    known: Known
    waiting: PendingApproval
    others: list[PendingApproval]
    past: Past
    tools: Mapping[str, ShownTool] = field(default_factory=dict)
    status: Mapping[str, Any] = field(default_factory=dict)

    @property
    def tool(self) -> ShownTool | None:
        """The tool that the call is of; of a plan or a budget, none."""
        return self.tools.get(self.waiting.tool)

    @property
    def is_whole(self) -> bool:
        """Whether all of it is shown: what is too large for an answer is shown in part."""
        return is_whole(self.waiting)

    @property
    def schema(self) -> Any:
        """The schema of its arguments; of a budget, that of its limit."""
        if self.waiting.kind == "budget":
            return _limit_schema(self.waiting)
        return True if self.tool is None else self.tool.parameters


@dataclass(frozen=True)
class Over:
    """A question that waits no more. `ended`: so has its run."""

    run_id: str
    call_id: str
    known: Known
    past: Past
    status: Mapping[str, Any] = field(default_factory=dict)

    @property
    def question(self) -> PendingApproval:
        """What was asked."""
        assert self.past.asked is not None  # or there would be no such question
        return self.past.asked

    @property
    def ended(self) -> bool:
        """Whether the run is over."""
        return self.known.ended is not None

    @property
    def is_unexplained(self) -> bool:
        """Whether nothing says why it waits no more."""
        return not self.ended and self.past.verdict is None and not self.past.expired

    @property
    def is_settled(self) -> bool:
        """Whether nothing more can come of it."""
        return self.ended or self.past.stage in ("done", "failed", "settled")

    @property
    def mark(self) -> str:
        """What tells it from what it is later."""
        past = self.past
        steps = "".join(one.tone[0] for one in past.steps)
        return f"{OVER}{past.number}:{past.stage}:{len(past.became)}:{steps}:{self.ended}"


async def look(parts: Services, run_id: str, call_id: str) -> Asked | Over:
    """The question as it stands now.

    Raises:
        NoWorkerError, StuckError: nobody answers for the run.
        CommandError: there is no such run, or no such question in it.
    """
    found = await _look(parts, run_id, call_id)
    if isinstance(found, Over) and found.is_unexplained:
        # It may have been asked or decided between two of our questions: ask again.
        return await _look(parts, run_id, call_id)
    return found


async def _look(parts: Services, run_id: str, call_id: str) -> Asked | Over:
    run = parts.run(run_id)
    found = await known(parts.client, await run.describe())
    waiting = await run.pending_approvals()
    status = await run.status()
    past = await read_past(run, call_id, int(status.get("log", {}).get("entries", 0)))
    here = next((one for one in waiting if one.call_id == call_id), None)
    if here is not None:
        others = [one for one in waiting if one is not here]
        tools = await _tools(run, here)
        return Asked(run_id, found, here, others, past, tools, status)
    if past.asked is None:
        wrong = f"no call {quote_value(call_id)} of run {run_id} waits for a decision"
        raise CommandError(wrong, "see what waits, or the run itself", NO_SUCH)
    return Over(run_id, call_id, found, past, status)


async def _tools(run: RunHandle, waiting: PendingApproval) -> dict[str, ShownTool]:
    """The tools that a question is about."""
    if waiting.kind == "budget":
        return {}
    planned = [str(call.get("tool")) for call in shown_calls(waiting.arguments)]
    wanted = dict.fromkeys(planned if waiting.kind == "plan" else [waiting.tool])
    found = {}
    for name in [*wanted][:MAX_TOOLS]:
        found[name] = await run.tool(name)
    return found


def _limit_schema(waiting: PendingApproval) -> dict[str, Any]:
    """What a limit of a budget may be set to."""
    [name, *_] = waiting.arguments
    rules = dict(Budget.model_json_schema(by_alias=True)["properties"][name])
    kinds = [one for one in rules.pop("anyOf", []) if one.get("type") != "null"]
    rules.pop("default", None)
    return {
        "type": "object",
        "properties": {name: {**rules, **(kinds[0] if kinds else {}), "title": _NEW_LIMIT}},
        "required": [name],
        "additionalProperties": False,
    }


async def next_waiting(parts: Services, run_id: str, call_id: str, person: Person) -> str | None:
    """The page of another question that this person may decide on: of the same run, else the one
    that was asked last. `None` where there is none, or none was found in a moment."""
    with suppress(CommandError, TimeoutError):
        async with asyncio.timeout(_NEXT_SECONDS):
            ids = [run_id, *await _waiting_runs(parts, person, but=run_id)]
            for one in ids:
                with suppress(CommandError):
                    for waiting in await parts.run(one).pending_approvals():
                        if (one, waiting.call_id) != (run_id, call_id) and _may(waiting, person):
                            return address("waiting", one, waiting.call_id)
    return None


async def _waiting_runs(parts: Services, person: Person, *, but: str) -> list[str]:
    wanted = RunFilter(groups=(names.FOR_ANYBODY, *person.groups))
    query = status_query("awaiting_approval") + wanted.terms()
    found = await first_runs(parts.client, query, NEWEST, _MAX_NEXT_RUNS)
    return [run.id for run in found if run.id != but]


def _may(waiting: PendingApproval, person: Person) -> bool:
    decided = any(one.by == person.name for one in waiting.decisions)
    in_group = not waiting.approvers or bool(set(waiting.approvers) & set(person.groups))
    return in_group and not decided


def digest_in(waiting: PendingApproval) -> str:
    """What tells a question from what it is later: who has decided is a part of it."""
    return sha256(canonical_json([waiting.digest, waiting.requested_at, len(waiting.decisions)]))
