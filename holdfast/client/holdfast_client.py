"""A client of agents: it starts runs, finds them, and follows their pending calls.

    agents = HoldfastClient(client, task_queue="support")
    run = await agents.start(support, "Order 7 arrived broken", id="order-7")
    async for call in agents.approvals():
        await call.approve(by="ada")
    answer = await run.result()

Everything raises `HoldfastError` where Temporal or a worker does not answer. The client of Temporal
needs the codec of the workers, if they encrypt payloads: that of the plugin, or of `connect`.
"""

import asyncio
import re
import uuid
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final, Unpack, overload

from pydantic import JsonValue, ValidationError
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError

from holdfast.client.errors import (
    HoldfastError,
    NoSuchRunError,
    UnansweredRunsError,
    explain_rpc_errors,
    invalid_input,
    wrong_command,
)
from holdfast.client.pending_call import PendingCall
from holdfast.client.run import OutputT, Run
from holdfast.client.run_lists import (
    ANSWER,
    EVERY_RUN,
    MAX_RUNS,
    OPEN,
    MissingAttributesError,
    RunFilter,
    RunListing,
    explain_list_errors,
)
from holdfast.client.start import (
    REQUEST_MEMO,
    RunExistsError,
    StartRequest,
    client_in_trace,
    run_of_token,
)
from holdfast.client.stream.live_answers import LiveAnswers
from holdfast.client.stream.run_watch import RunWatches
from holdfast.definitions.agent import Agent
from holdfast.definitions.run_request import RequestFields, RunInput, run_request
from holdfast.schemas import names
from holdfast.schemas.run import RunRequest

# A worker answers some hundred queries a second, one after the other: more would wait there.
_CONCURRENT_QUERIES: Final = 32


class StartFields(RequestFields, total=False):
    """The fields of a request, the id of its run, and the time after which Temporal ends it."""

    id: str | None
    timeout: timedelta | None


class HoldfastClient:
    """Starts and finds runs by a client of Temporal; `task_queue` is that of their workers."""

    def __init__(self, client: Client, task_queue: str = names.TASK_QUEUE) -> None:
        self.temporal, self.task_queue = client, task_queue
        self.live = LiveAnswers(client.data_converter)
        self._watches = RunWatches(self.live)

    @overload
    async def start(
        self, agent: Agent[OutputT], input: RunInput = None, **fields: Unpack[StartFields]
    ) -> Run[OutputT]: ...

    @overload
    async def start(
        self,
        agent: str | Mapping[str, JsonValue],
        input: RunInput = None,
        *,
        output: type[OutputT] | None = None,
        **fields: Unpack[StartFields],
    ) -> Run[OutputT]: ...

    async def start(
        self,
        agent: Agent[Any] | str | Mapping[str, JsonValue],
        input: RunInput = None,
        *,
        output: type[Any] | None = None,
        **fields: Unpack[StartFields],
    ) -> Run[Any]:
        """Start a run, or return the run with this id if there is one, open or ended.

        The agent is one of the workers, as an `Agent` or by its name, or a definition as JSON.
        `output` is the type of its output, where no `Agent` states it.
        """
        run_id, timeout = fields.pop("id", None), fields.pop("timeout", None)
        request = run_request(agent, input, fields)
        try:
            checked = RunRequest.model_validate(request)
        except ValidationError as error:
            todo = "see the fields of `RunRequest`"
            raise invalid_input("run", error, request, RunRequest, todo) from error
        if lack := checked.lack_of_input():
            raise wrong_command(lack, "write the task as `input`")
        new = StartRequest.of(checked, request, started_by="a program")
        run = await self.start_request(new, run_id, timeout, reuse=True)
        return self.run(run.id, agent.output_type if isinstance(agent, Agent) else output)

    async def start_request(
        self,
        new: StartRequest,
        id: str | None = None,
        timeout: timedelta | None = None,
        *,
        reuse: bool = False,
    ) -> Run:
        """Start a run or a single call; with `reuse`, return the one with this id if there is one.

        So does a repeated request, by its `REQUEST_MEMO`.

        Raises:
            RunExistsError: another run with this id exists.
            HoldfastError: Temporal rejects the start, or does not answer.
        """
        prefix = re.sub(r"[^A-Za-z0-9_.-]+", "-", new.name)[:100]
        run_id = id or run_of_token(new.payload.get("principal"))
        run_id = run_id or f"{prefix}-{uuid.uuid4().hex[:8]}"
        try:
            with explain_rpc_errors(run_id):
                await client_in_trace(self.temporal, new.caller).start_workflow(
                    new.workflow,
                    new.payload,
                    id=run_id,
                    task_queue=self.task_queue,
                    execution_timeout=timeout,
                    memo=new.memo or None,
                    static_summary=new.summary,
                    static_details=new.details,
                    id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
                    id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                )
        except WorkflowAlreadyStartedError as error:
            started_by, sent = None, new.memo.get(REQUEST_MEMO)
            if sent is not None and not reuse:
                found = await self.run(run_id).describe()
                started_by = await found.memo_value(REQUEST_MEMO, default=None)
            if not reuse and (sent is None or started_by != sent):
                raise RunExistsError(run_id) from error
        return self.run(run_id)

    def run(self, id: str, output: type[OutputT] | None = None) -> Run[OutputT]:
        """Return the run with this id, whose result is an `output`; sends no request."""
        return Run(self.temporal, id, output, self._watches)

    async def approvals(self, where: RunFilter = EVERY_RUN) -> AsyncIterator[PendingCall]:
        """Yield the calls that are pending now, of all runs or of those of a filter.

        Temporal's list of these runs is read once, and each of them is queried once.

        Raises:
            UnansweredRunsError: some runs did not answer; the calls of all others were yielded.
        """
        try:
            runs = await self.list_runs(replace(where, status="awaiting_approval"), None)
        except MissingAttributesError:
            runs = await self.list_runs(OPEN, None)  # the status of runs is not indexed
        errors: list[HoldfastError] = []
        for start in range(0, len(runs), _CONCURRENT_QUERIES):
            some = runs[start : start + _CONCURRENT_QUERIES]
            queries = (self.run(each.id).approvals() for each in some)
            for found in await asyncio.gather(*queries, return_exceptions=True):
                match found:
                    case NoSuchRunError():
                        pass  # it was deleted since it was listed
                    case HoldfastError():
                        errors.append(found)
                    case BaseException():
                        raise found
                    case _:
                        for call in found:
                            yield call
        if errors:
            raise UnansweredRunsError(errors)

    async def list_runs(
        self, where: RunFilter | str = EVERY_RUN, limit: int | None = MAX_RUNS
    ) -> list[RunListing]:
        """Return the runs of a filter or of a query, in the server's own order; None: all of them.

        Raises:
            MissingAttributesError: the namespace does not have a search attribute of the query.
        """
        found = self.temporal.list_workflows(str(where), limit=limit, rpc_timeout=ANSWER)
        with explain_list_errors():
            return [RunListing.of(run) async for run in found]

    async def list_page(
        self, where: RunFilter | str, size: int, after: bytes | None = None
    ) -> tuple[list[RunListing], bytes | None]:
        """Return one page of a list, by one request, and the token of the page after it.

        Open runs come first, the latest started first; then the others, the latest ended first.
        Raises as `list_runs` does.
        """
        found = self.temporal.list_workflows(
            str(where), page_size=size, next_page_token=after, rpc_timeout=ANSWER
        )
        with explain_list_errors():
            await found.fetch_next_page()
        return [*map(RunListing.of, found.current_page or ())], found.next_page_token

    async def count_runs(self, where: RunFilter | str = EVERY_RUN) -> int:
        """Return the number of runs of a filter or of a query; raises as `list_runs` does."""
        with explain_list_errors():
            return (await self.temporal.count_workflows(str(where), rpc_timeout=ANSWER)).count
