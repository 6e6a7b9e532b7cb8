"""One run, as Temporal describes it and its worker answers for it.

`observe` queries the server alone and works without a worker. The queries and updates are answered
by a worker. If no worker answers within 10 s, they raise `NoWorkerError`, or `StuckRunError` if
there is a worker that cannot continue the run.
"""

import asyncio
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Hashable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from math import inf
from time import monotonic
from typing import Any, Final

from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.api.workflowservice.v1 import ResetStickyTaskQueueRequest
from temporalio.client import (
    Client,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowQueryFailedError,
    WorkflowQueryRejectedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
    WorkflowUpdateStage,
)
from temporalio.common import QueryRejectCondition
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from holdfast.client import errors, result
from holdfast.client.diagnosis import diagnose_silence
from holdfast.client.result import RunEnding
from holdfast.client.stream import heartbeats
from holdfast.client.stream.live_answers import LiveAnswers
from holdfast.client.stream.run_watch import Look, Read, ReadT, RunDescription, RunWatches
from holdfast.runtime.data_converter import ENCODED_FAILURE
from holdfast.runtime.text_safety import holdfast_command
from holdfast.schemas import names
from holdfast.schemas.internal.live_answer import LIVE_QUERIES
from holdfast.schemas.log_entry import LAST_ENTRIES
from holdfast.schemas.run import Fork

_PAGE_ENTRIES = 200
_MAX_FAILING: Final = 20
NO_WORKER_SECONDS = 10.0
# A query can get lost when a worker evicts a run: it is repeated before its time is over. The last
# try goes to any worker: one that was killed a moment ago still has the run, as Temporal sees it.
_QUERY_TRIES: Final = (0.2, 0.3, 0.5)
# If Temporal does not see a worker that exists, or a worker replays the run, the query is repeated
# at once.
_UNSEEN_TRIES: Final = 6
_UNSEEN_PAUSE_SECONDS: Final = 0.1
# For a worker that is connected to this process: longer than a workflow task takes.
_LIVE_SECONDS: Final = 0.5
_RESET_TIMEOUT: Final = timedelta(seconds=1)
_LIVE_PAUSE_SECONDS: Final = 0.05
_CLOSED: Final = frozenset(WorkflowExecutionStatus) - {
    WorkflowExecutionStatus.RUNNING,
    WorkflowExecutionStatus.CONTINUED_AS_NEW,
}
_FOR_AGENTS: Final = (names.SEND, names.WITHDRAW, names.MESSAGE, names.CLOSE)
# Statuses of an RPC that exceeded its time limit.
_LATE: Final = (RPCStatusCode.CANCELLED, RPCStatusCode.DEADLINE_EXCEEDED)

Entry = dict[str, Any]


@dataclass(frozen=True)
class RunStart:
    """The start of a run: its time, its summary, and what it begins with as a fork."""

    started: datetime
    summary: str | None
    origin: Fork | None = None


async def summary_of(run: WorkflowExecutionDescription) -> str | None:
    """Return the summary of a run, or None: any client of the namespace can write one."""
    with suppress(ValueError, RuntimeError):
        summary = await run.static_summary()
        return summary if isinstance(summary, str) else None
    return None


async def origin_of(run: WorkflowExecutionDescription) -> Fork | None:
    """Return what a fork begins with, by its memo; None for any other run, and without the key."""
    with suppress(errors.EncryptedError, ValueError, RuntimeError):
        memo = await run.memo_value(names.FORKED_FROM, default=None)
        return memo and Fork.read(memo)
    return None


class RemoteRun:
    """A run by its id, through continue-as-new."""

    def __init__(self, client: Client, run_id: str, watches: RunWatches | None = None) -> None:
        self.id = run_id
        self._client = client
        self._watches = watches or RunWatches(LiveAnswers(client.data_converter))
        self._handle = client.get_workflow_handle(run_id)

    async def observe(self) -> RunDescription:
        """Return the server's view of the run.

        Raises:
            HoldfastError: the run does not exist, is not a run of Holdfast, or Temporal does not
                answer.
        """
        description = await self.describe()
        running = description.raw_description.pending_activities
        converter = self._client.data_converter
        requests = [one.activity_id for one in running if one.activity_type.name == names.GENERATE]
        updates = [await heartbeats.update_in(one, converter) for one in running]
        queued = queued_request(description.task_queue, running)
        failing = [
            one
            for one in running
            if one.HasField("last_failure")
            or (heartbeats.is_untaken(one) and one.activity_id != queued)
        ][:_MAX_FAILING]
        return RunDescription(
            position=(description.run_id, description.history_length),
            closed=description.status in _CLOSED,
            streaming=await heartbeats.read_answer_progress(running, converter),
            requests=requests,
            queued_request=queued,
            attempts=attempts(description),
            updates=[update for update in updates if update is not None],
            failing=[await heartbeats.read_activity(one, converter) for one in failing],
        )

    def looks(self, most_lost: float = inf) -> AsyncGenerator[Look, None]:
        """Yield the newest look at the run, again and again; viewers with one client share it.

        A look is a description, or the error that `observe` raised.

        Raises:
            HoldfastError: `observe` raised an error `most_lost` times in a row.
        """
        return self._watches.looks(self.id, self.observe, most_lost)

    async def share(self, key: Hashable, read: Read[ReadT], *, until_change: bool = False) -> ReadT:
        """Read the run once for all viewers that read the same at the same time.

        With `until_change`, once between two changes that viewers in this process have seen.
        """
        return await self._watches.share(self.id, key, read, until_change=until_change)

    async def describe(self) -> WorkflowExecutionDescription:
        """Return Temporal's own description of the run; raises as `observe` does."""
        with errors.explain_rpc_errors(self.id):
            description = await self._handle.describe()
        workflow = description.workflow_type
        if workflow not in names.WORKFLOWS:
            wrong = f"{self.id} is a {workflow}, not an agent's run or a call"
            raise errors.HoldfastError(wrong, "holdfast list shows the runs", errors.NO_SUCH)
        return description

    async def diagnose(self) -> errors.HoldfastError:
        """Return the reason why the run does not answer; raises as `observe` does."""
        return await diagnose_silence(self._client, await self.describe())

    async def start_info(self) -> RunStart:
        """Return the start of the run; raises as `observe` does.

        For a run that has continued as new, only its first part has the start. If retention has
        removed that part, the latest part is used.
        """
        run = await self.describe()
        first = run.raw_description.workflow_execution_info.first_run_id
        if first and first != run.run_id:
            try:
                run = await self._client.get_workflow_handle(self.id, run_id=first).describe()
            except RPCError as error:
                if error.status != RPCStatusCode.NOT_FOUND:
                    raise errors.rpc_problem(error, self.id) from error
        return RunStart(run.start_time, await summary_of(run), await origin_of(run))

    async def entries(self, log: str, after: int = 0, last: float = inf) -> AsyncIterator[Entry]:
        """Yield the entries of a log (`context` or `events`) after number `after`, to its end.

        A log is known to end at number `last`, if given.

        Raises:
            NoWorkerError: no worker answers.
            StuckRunError: the worker cannot continue the run.
            HoldfastError: the run does not answer, or does not exist.
        """
        while after < last:
            limit = int(min(_PAGE_ENTRIES, last - after))
            read = partial(self.page, log, after, limit)
            page = await self.share((log, after, limit), read, until_change=True)
            for entry in page:
                after = entry["n"]
                yield entry
            if not page or page[-1]["type"] in LAST_ENTRIES:
                return

    async def page(self, log: str, after: int, limit: int) -> list[Entry]:
        """Return at most `limit` entries after number `after`; raises as `entries` does."""
        found: list[Entry] = await self._query(log, {"after": after, "limit": limit})
        return found

    async def ending(self, *, unread: str = "", execution: str = "") -> RunEnding:
        """Wait for the end of the run and return it; needs no worker.

        `unread` is the reason not to read an output in the store: its beginning represents it.
        `execution` is one of several runs of the id; without it, it is the newest.
        """
        handle = self._client.get_workflow_handle(self.id, run_id=execution or None)
        try:
            with errors.explain_rpc_errors(self.id):
                end = result.ending_of_result(await handle.result())
        except WorkflowFailureError as error:
            return result.ending_of_failure(error)
        converter = self._client.data_converter
        return await result.with_stored_output(end, self.id, converter, unread)

    async def _query(
        self, name: str, *args: Any, unless: QueryRejectCondition | None = None
    ) -> Any:
        if (found := await self._query_live(name, list(args))) is not None:
            return found
        shares, unseen_tries = list(_QUERY_TRIES), _UNSEEN_TRIES
        until = monotonic() + NO_WORKER_SECONDS
        while True:
            try:
                return await self._handle.query(
                    name,
                    args=args,
                    reject_condition=unless,
                    rpc_timeout=timedelta(seconds=NO_WORKER_SECONDS * shares[0]),
                )
            except WorkflowQueryFailedError as error:
                unseen_tries -= 1
                if not (names.AHEAD_MESSAGE in error.message and unseen_tries):
                    if error.message == ENCODED_FAILURE:  # and the worker has other keys
                        await self._check_start(name)
                    wrong = f"run {self.id} does not answer `{name}`: {error.message}"
                    raise errors.FailedQueryError(
                        wrong, "see the worker's log", errors.RUN_FAILED
                    ) from error
            except RPCError as error:
                if error.status in _LATE and len(shares) > 1:
                    del shares[0]
                    if len(shares) == 1:
                        await self._let_any_worker_answer()
                    continue
                problem, unseen_tries = await self._unanswered(error), unseen_tries - 1
                is_unseen = (
                    isinstance(problem, errors.BusyWorkerError) and error.status not in _LATE
                )
                if not (is_unseen and unseen_tries and monotonic() < until):
                    raise problem from error
            await asyncio.sleep(_UNSEEN_PAUSE_SECONDS)

    async def _let_any_worker_answer(self) -> None:
        request = ResetStickyTaskQueueRequest(namespace=self._client.namespace)
        request.execution.workflow_id = self.id
        with suppress(RPCError):  # it has ended, or this client may only read
            await self._client.workflow_service.reset_sticky_task_queue(
                request, timeout=_RESET_TIMEOUT
            )

    async def _query_live(self, name: str, args: list[Any]) -> Any:
        """Return the newest answer of a connected worker that has the run in its cache, or None.

        It is the newest if Temporal then has the run at the position of the answer.
        """
        if name not in LIVE_QUERIES:
            return None
        with suppress(TimeoutError):
            async with asyncio.timeout(_LIVE_SECONDS):
                while found := await self._watches.live.query(self.id, name, args):
                    now = await self.describe()
                    if found.position == (now.run_id, now.history_length):
                        return found.result
                    await asyncio.sleep(_LIVE_PAUSE_SECONDS)
        return None

    async def _check_start(self, name: str) -> None:
        """Check that the run accepts what is sent to it, and that its own input can be decrypted.

        Without its keys, the message would be in history unencrypted, and its answer would be lost.
        """
        with errors.explain_rpc_errors(self.id):
            async for event in self._handle.fetch_history_events(page_size=1):
                start = event.workflow_execution_started_event_attributes
                if name in _FOR_AGENTS and start.workflow_type.name == names.CALL_WORKFLOW:
                    wrong = f"{self.id} is a single call, which receives no messages"
                    raise errors.wrong_command(wrong, f"see {holdfast_command('show', self.id)}")
                codec = self._client.data_converter.payload_codec
                if codec is not None:
                    await codec.decode(start.input.payloads)
                return

    async def _update(
        self,
        name: str,
        argument: Any,
        stage: WorkflowUpdateStage,
        wait_seconds: float | None = None,
        rejected: type[errors.RejectedError] = errors.RejectedError,
        id: str = "",
    ) -> Any:
        """Send an update to a run that answers queries, and return the answer to it.

        Raises:
            UnansweredUpdateError: it was sent, and repeated with the same `id` it counts once.
        """
        await self._check_start(name)
        id = id or uuid.uuid4().hex
        if name != names.DECIDE:  # whose sender has queried the approvals
            with suppress(WorkflowQueryRejectedError):
                await self._query(names.STATUS, unless=QueryRejectCondition.NOT_OPEN)
        limit = timedelta(seconds=NO_WORKER_SECONDS)
        try:
            with _own_cancellation():
                handle = await self._handle.start_update(
                    name, argument, wait_for_stage=stage, rpc_timeout=limit, id=id
                )
            async with asyncio.timeout(wait_seconds):
                with _own_cancellation():
                    return await handle.result()
        except WorkflowUpdateRPCTimeoutOrCancelledError as error:
            raise errors.UnansweredUpdateError(self.id, id) from error
        except WorkflowUpdateFailedError as error:
            if isinstance(error.cause, ApplicationError):
                raise rejected(self.id, error.cause.type or "", error.cause.message) from error
            wrong = f"run {self.id} ended before it answered: {error.cause}"
            todo = f"see {holdfast_command('show', self.id)}"
            raise errors.HoldfastError(wrong, todo, errors.RUN_FAILED) from error
        except RPCError as error:
            if error.status in (*_LATE, RPCStatusCode.UNAVAILABLE):
                raise errors.UnansweredUpdateError(self.id, id) from error
            raise await self._unanswered(error) from error
        finally:
            self._watches.poll(self.id)

    async def _unanswered(self, error: RPCError) -> errors.HoldfastError:
        # A run that no worker has started yet, or never will, is not ready for a query.
        if error.status in (*_LATE, RPCStatusCode.FAILED_PRECONDITION):
            return await self.diagnose()
        return errors.rpc_problem(error, self.id)


@contextmanager
def _own_cancellation() -> Iterator[None]:
    """Raise the cancellation of this process, such as Ctrl-C or a timeout, as a cancellation."""
    try:
        yield
    except WorkflowUpdateRPCTimeoutOrCancelledError as error:
        if isinstance(error.__cause__, asyncio.CancelledError):
            raise asyncio.CancelledError from error
        raise


def attempts(description: WorkflowExecutionDescription) -> int:
    """Return the sum of the attempts of all running activities and the workflow task."""
    raw = description.raw_description
    return sum(one.attempt for one in raw.pending_activities) + raw.pending_workflow_task.attempt


def queued_request(task_queue: str, activities: Iterable[PendingActivityInfo]) -> str | None:
    """Return the id of a request that no worker has started because of its rate limit."""
    queues = names.request_queue(task_queue, "")
    for one in activities:
        limited = one.activity_options.task_queue.name.startswith(queues)
        scheduled = one.state == PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED
        if limited and scheduled and one.attempt == 1:
            return one.activity_id
    return None
