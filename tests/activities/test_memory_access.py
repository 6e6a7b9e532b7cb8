"""The activities of memory: whose it is, under which id it is written, and what goes wrong."""

import asyncio
from dataclasses import replace
from typing import Any, cast

import pytest
from temporalio.client import (
    Client,
    RPCTimeoutOrCancelledError,
    WithStartWorkflowOperation,
    WorkflowUpdateFailedError,
)
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import ActivityEnvironment

from holdfast.activities.memory_access import MemoryActivities
from holdfast.activities.model.conversation_reader import RunNotOpen, RunUnresponsive
from holdfast.activities.model.run_queries import RunQueries
from holdfast.schemas.internal.memory import EMPTY, MemoryOwner

OWNER = MemoryOwner(agent="desk", principal="ann").to_json()
WRITE = {"key": "drink", "value": "tea"}


class MemoryServer:
    """A client and its queries, with prepared answers; it keeps what it was asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[Any] = []
        self.at_once = self.most_at_once = 0

    async def query(self, *asked: Any) -> Any:
        return await self._answer(asked)

    async def execute_update_with_start_workflow(
        self,
        update: str,
        argument: Any,
        *,
        start_workflow_operation: WithStartWorkflowOperation[Any, Any],
        id: str,
    ) -> Any:
        start = start_workflow_operation._start_workflow_input
        return await self._answer((update, argument, start, id))

    async def _answer(self, asked: Any) -> Any:
        self.asked.append(asked)
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        answer = self.answers[min(len(self.asked), len(self.answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def memories(self) -> MemoryActivities:
        return MemoryActivities(cast(Client, self), cast(RunQueries, self))

    async def use(self, name: str, arguments: Any) -> Any:
        environment = ActivityEnvironment()
        environment.info = replace(
            environment.info, task_queue="q", workflow_run_id="run-1", activity_id="t2c1"
        )
        return await environment.run(getattr(self.memories(), name), arguments, OWNER)


async def test_a_write_is_known_by_its_call_and_starts_the_memory_where_there_is_none() -> None:
    server = MemoryServer({"kept": True})
    assert await server.use("memory_write", WRITE) == {"kept": True}
    [(update, write, start, update_id)] = server.asked
    assert (update, write, update_id) == ("write", WRITE, "run-1/t2c1")
    assert (start.workflow, start.id) == ("MemoryWorkflow", "memory.desk.ann")
    assert start.task_queue == "q"  # the run's own
    assert start.id_conflict_policy is WorkflowIDConflictPolicy.USE_EXISTING
    assert start.args[0]["owner"] == OWNER


@pytest.mark.parametrize(
    ("name", "arguments", "query"),
    [
        ("memory_read", {"key": "drink"}, "read"),
        ("memory_search", {"query": "tea", "limit": 2}, "search"),
    ],
)
async def test_reading_asks_the_owners_memory(name: str, arguments: Any, query: str) -> None:
    server = MemoryServer({"entries": 1})
    assert await server.use(name, arguments) == {"entries": 1}
    [(asked, asked_for, argument)] = server.asked
    assert (asked.workflow_id, asked.run_id) == ("memory.desk.ann", "")
    assert (asked_for, argument) == (query, arguments)


async def test_a_memory_that_is_not_there_is_empty() -> None:
    assert await MemoryServer(RunNotOpen("not there")).use("memory_read", {}) == EMPTY


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("memory_write", {"key": "drink"}),
        ("memory_write", {"key": "", "value": "tea"}),
        ("memory_write", {"key": "drink", "value": {"hot": True}}),
        ("memory_write", {"key": "drink", "value": "x" * 16_001}),
        ("memory_write", {**WRITE, "owner": "another person"}),
        ("memory_write", {"key": "drink", "value": None, "append": True}),
        ("memory_read", {"key": "x" * 201}),
        ("memory_search", {}),
        ("memory_search", {"query": "tea", "limit": 21}),
    ],
)
async def test_an_input_that_does_not_fit_fails_without_a_query(name: str, arguments: Any) -> None:
    server = MemoryServer({})
    with pytest.raises(ApplicationError) as refused:
        await server.use(name, arguments)
    assert (refused.value.type, refused.value.non_retryable) == ("invalid_arguments", True)
    assert not server.asked


def update_failed(kind: str) -> WorkflowUpdateFailedError:
    return WorkflowUpdateFailedError(ApplicationError("the memory is full", type=kind))


@pytest.mark.parametrize(
    ("name", "error", "told", "final"),
    [
        ("memory_write", update_failed("memory_full"), "the memory is full", True),
        ("memory_write", update_failed("memory_conflict"), "the memory is full", True),
        ("memory_write", update_failed("invalid_request"), "the memory is full", True),
        ("memory_write", update_failed("NotFoundError"), "cannot be written to", False),
        ("memory_write", RPCTimeoutOrCancelledError("late"), "did not answer", False),
        ("memory_write", RPCError("no", RPCStatusCode.UNAVAILABLE, b""), "did not answer", False),
        ("memory_read", RunUnresponsive("no"), "did not answer", False),
        ("memory_search", RunUnresponsive("no"), "did not answer", False),
    ],
)
async def test_a_passing_failure_is_retried_and_a_lasting_one_reported(
    name: str, error: Exception, told: str, final: bool
) -> None:
    arguments = {"memory_write": WRITE, "memory_search": {"query": "x"}}.get(name, {})
    with pytest.raises(ApplicationError, match=told) as refused:
        await MemoryServer(error).use(name, arguments)
    assert refused.value.non_retryable is final


async def test_a_worker_writes_to_a_memory_one_after_the_other_and_to_two_at_once() -> None:
    server = MemoryServer({})
    memories, environment = server.memories(), ActivityEnvironment()
    for agents, at_once in ((["desk"] * 5, 1), (["desk", "shop"], 2)):
        server.most_at_once = 0
        owners = [MemoryOwner(agent=agent).to_json() for agent in agents]
        writes = [environment.run(memories.memory_write, WRITE, owner) for owner in owners]
        await asyncio.gather(*writes)
        assert server.most_at_once == at_once
