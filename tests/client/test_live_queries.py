"""Reads of a run that a connected worker answers from its cache: no query of Temporal."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest
from temporalio.client import Client, Interceptor, OutboundInterceptor, QueryWorkflowInput

from holdfast.client import remote_run
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.run import Run
from holdfast.client.stream import local_viewer as local
from holdfast.client.stream.local_viewer import local_viewer
from holdfast.hosting.sdk_workarounds import cached_runs
from holdfast.schemas import names
from holdfast.schemas.internal.live_answer import QueryResult
from tests.support.backend import SIDE_BY_SIDE, backend
from tests.support.eventually import eventually
from tests.support.model_server import Answer, call

LOOK_UP = {
    "_tool": "look_up",
    "properties": {"id": {"type": "integer"}},
    "_activity": {"type": "look_up", "local": True},
}
READS: list[Callable[[Run], Awaitable[Any]]] = [
    lambda run: run.status(),
    lambda run: run.page(names.EVENTS, 0, 100),
    lambda run: run.page(names.CONTEXT, 2, 3),
]


class Queries(Interceptor):
    """What this client asks runs through Temporal."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:  # noqa: A002
        queries = self.names

        class Outbound(OutboundInterceptor):
            async def query_workflow(self, input: QueryWorkflowInput) -> Any:
                queries.append(input.query)
                return await super().query_workflow(input)

        return Outbound(next)


@pytest.mark.usefixtures("ledger")
async def test_a_connected_worker_answers_as_temporal_does(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "DEV_DATABASE", tmp_path / "t.db")
    # However busy the machine is.
    monkeypatch.setattr(remote_run, "_LIVE_SECONDS", 20)
    monkeypatch.setattr(cached_runs, "ENDED_SECONDS", 20)
    queries = Queries()
    watching = HoldfastClient(Client(**(client.config() | {"interceptors": [queries]})))
    said = [Answer(calls=[call("look_up", id=7), call("pay", amount=5)]), Answer("Paid.")]
    folder = str(tmp_path / "viewers")

    async def is_connected() -> bool:
        return bool(watching.live._workers)

    async def check(run_id: str) -> None:
        here, there = watching.run(run_id), HoldfastClient(client).run(run_id)
        for read in READS:
            assert await read(here) == await read(there)

    async with backend(client, tmp_path, said, viewers=[folder], **SIDE_BY_SIDE) as made:
        async with local_viewer(watching.live):
            await eventually(is_connected)
            run = await made.start([LOOK_UP, "pay"])
            await run.listed()  # a query now could evict it
            await check(run.id)
            assert queries.names == []
            # What a person decides on comes from Temporal.
            assert len(await watching.run(run.id).approvals()) == 1
            assert queries.names == [names.APPROVALS]
            await run.decide("t1c2", "approve")
            await run.result()
            await check(run.id)
        assert queries.names == [names.APPROVALS]
        monkeypatch.setattr(remote_run, "_LIVE_SECONDS", 0.1)
        old = QueryResult(query=1, position=(run.id, 3), result=[])
        for unfit in (AsyncMock(return_value=old), asyncio.Event().wait):  # another never answers
            monkeypatch.setattr(watching.live, "query", lambda *_, unfit=unfit: unfit())
            await check(run.id)
        assert queries.names[1:] == [names.STATUS, names.EVENTS, names.CONTEXT] * 2
