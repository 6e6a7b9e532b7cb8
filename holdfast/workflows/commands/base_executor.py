"""What the commands of a run share: its time at work, and the bytes that they have in flight."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError, FailureError
from temporalio.workflow import ActivityConfig

with workflow.unsafe.imports_passed_through():
    from holdfast.schemas import names
    from holdfast.schemas.agent import WorkerFacts
    from holdfast.schemas.internal import model_request
    from holdfast.schemas.internal.solution import Solution, Usage

from holdfast.workflows.commands.publisher import Publisher
from holdfast.workflows.engine.call.states import ToolCall, Turn
from holdfast.workflows.engine.execution_base import ExecutionBase
from holdfast.workflows.input import activity_failure, failed_usage

# After an operator's command, Temporal reports of an activity that was started before that it was
# not started in time. Only a timeout at its own time proves that it never was.
MAX_EARLY, MAX_LATE = timedelta(seconds=1), timedelta(seconds=10)
_REQUEST_AGAIN = "request-again"
# The commands of one workflow task stay far under the server's limit of four megabytes.
MAX_BYTES_IN_FLIGHT = 2_000_000
AnswerPage = Callable[[model_request.ConversationPageRequest], model_request.ConversationPage]


async def wait_in_time(condition: Callable[[], bool], longest: timedelta | None, line: str) -> bool:
    """Wait for a condition; return whether it became true within the time.

    Input and the timer may come in one workflow task: the order in which the SDK applies them does
    not matter.
    """
    try:
        await workflow.wait_condition(condition, timeout=longest, timeout_summary=line)
    except TimeoutError:
        await asyncio.sleep(0)
        return condition()
    return True


class BaseExecutor:
    """A run with the commands that it has in flight."""

    def __init__(self, work: ExecutionBase, facts: WorkerFacts, publisher: Publisher) -> None:
        self.work = work
        self.facts = facts
        self.publisher = publisher
        self._bytes_in_flight = 0
        self._timer: asyncio.Task[None] | None = None

    async def request_model(
        self,
        pointer: model_request.ConversationPointer,
        config: ActivityConfig,
        page: AnswerPage,
        charge_failed: Callable[[Usage], None],
    ) -> Solution:
        """Make one request, and offer its page to the process, if that accepts it.

        If it fails, charge what its failed answers used.

        After a command between two attempts, of which one timed out, Temporal schedules the next
        for 1970: it is late at once. The request is then made again, within its time.
        """
        take, info = workflow.extern_functions().get(model_request.HAND_OVER), workflow.info()
        while True:
            if take is not None and not workflow.unsafe.is_replaying():
                take((info.workflow_id, info.run_id), pointer, page, "task_queue" in config)
            scheduled_at, longest = self.work.state.clock(), config["schedule_to_close_timeout"]
            request = workflow.execute_activity(names.GENERATE, pointer.to_json(), **config)
            try:
                return Solution.read(await self.on_run_time(request))
            except ActivityError as error:
                charge_failed(failed_usage(error))
                assert longest is not None  # every request has a bound
                waited = self.work.state.clock() - scheduled_at
                to_start = min(longest, config.get("schedule_to_start_timeout") or longest)
                is_late = activity_failure(error).started or waited + MAX_EARLY >= to_start
                # A history from before this continues as it did.
                if is_late or not workflow.patched(_REQUEST_AGAIN):
                    raise
                config["schedule_to_close_timeout"] = longest - waited
                config.pop("activity_id", None)

    async def on_run_time(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Await a coroutine while the run's time passes, bounded by a timer.

        Raises:
            CancelledError: The run is cancelled: a failure of an activity reports only that.
        """
        meter, clock = self.work.state.meter, self.work.state.clock
        meter.begin_work(clock())
        left = meter.remaining(clock())
        if left is not None and self._timer is None:

            async def end_time(longest: timedelta) -> None:
                await workflow.sleep(longest, summary="Ends the run's time at work (maxDuration)")
                meter.run_out_of_time()

            self._timer = asyncio.create_task(end_time(left))
        try:
            return await coroutine
        except FailureError as error:
            if workflow.cancellation_reason() is not None:
                raise asyncio.CancelledError from error
            raise
        finally:
            # Not while the SDK discards a run that was evicted from the cache.
            is_idle = workflow.in_workflow() and meter.end_work(clock())
            if is_idle and self._timer is not None:
                self._timer.cancel()
                self._timer = None

    async def has_time_after(self, pause: timedelta) -> bool:
        """Wait, and return whether the run continues."""
        work = self.work

        def is_over() -> bool:
            return work.is_halting or work.state.meter.out_of_time

        line = "Waits before the state of a task is requested again"
        return not await self.on_run_time(wait_in_time(is_over, pause, line))

    def is_withheld(self, turn: Turn, call: ToolCall) -> bool:
        """Withhold a call that waited for its command, if it may not start any more."""
        calls = self.work.calls
        return calls.refuse_without_time(call) or calls.withhold(turn.number, call)

    @asynccontextmanager
    async def in_flight(self, size: int) -> AsyncIterator[None]:
        """Reserve this many bytes of commands, as soon as they fit beside the pending ones."""

        def fits() -> bool:
            pending = self._bytes_in_flight
            return pending == 0 or pending + size <= MAX_BYTES_IN_FLIGHT

        while not fits():
            await workflow.wait_condition(fits)
        self._bytes_in_flight += size
        try:
            yield
        finally:
            self._bytes_in_flight -= size
