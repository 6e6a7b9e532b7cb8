"""Ending the backtests of killed commands, whatever the server and other workers answer."""

from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from temporalio.client import WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.records.backtest import Backtests
from holdfast.runtime.encryption.codec import DecryptError

LOST = RPCError("Timeout expired", RPCStatusCode.DEADLINE_EXCEEDED, b"")
FULL = RPCError("namespace rate limit exceeded", RPCStatusCode.RESOURCE_EXHAUSTED, b"")


class BacktestServer:
    """Lists backtests whose workers answer so; `ended` are those that are terminated."""

    def __init__(self, answers: dict[str, Exception | str], fails: RPCError | None = None) -> None:
        self._answers, self._fails = answers, fails
        self.ended = list[str]()

    async def list_workflows(self, query: str, limit: int) -> AsyncIterator[SimpleNamespace]:
        for id in self._answers:
            yield SimpleNamespace(id=id, run_id="r", task_queue="own" if id == "own" else "other")
        if self._fails is not None:
            raise self._fails

    def get_workflow_handle(self, id: str, run_id: str) -> SimpleNamespace:
        async def query(name: str, rpc_timeout: timedelta) -> str:
            answer = self._answers[id]
            if isinstance(answer, Exception):
                raise answer
            return answer

        async def terminate(reason: str) -> None:
            self.ended.append(id)

        return SimpleNamespace(query=query, terminate=terminate)

    async def end_abandoned(self, warn: Callable[[str], None]) -> None:
        own = cast("HoldfastClient", SimpleNamespace(temporal=self, task_queue="own"))
        await Backtests(own, own, {}, timedelta(hours=1)).end_abandoned(warn)


@pytest.mark.parametrize(
    ("answer", "ended"),
    [
        ("running", []),
        (LOST, ["b"]),
        (FULL, []),
        (WorkflowQueryFailedError("the query raised"), []),
        (DecryptError("a payload is encrypted", "name its key"), []),
    ],
)
async def test_a_backtest_is_ended_only_if_no_worker_answers(answer: Any, ended: list[str]) -> None:
    server, warnings = BacktestServer({"own": LOST, "b": answer}), list[str]()
    await server.end_abandoned(warnings.append)
    assert (server.ended, warnings) == (ended, [])


async def test_a_listing_that_fails_is_a_warning() -> None:
    server, warnings = BacktestServer({"b": LOST}, fails=FULL), list[str]()
    await server.end_abandoned(warnings.append)
    assert server.ended == ["b"]
    assert warnings == [
        "backtests of killed commands are not ended: Temporal has too much to do: namespace rate"
        " limit exceeded; try again in a moment"
    ]
