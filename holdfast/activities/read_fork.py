"""The activity `read_fork`: a recorded run, from which a fork begins.

It reads the log by a query, and changes nothing. The run may be open, closed, or continued as new,
and of another task queue; a worker has to answer for it.
"""

import asyncio
from base64 import b64decode
from collections.abc import Callable
from contextlib import suppress
from itertools import accumulate
from typing import Any, NoReturn

from temporalio import activity
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.client import (
    Client,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
)
from temporalio.common import SearchAttributeKey
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError, RPCStatusCode

from holdfast.activities.model.conversation_reader import RunNotOpen, RunUnresponsive
from holdfast.activities.model.run_queries import RunQueries
from holdfast.runtime.storage.run_files import file_key
from holdfast.runtime.storage.store import LostValueError, store_of
from holdfast.schemas import names
from holdfast.schemas.phrases import quote_value
from holdfast.schemas.run import Fork, Principal, RunRequest
from holdfast.workflows.engine.conversation.recorded_prefix import (
    CannotFork,
    PrefixPart,
    RecordedPrefix,
    recorded_prefix,
)
from holdfast.workflows.engine.log.log import CompressedPage, LogPiece, LogSnapshot

MAX_ENTRIES = 100_000
# Of forks of forks, to the run that has the input.
MAX_FORKS = 100
_PRINCIPAL = SearchAttributeKey.for_keyword(names.AGENT_PRINCIPAL)
_OPEN = (WorkflowExecutionStatus.RUNNING, WorkflowExecutionStatus.CONTINUED_AS_NEW)
_NONE = "there is no such run, or Temporal has deleted its history"


class ReadForkActivity:
    """Reads runs of one namespace; `own_queue_only`: those of the worker's own task queue.

    `lists_forks` reports whether the namespace has the search attribute of forks.
    """

    def __init__(
        self,
        client: Client,
        queries: RunQueries,
        lists_forks: Callable[[], bool],
        *,
        own_queue_only: bool,
    ) -> None:
        self._client, self._queries, self._lists_forks = client, queries, lists_forks
        self._own_queue_only = own_queue_only

    @activity.defn(name=names.READ_FORK)
    async def read_fork(
        self, fork: dict[str, Any], reader: Any = None, part: int = 0
    ) -> dict[str, Any]:
        """Return the `RecordedPrefix` of a `Fork` for its reader, a verified principal if any.

        Of a large one, return a `PrefixPart`. The fork gets copies of the files in the store.

        Raises:
            ApplicationError: of type `invalid_request`, not retryable: there is no such run or
                turn, it may not be read, or its log is not whole. Otherwise retryable.
        """
        source = Fork.read(fork)
        id, handle = source.run, self._client.get_workflow_handle(source.run)
        try:
            found = await handle.describe()
            self._check(found, reader and Principal.read(reader))
            input = await self._input(id)
            pages = await self._pages(id)
        except (RunNotOpen, RPCError) as error:
            if isinstance(error, RPCError) and error.status != RPCStatusCode.NOT_FOUND:
                raise
            _refuse(id, _NONE)
        except RunUnresponsive as error:
            message = f"run {quote_value(id)}: no worker has answered for its log: {error}"
            raise ApplicationError(message, type=names.INVALID_REQUEST) from None
        is_over, is_listed = found.status not in _OPEN, self._lists_forks()

        def made() -> tuple[RecordedPrefix | PrefixPart, set[str]]:
            records = [one for page in pages for one in page.records()]
            prefix = recorded_prefix(records, input, source.turn, is_over=is_over)
            prefix = prefix.model_copy(update={"is_listed": is_listed})
            turn = source.turn if is_over else prefix.turns
            messages = [one for one in records[: prefix.entries] if one["type"] == "message"]
            contents = (one["message"].get("content") for one in messages)
            parts = [part for each in contents if isinstance(each, list) for part in each]
            files = {part["stored"]["sha256"] for part in parts if "stored" in part}
            return PrefixPart.cut(prefix, part, turn) or prefix, files

        try:
            # A long log takes a while, which must not hold up the loop.
            prefix, files = await asyncio.to_thread(made)
        except CannotFork as error:
            _refuse(id, str(error))
        # A backtest reads the files of the recorded run.
        info, store = activity.info(), store_of(self._client.data_converter)
        if part == 0 and store is not None and info.workflow_type == names.AGENT_WORKFLOW:
            for digest in files:
                with suppress(LostValueError):  # the request that needs it names it
                    written = await store.read(file_key(id, digest))
                    await store.write(file_key(info.workflow_id or "", digest), written)
        return prefix.to_json()

    def _check(self, found: WorkflowExecutionDescription, reader: Principal | None) -> None:
        """Refuse a workflow that is no run, or that the reader may not read."""
        id = found.id
        if found.workflow_type != names.AGENT_WORKFLOW:
            _refuse(id, f"it is a {found.workflow_type}, and no run of an agent")
        if self._own_queue_only and found.task_queue != activity.info().task_queue:
            _refuse(id, "it is of another task queue, whose permits this worker cannot verify")
        if reader is None or names.READ_RUNS in reader.scopes:
            return
        if found.typed_search_attributes.get(_PRINCIPAL) != reader.id:
            todo = f"the scope `{names.READ_RUNS}` allows to read it"
            _refuse(id, f"it acts for another principal; {todo}")

    async def _input(self, id: str) -> str | None:
        """Return the input of a run if it is a text, from its start; of a fork, from its source's.

        It is unknown once Temporal has deleted the first execution of a long run.
        """
        with suppress(RPCError, StopAsyncIteration):
            for _ in range(MAX_FORKS):
                found = await self._client.get_workflow_handle(id).describe()
                first = found.raw_description.workflow_execution_info.first_run_id
                handle = self._client.get_workflow_handle(id, run_id=first)
                event = await anext(handle.fetch_history_events(page_size=1))
                start = event.workflow_execution_started_event_attributes
                [request] = await self._client.data_converter.decode(start.input.payloads[:1])
                if "fork" not in request:
                    given = RunRequest(agent="fork", input=request.get("input")).input_value
                    return given if isinstance(given, str) else None
                id = Fork.read(request["fork"]).run
        return None

    async def _pages(self, id: str) -> list[CompressedPage]:
        """Return the log; its pieces are read again if it changes meanwhile."""
        execution, data = WorkflowExecution(workflow_id=id), b""
        head: tuple[LogSnapshot, list[int]] | None = None
        while head is None or len(data) < sum(head[1]):
            found = await self._queries.query(execution, names.PAGES, len(data), may_be_closed=True)
            piece = LogPiece.read(found)
            is_same = head == (piece.log, piece.sizes)
            head = piece.log, piece.sizes
            data = data + b64decode(piece.data) if is_same or not data else b""
        pages, sizes = head[0].pages, head[1]
        if pages and pages[-1].last > MAX_ENTRIES:
            _refuse(id, f"its log has more than {MAX_ENTRIES} entries")
        ends = list(accumulate(sizes, initial=0))
        return [
            page.model_copy(update={"data": data[start:end]})
            for page, start, end in zip(pages, ends, ends[1:], strict=False)
        ]


def _refuse(id: str, why: str) -> NoReturn:
    raise ApplicationError(
        f"run {quote_value(id)}: {why}",
        type=names.INVALID_REQUEST,
        non_retryable=True,
        category=ApplicationErrorCategory.BENIGN,
    ) from None
