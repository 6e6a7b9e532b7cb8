"""What is asked of Temporal's lists, and for how long (§11)."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, cast

import pytest
from temporalio.client import Client, WorkflowExecution, WorkflowExecutionCount
from temporalio.service import RPCError, RPCStatusCode

from holdfast.client.command_errors import CommandError
from holdfast.client.run_lists import (
    ANSWER,
    MissingAttributesError,
    RunFilter,
    count_runs,
    list_runs,
)
from holdfast.client.visibility import waiting_count_and_oldest
from holdfast.schemas import names


@dataclass
class Lists:
    """A server with seven runs, that lists none of them, and knows not all search attributes."""

    lacks: str = ""
    status: RPCStatusCode = RPCStatusCode.INVALID_ARGUMENT
    bounds: list[timedelta] = field(default_factory=list)

    async def count_workflows(
        self, query: str, rpc_timeout: timedelta = timedelta.max
    ) -> WorkflowExecutionCount:
        self._asked(query, rpc_timeout)
        return WorkflowExecutionCount(count=7, groups=[])

    async def list_workflows(
        self, query: str, limit: int, rpc_timeout: timedelta = timedelta.max
    ) -> AsyncIterator[WorkflowExecution]:
        self._asked(query, rpc_timeout)
        for none in list[WorkflowExecution]():
            yield none

    def _asked(self, query: str, rpc_timeout: timedelta) -> None:
        self.bounds.append(rpc_timeout)
        if self.lacks and self.lacks in query:
            raise RPCError(f"{self.lacks} is not there", self.status, b"")


def client(lists: Any) -> Client:
    """It, as what a client has behind it."""
    return cast(Client, lists)


async def test_a_server_that_is_away_is_not_asked_for_long() -> None:
    lists = Lists()
    await list_runs(client(lists), "a = 1")
    await count_runs(client(lists), "a = 1")
    assert lists.bounds == [ANSWER, ANSWER]


async def test_where_nobody_knows_since_when_it_is_known_how_many_wait() -> None:
    unsorted = client(Lists(lacks=names.PENDING_SINCE))
    assert await waiting_count_and_oldest(unsorted) == (7, None)
    with pytest.raises(MissingAttributesError, match="AgentStatus is not there"):
        await waiting_count_and_oldest(client(Lists(lacks=names.AGENT_STATUS)))
    away = Lists(lacks=names.PENDING_SINCE, status=RPCStatusCode.UNAVAILABLE)
    with pytest.raises(CommandError, match="Temporal does not answer"):
        await waiting_count_and_oldest(client(away))


def test_nothing_that_cannot_be_seen_is_searched_for() -> None:
    assert RunFilter(agent="a\x1b[2J\u202eb").terms() == f' AND {names.AGENT_NAME} = "ab"'
