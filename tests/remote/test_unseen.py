"""A worker that Temporal did not see when it was asked is found when it is asked again (§12)."""

from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client, Interceptor, OutboundInterceptor, QueryWorkflowInput
from temporalio.service import RPCError, RPCStatusCode

from holdfast.client import run_handle as remote_run
from holdfast.client.command_errors import NoWorkerError
from holdfast.client.run_handle import RunHandle
from tests.support.house import SIDE_BY_SIDE, house
from tests.support.model_server import Answer

UNSEEN = "no poller seen for task queue recently, worker may be down"


class Overlooking(Interceptor):
    """Temporal, where it has seen nobody ask for work for a while, and says so so many times."""

    def __init__(self, times: int) -> None:
        self.times = times

    def intercept_client(self, next_: OutboundInterceptor) -> OutboundInterceptor:
        overlooking = self

        class Queries(OutboundInterceptor):
            async def query_workflow(self, input: QueryWorkflowInput) -> Any:
                overlooking.times -= 1
                if overlooking.times >= 0:
                    raise RPCError(UNSEEN, RPCStatusCode.FAILED_PRECONDITION, b"")
                return await super().query_workflow(input)

        return Queries(next_)


def overlooked(client: Client, run_id: str, overlooking: Overlooking) -> RunHandle:
    """A run, by a client whose server overlooks workers."""
    return RunHandle(Client(**(client.config() | {"interceptors": [overlooking]})), run_id)


async def test_a_worker_that_is_overlooked_is_asked_again(client: Client, tmp_path: Path) -> None:
    async with house(client, tmp_path, [Answer("Done.")], **SIDE_BY_SIDE) as made:
        run = await made.start([])
        await run.result()
        seen = overlooked(client, run.id, Overlooking(remote_run._UNSEEN_TRIES - 1))
        assert (await seen.status())["status"] == "completed"


async def test_a_worker_that_is_not_found_is_not_asked_for_ever(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_run, "_UNSEEN_PAUSE_SECONDS", 0)
    async with house(client, tmp_path, [Answer("Done.")], **SIDE_BY_SIDE) as made:
        run = await made.start([])
        await run.result()
        overlooking = Overlooking(1000)
        with pytest.raises(NoWorkerError, match="no worker answers queries on task queue"):
            await overlooked(client, run.id, overlooking).status()
        assert 1000 - overlooking.times == remote_run._UNSEEN_TRIES


async def test_where_nobody_ever_asked_for_work_there_is_nobody_to_ask_again(
    client: Client,
) -> None:
    await client.start_workflow("AgentWorkflow", {}, id="unseen", task_queue="nobody-at-all")
    overlooking = Overlooking(1000)
    with pytest.raises(NoWorkerError):
        await overlooked(client, "unseen", overlooking).status()
    assert overlooking.times == 999
