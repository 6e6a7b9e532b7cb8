"""How long a run is asked, and what is told where it does not answer (§11)."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Self, cast

import pytest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from holdfast.client.command_errors import RUN_FAILED, UNREACHABLE, CommandError
from holdfast.client.run_handle import NO_WORKER_SECONDS, RunHandle


@dataclass
class Answering:
    """A Temporal that fails so, one query after the other, and then answers."""

    fails: list[RPCStatusCode]
    given: list[timedelta] = field(default_factory=list)
    said: Any = field(default_factory=lambda: {"status": "running"})

    def get_workflow_handle(self, run_id: str) -> Self:
        return self

    async def query(self, name: str, *, rpc_timeout: timedelta, **_: Any) -> Any:
        self.given.append(rpc_timeout)
        if self.fails:
            raise RPCError("no", self.fails.pop(0), b"")
        return self.said


def run(temporal: Answering) -> RunHandle:
    """A run that it has."""
    return RunHandle(cast(Client, temporal), "run-1")


async def test_a_query_that_got_lost_is_asked_again_within_its_time() -> None:
    temporal = Answering([RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED])
    assert await run(temporal).status() == {"status": "running"}
    assert len(temporal.given) == 3
    assert sum(temporal.given, timedelta()) == timedelta(seconds=NO_WORKER_SECONDS)


async def test_a_server_that_is_asked_too_much_is_no_reason_to_give_the_run_up() -> None:
    with pytest.raises(CommandError, match="has too much to do: no; try again") as refused:
        await run(Answering([RPCStatusCode.RESOURCE_EXHAUSTED])).status()
    assert refused.value.code == UNREACHABLE


async def test_what_waits_in_a_run_of_another_version_is_told_as_such() -> None:
    with pytest.raises(CommandError, match="run run-1 are of another version") as refused:
        await run(Answering([], said=[{"kind": "of tomorrow"}])).pending_approvals()
    assert refused.value.code == RUN_FAILED
