"""Runs with pending approvals, as the lists have them, and no worker: what a list is made of."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from temporalio.client import Client
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.service import RPCError

from holdfast.schemas import names
from tests.support.eventually import eventually

_KEYWORDS = (names.AGENT_NAME, names.AGENT_STATUS, names.AGENT_PRINCIPAL)
_LISTS = (names.PENDING_TOOLS, names.PENDING_FOR)
_TIMES = (names.PENDING_SINCE, names.PENDING_UNTIL)
_KEYS: dict[str, SearchAttributeKey[Any]] = {
    **{name: SearchAttributeKey.for_keyword(name) for name in _KEYWORDS},
    **{name: SearchAttributeKey.for_keyword_list(name) for name in _LISTS},
    **{name: SearchAttributeKey.for_datetime(name) for name in _TIMES},
}


@dataclass(frozen=True)
class Asks:
    """One run: so long ago something was asked, which expires in so long."""

    name: str
    ago: timedelta = timedelta(minutes=1)
    left: timedelta = timedelta(days=7)
    tools: Sequence[str] = ("pay",)
    groups: Sequence[str] = (names.FOR_ANYBODY,)
    principal: str = "ada"
    placed: bool = True


class Crowd:
    """The runs of one agent, which has a name of its own."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.agent = f"crowd-{uuid.uuid4().hex[:8]}"
        self.now = datetime.now(UTC)
        self._names: list[str] = []

    async def end(self) -> None:
        for name in self._names:
            with suppress(RPCError):  # it was ended already
                await self.client.get_workflow_handle(self.id(name)).terminate()

    async def start(self, runs: Iterable[Asks]) -> None:
        started = [self.start_one(run) for run in runs]
        await asyncio.gather(*started)
        query = f'{names.AGENT_NAME} = "{self.agent}"'

        async def all_there() -> bool:
            return (await self.client.count_workflows(query)).count >= len(self._names)

        await eventually(all_there)

    def id(self, name: str) -> str:
        return f"{self.agent}/{name}"

    async def start_one(self, run: Asks) -> None:
        self._names.append(run.name)
        said: dict[str, Any] = {
            names.AGENT_NAME: self.agent,
            names.AGENT_STATUS: "awaiting_approval",
            names.AGENT_PRINCIPAL: run.principal,
            names.PENDING_TOOLS: list(run.tools),
        }
        if run.placed:
            said[names.PENDING_FOR] = list(run.groups)
            said[names.PENDING_SINCE] = self.now - run.ago
            said[names.PENDING_UNTIL] = self.now + run.left
        pairs = [SearchAttributePair(_KEYS[name], value) for name, value in said.items()]
        await self.client.start_workflow(
            names.AGENT_WORKFLOW,
            id=self.id(run.name),
            task_queue=f"unserved-{self.agent}",
            search_attributes=TypedSearchAttributes(pairs),
        )


@asynccontextmanager
async def crowd_of(client: Client) -> AsyncIterator[Crowd]:
    crowd = Crowd(client)
    try:
        yield crowd
    finally:
        await crowd.end()
