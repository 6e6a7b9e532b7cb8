"""The activities `memory_read`, `memory_search` and `memory_write`: an agent's own memory.

The owner of a memory is no argument of the call: the run sets it, and no model can change it. A
write is an update that starts the memory if there is none; its id is that of the call, so that a
retried attempt takes effect once.
"""

import asyncio
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from pydantic import ValidationError
from temporalio import activity
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.client import (
    Client,
    RPCTimeoutOrCancelledError,
    WithStartWorkflowOperation,
    WorkflowUpdateFailedError,
)
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError

from holdfast.activities.model.conversation_reader import RunNotOpen, RunUnresponsive
from holdfast.activities.model.run_queries import RunQueries
from holdfast.schemas import names
from holdfast.schemas.base import Strict
from holdfast.schemas.internal import memory
from holdfast.schemas.names import ErrorCode
from holdfast.validation.problems import problems_of, summarize_problems

ArgumentsT = TypeVar("ArgumentsT", bound=Strict)


class MemoryActivities:
    """The memories of agents, each a workflow.

    One worker makes one write at a time to each: the server accepts ten at once, and fails all of
    them at the next.
    """

    def __init__(self, client: Client, queries: RunQueries) -> None:
        self._client = client
        self._queries = queries
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @activity.defn(name=names.MEMORY_READ)
    async def memory_read(self, arguments: dict[str, Any], owner: dict[str, Any]) -> Any:
        """Return one entry of a memory, or its keys, for a `MemoryRead` and a `MemoryOwner`."""
        return await self._query(owner, names.READ, _read(arguments, memory.MemoryRead))

    @activity.defn(name=names.MEMORY_SEARCH)
    async def memory_search(self, arguments: dict[str, Any], owner: dict[str, Any]) -> Any:
        """Return the entries of a memory that match a `MemorySearch` best."""
        return await self._query(owner, names.SEARCH, _read(arguments, memory.MemorySearch))

    @activity.defn(name=names.MEMORY_WRITE)
    async def memory_write(self, arguments: dict[str, Any], owner: dict[str, Any]) -> Any:
        """Write a `MemoryWrite` to a memory, once for each call."""
        write, whose = _read(arguments, memory.MemoryWrite), memory.MemoryOwner.read(owner)
        info = activity.info()
        start: WithStartWorkflowOperation[Any, Any] = WithStartWorkflowOperation(
            names.MEMORY_WORKFLOW,
            memory.MemoryState(owner=whose, writes_a_run=memory.MAX_WRITES_A_RUN).to_json(),
            id=whose.workflow_id,
            task_queue=info.task_queue,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            static_summary=f"The memory of the agent {whose.agent}",
        )
        turn = self._turns.setdefault(whose.workflow_id, asyncio.Lock())
        try:
            async with turn:
                return await self._client.execute_update_with_start_workflow(
                    names.WRITE,
                    write.to_json(),
                    start_workflow_operation=start,
                    # A workflow id can be used again; a run id cannot.
                    id=f"{info.workflow_run_id}/{info.activity_id}",
                )
        except WorkflowUpdateFailedError as error:
            match error.cause:
                case ApplicationError(type=(names.MEMORY_FULL | names.MEMORY_CONFLICT) as kind):
                    raise _error(error.cause.message, kind, final=True) from None
                case ApplicationError(type=names.INVALID_REQUEST) as cause:
                    raise _error(cause.message, names.INVALID_ARGUMENTS, final=True) from None
            raise _error("the memory cannot be written to") from error
        except (RPCError, RPCTimeoutOrCancelledError) as error:
            raise _error("the memory did not answer") from error

    async def _query(self, owner: dict[str, Any], query: str, want: Strict) -> Any:
        execution = WorkflowExecution(workflow_id=memory.MemoryOwner.read(owner).workflow_id)
        try:
            return await self._queries.query(execution, query, want.to_json())
        except RunNotOpen:
            return dict(memory.EMPTY)  # nothing was ever written, or an operator ended it
        except RunUnresponsive as error:
            raise _error("the memory did not answer") from error


def _read(arguments: Any, model: type[ArgumentsT]) -> ArgumentsT:
    try:
        return model.model_validate(arguments)
    except ValidationError as error:
        message = summarize_problems(problems_of(error, arguments, model))
        raise _error(message, names.INVALID_ARGUMENTS, final=True) from None


def _error(
    message: str, kind: str = ErrorCode.TOOL_ERROR, *, final: bool = False
) -> ApplicationError:
    """Return an error for the model; its cause is for a reader of the history."""
    category = ApplicationErrorCategory
    return ApplicationError(
        message,
        type=kind,
        non_retryable=final,
        category=category.BENIGN if final else category.UNSPECIFIED,
    )
