"""A client of agents: it starts runs, finds them, follows their pending calls, and deletes them.

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
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, Final, Unpack, overload

from pydantic import JsonValue
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import (
    Client,
    WithStartWorkflowOperation,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from holdfast.client import errors, run_lists
from holdfast.client.run import OutputT, PendingCall, Run
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
from holdfast.runtime.absences import AbsenceReader
from holdfast.runtime.storage.run_files import delete_files, move_files_of_request
from holdfast.runtime.text_safety import as_json, clean, holdfast_command, shell_command
from holdfast.schemas import names
from holdfast.schemas.internal.absences import Absence
from holdfast.schemas.run import RunRequest

# A worker answers some hundred queries a second, one after the other: more would wait there.
_CONCURRENT_QUERIES: Final = 32
_IDS_OF_A_QUERY: Final = 50
_UPDATE_TIMEOUT: Final = timedelta(seconds=5)


class StartFields(RequestFields, total=False):
    """The fields of a request, the id of its run, and the time after which Temporal ends it."""

    id: str | None
    timeout: timedelta | None


class HoldfastClient:
    """Starts and finds runs by a client of Temporal; `task_queue` is that of their workers.

    Large files of messages are in their store, which `HOLDFAST_STORE` names.
    """

    def __init__(self, client: Client, task_queue: str = names.TASK_QUEUE) -> None:
        self.temporal, self.task_queue = client, task_queue
        self.live = LiveAnswers(client.data_converter)
        self.absences = AbsenceReader(client)
        # Whether the namespace has the search attributes of a start, and that of forks, as far as
        # is known.
        self._has_attributes = self.lists_forks = True
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
        checked = errors.read_input(RunRequest, request, "run", "see the fields of `RunRequest`")
        if lack := checked.lack_of_input():
            raise errors.wrong_command(lack, "write the task as `input`")
        new = StartRequest.of(checked, request, started_by="a program")
        run = await self.start_request(new, run_id, timeout, reuse=True)
        return self.run(run.id, agent.output_type if isinstance(agent, Agent) else output)

    async def fork(
        self,
        run: str,
        input: RunInput = None,
        *,
        turn: int | None = None,
        agent: Agent[Any] | str | Mapping[str, JsonValue] | None = None,
        output: type[Any] | None = None,
        **fields: Unpack[StartFields],
    ) -> Run[Any]:
        """Start a run with the log and the state that a run had after a turn; else as `start`.

        Without a turn, it is the last one that has ended; without an agent, that of the run. The
        `input` is a new message.
        """
        known = {} if input is None else {"input": input}
        named = {} if agent is None else {"agent": agent}
        request = await fork_request(self, run, {**known, **named, **fields}, turn)
        fields["fork"] = request["fork"]
        return await self.start(request["agent"], input, output=output, **fields)

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
        unique = f"{prefix}-{uuid.uuid4().hex[:8]}"
        run_id = id or run_of_token(new.payload.get("principal")) or unique
        converter = self.temporal.data_converter

        async def check_free() -> None:
            with suppress(errors.NoSuchRunError), errors.explain_rpc_errors(run_id):
                await self.temporal.get_workflow_handle(run_id).describe()
                raise WorkflowAlreadyStartedError(run_id, new.workflow)

        start = partial(
            client_in_trace(self.temporal, new.caller).start_workflow,
            new.workflow,
            id=run_id,
            task_queue=self.task_queue,
            execution_timeout=timeout,
            memo=new.memo or None,
            static_summary=new.summary,
            static_details=new.details,
            id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
        )
        try:
            with errors.explain_files():
                payload = await move_files_of_request(converter, run_id, new.payload, check_free)
            with errors.explain_rpc_errors(run_id):
                await self.send_start(partial(start, arg=payload), new)
        except WorkflowAlreadyStartedError as error:
            started_by, sent = "", new.memo.get(REQUEST_MEMO)
            if sent is not None and not reuse:
                found = await self.run(run_id).describe()
                started_by = await found.memo_value(REQUEST_MEMO, default=None)
            if not reuse and started_by != sent:
                raise RunExistsError(run_id) from error
        return self.run(run_id)

    async def send_start(self, start: Callable[..., Awaitable[object]], new: StartRequest) -> None:
        """Send a start with its search attributes, and without if the namespace lacks them.

        `start` receives them as `search_attributes`, or not.
        """
        try:
            sent = new.search_attributes if self._has_attributes else None
            await start(search_attributes=sent)
        except RPCError as error:
            if error.status != RPCStatusCode.INVALID_ARGUMENT or not self._has_attributes:
                raise
            await start()
            self._has_attributes = False

    async def set_absence(self, absence: Absence) -> None:
        """Set the absence of a person who was authenticated, or end it.

        Raises:
            HoldfastError: it is rejected, or no worker of the task queue answers.
        """
        start: WithStartWorkflowOperation[Any, Any] = WithStartWorkflowOperation(
            names.ABSENCES_WORKFLOW,
            id=names.ABSENCES_ID,
            task_queue=self.task_queue,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            static_summary="The approvers who are away",
        )
        try:
            await self.temporal.execute_update_with_start_workflow(
                names.SET_ABSENCE,
                absence.to_json(),
                start_workflow_operation=start,
                rpc_timeout=_UPDATE_TIMEOUT,
            )
        except WorkflowUpdateRPCTimeoutOrCancelledError as error:
            raise errors.NoWorkerError(self.task_queue) from error
        except WorkflowUpdateFailedError as error:
            wrong = f"the absence is rejected: {getattr(error.cause, 'message', error.cause)}"
            raise errors.wrong_command(wrong, "nothing was changed") from error
        except RPCError as error:
            raise errors.rpc_problem(error) from error
        finally:
            self.absences.expire()

    def run(self, id: str, output: type[OutputT] | None = None) -> Run[OutputT]:
        """Return the run with this id, whose result is an `output`; sends no request."""
        return Run(self.temporal, id, output, self._watches, self.fork)

    async def approvals(
        self, where: run_lists.RunFilter = run_lists.EVERY_RUN
    ) -> AsyncIterator[PendingCall]:
        """Yield the calls that are pending now, of all runs or of those of a filter.

        Temporal's list of these runs is read once, and each of them is queried once.

        Raises:
            UnansweredRunsError: some runs did not answer; the calls of all others were yielded.
        """
        try:
            runs = await self.list_runs(replace(where, status="awaiting_approval"), None)
        except run_lists.MissingAttributesError:
            runs = await self.list_runs(run_lists.OPEN, None)  # the status of runs is not indexed
        failures: list[errors.HoldfastError] = []
        for start in range(0, len(runs), _CONCURRENT_QUERIES):
            some = runs[start : start + _CONCURRENT_QUERIES]
            queries = (self.run(each.id).approvals() for each in some)
            for found in await asyncio.gather(*queries, return_exceptions=True):
                match found:
                    case errors.NoSuchRunError():
                        pass  # it was deleted since it was listed
                    case errors.HoldfastError():
                        failures.append(found)
                    case BaseException():
                        raise found
                    case _:
                        for call in found:
                            yield call
        if failures:
            raise errors.UnansweredRunsError(failures)

    async def list_runs(
        self,
        where: run_lists.RunFilter | str = run_lists.EVERY_RUN,
        limit: int | None = run_lists.MAX_RUNS,
    ) -> list[run_lists.RunListing]:
        """Return the runs of a filter or of a query, in the server's own order; None: all of them.

        Raises:
            MissingAttributesError: the namespace does not have a search attribute of the query.
        """
        found = self.temporal.list_workflows(str(where), limit=limit, rpc_timeout=run_lists.ANSWER)
        with run_lists.explain_list_errors():
            return [run_lists.RunListing.of(run) async for run in found]

    async def list_page(
        self, where: run_lists.RunFilter | str, size: int, after: bytes | None = None
    ) -> tuple[list[run_lists.RunListing], bytes | None]:
        """Return one page of a list, by one request, and the token of the page after it.

        Open runs come first, the latest started first; then the others, the latest ended first.
        Raises as `list_runs` does.
        """
        found = self.temporal.list_workflows(
            str(where), page_size=size, next_page_token=after, rpc_timeout=run_lists.ANSWER
        )
        with run_lists.explain_list_errors():
            await found.fetch_next_page()
        return [*map(run_lists.RunListing.of, found.current_page or ())], found.next_page_token

    async def count_runs(self, where: run_lists.RunFilter | str = run_lists.EVERY_RUN) -> int:
        """Return the number of runs of a filter or of a query; raises as `list_runs` does."""
        with run_lists.explain_list_errors():
            return (
                await self.temporal.count_workflows(str(where), rpc_timeout=run_lists.ANSWER)
            ).count


async def fork_request(
    client: HoldfastClient, run_id: str, fields: Mapping[str, Any], turn: int | None = None
) -> dict[str, Any]:
    """Return the fields of a request that begins with a run, by default with the run's agent.

    Raises:
        HoldfastError: the run does not exist, is no run of an agent or of none that has a name, or
            ended with an answer, to which the fields add nothing.
    """
    listing = run_lists.RunListing.of(await client.run(run_id).describe())
    if listing.single:
        todo = f"see {holdfast_command('show', run_id)}"
        raise errors.wrong_command(f"{run_id} is a single call, which cannot be continued", todo)
    is_answered = turn is None and listing.status == "completed"
    if is_answered and fields.keys().isdisjoint(("input", "context")):
        todo = "write a new message as its input, or name an earlier turn"
        raise errors.wrong_command(f"run {run_id} ended with an answer", todo)
    if "agent" not in fields and listing.agent in (None, names.UNNAMED_AGENT):
        wrong = f"run {run_id} has no agent of a catalog"
        raise errors.wrong_command(wrong, "name the agent that continues it")
    fork = {"run": run_id} if turn is None else {"run": run_id, "turn": turn}
    return {"agent": listing.agent, **fields, "fork": fork}


async def forget_principal(
    client: HoldfastClient, principal: str, *, runs: bool
) -> tuple[int, int, int]:
    """Delete the memories of a principal, and its finished runs with their files if `runs`.

    Temporal's lists find runs by the search attribute of their principal, and memories by their
    ids: no worker is needed, and no key, since neither reads content. A memory's id ends with its
    principal, and Temporal searches for beginnings alone: every memory of the namespace is listed.
    The lists can lag behind by a moment.

    Returns:
        The number of its memories, of its finished runs, and of their files deleted in the store.

    Raises:
        HoldfastError: an open run could write to a memory again, or Temporal does not answer, or
            cannot search for this principal, or it is unknown where files are, or whose.
    """
    who = clean(principal)
    if _is_unclear(principal) or len(principal) > run_lists.MAX_FILTER_CHARS:
        files_of_run = "STORE/runs/$(printf %s RUN | sha256sum | cut -c1-64)"
        todo = "delete its runs and memories with `temporal workflow delete`"
        todo += f", and the files of each run: rm -r {files_of_run}"
        raise errors.wrong_command(f"Temporal cannot search for the principal {who!r}", todo)
    of_principal = run_lists.RUN_TYPES + run_lists.RunFilter(principal=principal).terms()
    # Before the memories: a run that ends meanwhile has written to its own before they are listed.
    running = await client.list_runs(f'{of_principal} AND ExecutionStatus = "Running"', None)
    if running:
        first, more = running[0].id, len(running) - 1
        wrong = f"open runs of {who} could write to a memory again: {clean(first)}"
        todo = f"end them first, as with {holdfast_command('cancel', first)}"
        raise errors.HoldfastError(
            f"{wrong} and {more} more" if more else wrong, todo, errors.RUN_FAILED
        )
    listed = await client.list_runs(f'WorkflowType = "{names.MEMORY_WORKFLOW}"', None)
    memories = [each for each in listed if names.is_memory_of(each.id, principal)]
    ended = await client.list_runs(f'{of_principal} AND ExecutionStatus != "Running"', None)
    ids, files = {each.id for each in ended}, 0
    if runs and ids:
        # Before the runs, without which nothing names their files.
        with errors.explain_files():
            check = partial(_check_ids, client, ended)
            files = await delete_files(client.temporal.data_converter, ids, check)
    for each in [*memories, *ended] if runs else memories:
        # With its history; an open memory is terminated first.
        execution = WorkflowExecution(workflow_id=each.id, run_id=each.execution)
        request = DeleteWorkflowExecutionRequest(
            namespace=client.temporal.namespace, workflow_execution=execution
        )
        try:
            await client.temporal.workflow_service.delete_workflow_execution(request, retry=True)
        except RPCError as error:
            if error.status != RPCStatusCode.NOT_FOUND:  # a list may still have it
                raise
    # One that continued as new is several executions.
    return len({each.id for each in memories}), len(ids), files


async def _check_ids(client: HoldfastClient, ended: Sequence[run_lists.RunListing]) -> None:
    """Raise `HoldfastError` if a run besides these may have files under one of their ids.

    Other clients can use an id again.
    """
    own = {each.execution: each.id for each in ended}
    ids = sorted({*own.values()})
    for n in range(0, len(ids), _IDS_OF_A_QUERY):
        some = ids[n : n + _IDS_OF_A_QUERY]
        listed = await client.list_runs(f"WorkflowId IN ({', '.join(map(as_json, some))})", None)
        others = [each.id for each in listed if each.execution not in own]
        for id in (*others, *filter(_is_unclear, some)):
            execution = next(each for each in own if own[each] == id)
            wrong = f"another principal may have a run with the id {clean(id)}, and files in it"
            delete = ("temporal", "workflow", "delete", "--workflow-id", id, "--run-id", execution)
            todo = f"delete this one alone: {shell_command(*delete)}"
            raise errors.HoldfastError(wrong, todo, errors.RUN_FAILED)


def _is_unclear(text: str) -> bool:
    r"""Return whether Temporal's stores in SQL cannot search for a text, as with `"` and `\`."""
    return clean(text) != text.strip("'") or not {*text}.isdisjoint('"\\')
