"""What is done: models asked, calls carried out, people waited for.

These are the hands of the workflows. They take the steps that the engine names, as activities and
timers, and tell the engine how each ended.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError, FailureError
from temporalio.workflow import EventGroup

with workflow.unsafe.imports_passed_through():
    from holdfast.schemas import names
    from holdfast.schemas.agent import WorkerFacts
    from holdfast.schemas.base import json_size
    from holdfast.schemas.errors import ErrorCode
    from holdfast.schemas.internal.model_request import ConversationPointer
    from holdfast.schemas.internal.solution import Solution
    from holdfast.schemas.tool import Tool

from holdfast.workflows.commands import (
    activity_options,
    child_workflows,
    failures,
    model_tools,
    token_verification,
)
from holdfast.workflows.commands.page_prefetch import hand_over
from holdfast.workflows.engine.approvals.question import Question
from holdfast.workflows.engine.budget.meter import Meter
from holdfast.workflows.engine.call.hooks import (
    Hook,
    HookFailed,
    HookRequests,
    HookResult,
    HookReturned,
    advance,
    hook_result_of,
)
from holdfast.workflows.engine.call.outcome import (
    Outcome,
    fail,
    outcome_of_failure,
    outcome_of_result,
)
from holdfast.workflows.engine.call.tool_call import CallStage, ToolCall, Turn
from holdfast.workflows.engine.execution.questions import doubt_after_reset
from holdfast.workflows.engine.execution_base import ExecutionBase
from holdfast.workflows.engine.run import Run
from holdfast.workflows.publishing import summaries
from holdfast.workflows.publishing.publisher import Publisher
from holdfast.workflows.publishing.trace import Trace

# What one workflow task may schedule stays far under the server's bound of four megabytes.
MAX_BYTES_IN_FLIGHT = 2_000_000


async def in_time(condition: Callable[[], bool], longest: timedelta | None, line: str) -> bool:
    """Wait for a condition; whether it came true before the time was over."""
    try:
        await workflow.wait_condition(condition, timeout=longest, timeout_summary=line)
    except TimeoutError:
        return False
    return True


class StepExecutor:
    """The doing of one workflow."""

    def __init__(
        self, work: ExecutionBase, facts: WorkerFacts, showing: Publisher, trace: Trace
    ) -> None:
        self._work = work
        self._facts = facts
        self._showing = showing
        self._trace = trace
        self._bytes_in_flight = 0
        self._timer: asyncio.Task[None] | None = None
        self._groups: tuple[int, EventGroup] | None = None
        self._hooks = asyncio.Lock()

    async def ask_model(self, run: Run, pointer: ConversationPointer) -> None:
        """Make one request to the model, and tell the run what came of it."""
        meter = run.state.meter
        line = summaries.model_summary(pointer, run.agent.model)
        left = meter.remaining(workflow.now())
        config = activity_options.generate(run, self._facts, line, left)
        hand_over(pointer, run.pages.page)
        with self._group(pointer.turn).scope():
            try:
                answer = await self.at_work(
                    workflow.execute_activity(names.GENERATE, pointer.to_json(), **config),
                )
            except ActivityError as error:
                if workflow.cancellation_reason() is not None:
                    raise asyncio.CancelledError from error
                if left is not None and meter.out_of_time:
                    run.unanswered()
                else:
                    run.fail(names.MODEL_ERROR, failures.model_failure_of(error))
                return
        tell = run.summarised if pointer.summary else run.answered
        tell(Solution.read(answer))

    async def carry_out(self, turn: Turn) -> None:
        """See every call of a turn through to its end: together, or one after the other."""
        with self._group(turn.number).scope():
            if turn.is_plan:
                await self._agree_on(turn)
            if turn.is_sequential:
                for call in turn.calls:
                    await self._carry_out_together(turn, [call])
            else:
                await self._carry_out_together(turn, turn.calls)

    async def _agree_on(self, turn: Turn) -> None:
        """Have people decide on all calls of a turn, before any of them is begun."""
        planning = self._work.planning
        await self._decide(planning.check(turn))
        question = None if self._work.is_steered else planning.ask(turn)
        if question is not None:
            self._showing.update()
            await self.until_ruled(question)
            planning.apply_ruling(turn)

    async def _carry_out_together(self, turn: Turn, calls: list[ToolCall]) -> None:
        if self._work.is_halting:
            self._work.abandon(turn, "the run ended before this call")
            return
        if self._work.is_steered:
            self._work.planning.hold_back(calls)
        deciding = self._work.calls
        await self._decide(deciding.check_and_start(turn.number, calls))
        self._showing.update()
        slots = asyncio.Semaphore(self._work.state.rules.concurrency)
        open_ = [call for call in calls if call.stage is not CallStage.ENDED or call.has_dependents]
        await asyncio.gather(*(self._see_through(turn, call, slots) for call in open_))
        await self._decide(deciding.finish(turn.number, calls))

    async def _see_through(self, turn: Turn, call: ToolCall, slots: asyncio.Semaphore) -> None:
        """One call, from where it stands to its end, and until others can read what it wrote."""
        while call.stage is not CallStage.ENDED:
            await self._see_on(turn, call, slots)
            self._showing.update()
        self._trace.ended(call.id)
        if call.has_dependents and not call.result_published:
            await self._decide(self._work.calls.publish_result(call))

    async def _see_on(self, turn: Turn, call: ToolCall, slots: asyncio.Semaphore) -> None:
        """One call, from where it stands to where it stands next."""
        work, calls = self._work, self._work.calls
        match call.stage:
            case CallStage.PENDING | CallStage.QUEUED:
                await self._wait_for_others(turn, call)
            case CallStage.RUNNING:
                async with slots:
                    await self._run(turn, call)
            case _:
                await self.until_ruled(calls.question_of(call))
                if work.is_steered and calls.question_of(call).ruling is None:
                    work.planning.hold_back([call])
                else:
                    calls.apply_ruling(turn.number, call)

    async def _wait_for_others(self, turn: Turn, call: ToolCall) -> None:
        """Wait until the calls have ended that a call waits for, and take it up again."""
        work, calls = self._work, self._work.calls
        queued = call.stage is CallStage.QUEUED
        await workflow.wait_condition(
            lambda: (call.is_startable if queued else call.is_decidable) or work.is_halting
        )
        if work.is_halting:
            calls.cancel(call, "the run ended before this call")
        elif work.is_steered:
            work.planning.hold_back([call])
        elif queued:
            calls.start(turn.number, call)
        else:
            await self._decide(calls.resume(turn.number, call))

    async def _run(self, turn: Turn, call: ToolCall) -> None:
        """Carry a call out, unless the run ends or a message came while it waited for a slot."""
        work, calls = self._work, self._work.calls
        if work.is_halting and call.unknown_outcomes == 0:
            calls.skip(call, "the run ended before this call")
        elif work.is_steered and call.unknown_outcomes == 0:
            work.planning.hold_back([call])
        else:
            outcome = doubt_after_reset(call, work.state) or await self._execute(turn, call)
            calls.apply_outcome(turn.number, call, outcome)

    async def _decide(self, deciding: HookRequests[None]) -> None:
        """Have the engine decide, asking the hooks that it names: never two of them at once."""
        async with self._hooks:
            hook = advance(deciding)
            while hook is not None:
                hook = advance(deciding, await self._ask(hook))

    async def _ask(self, hook: Hook) -> HookResult:
        line = summaries.hook_summary(self._work.turn_number, hook)
        size = json_size(hook.arguments)
        if size > activity_options.MAX_INPUT_BYTES:
            return HookFailed(
                f"it would be given {size} bytes; at most {activity_options.MAX_INPUT_BYTES}"
            )
        config = activity_options.hook(hook, line, self._work.state.meter.remaining(workflow.now()))
        try:
            said = await self.at_work(
                workflow.execute_activity(
                    hook.activity.type, args=hook.arguments, result_type=RawValue, **config
                )
            )
            return HookReturned(failures.value_of(said))
        except FailureError as error:
            if workflow.cancellation_reason() is not None:
                raise asyncio.CancelledError from error
            return hook_result_of(failures.failure_of(error))
        except ValueError as error:
            return HookFailed(str(error))

    async def _execute(self, turn: Turn, call: ToolCall) -> Outcome:
        """Have a call carried out by what carries out its tool's: a run, the model, an activity."""
        tool = call.tool
        assert tool is not None  # it was opened
        if tool.delegate is not None:
            return await child_workflows.carry_out(call, turn, self._work, self._showing, self)
        if tool.latent:
            return await model_tools.answer(
                call, turn.number, self._work, self._facts, self.at_work
            )
        return await self._act(call, tool)

    async def _act(self, call: ToolCall, tool: Tool) -> Outcome:
        arguments = activity_options.arguments_of(call, tool, self._work.state)
        size = json_size(arguments)
        if size > activity_options.MAX_INPUT_BYTES:
            bound = activity_options.MAX_INPUT_BYTES
            message = f"`{tool.name}` would be given {size} bytes; at most {bound} can be sent"
            return fail(ErrorCode.INVALID_ARGUMENTS, message)
        try:
            async with self.in_flight(size):
                result = await self.at_work(self._activity(call, arguments))
            return outcome_of_result(tool, failures.value_of(result))
        except FailureError as error:
            if workflow.cancellation_reason() is not None:
                raise asyncio.CancelledError from error
            return outcome_of_failure(tool, failures.failure_of(error))
        except ValueError as error:
            return fail(
                ErrorCode.INVALID_OUTPUT,
                f"`{tool.name}` was carried out, but its result is lost: {error}",
            )

    def _activity(self, call: ToolCall, arguments: list[Any]) -> Coroutine[Any, Any, Any]:
        tool = call.tool
        assert tool is not None  # it was opened
        assert tool.activity is not None  # nothing else carries it out
        remaining = self._work.state.meter.remaining(workflow.now())
        line = summaries.call_summary(self._work.turn_number, call, self._showing.decided(call.id))
        if tool.activity.local:
            return workflow.execute_local_activity(
                tool.activity.type,
                args=arguments,
                result_type=RawValue,
                **activity_options.local(call, tool, line, remaining),
            )
        return workflow.execute_activity(
            tool.activity.type,
            args=arguments,
            result_type=RawValue,
            **activity_options.remote(call, tool, line, remaining),
        )

    async def at_work(self, doing: Coroutine[Any, Any, Any]) -> Any:
        """Do something on the run's time; while anything is, a timer watches how much is left."""
        meter = self._work.state.meter
        meter.begin_work(workflow.now())
        left = meter.remaining(workflow.now())
        if left is not None and self._timer is None:
            self._timer = asyncio.create_task(self._run_out(left))
        try:
            return await doing
        finally:
            # Not so where a run that was put out of the cache is thrown away.
            if workflow.in_workflow():
                self._rest(meter)

    def _rest(self, meter: Meter) -> None:
        meter.end_work(workflow.now())
        if self._timer is not None and not meter.at_work:
            self._timer.cancel()
            self._timer = None

    async def _run_out(self, left: timedelta) -> None:
        await workflow.sleep(left, summary="The run's time at work is over then (maxDuration)")
        self._work.state.meter.run_out_of_time()

    @asynccontextmanager
    async def in_flight(self, size: int) -> AsyncIterator[None]:
        """Send so many bytes, as soon as they have room beside those that are on their way."""
        while self._bytes_in_flight and self._bytes_in_flight + size > MAX_BYTES_IN_FLIGHT:
            await workflow.wait_condition(
                lambda: (
                    self._bytes_in_flight == 0
                    or self._bytes_in_flight + size <= MAX_BYTES_IN_FLIGHT
                )
            )
        self._bytes_in_flight += size
        try:
            yield
        finally:
            self._bytes_in_flight -= size

    async def until_ruled(self, question: Question) -> None:
        """Wait for people, asking again and giving up when it is time."""
        line = summaries.question_summary(self._work.turn_number, question)
        early = self._work.state.pending.take_unverified(question)
        if early:
            await asyncio.gather(
                *(token_verification.hear(self._work, decision) for decision in early)
            )
            self._showing.update()
        while question.ruling is None and not self._work.needs_no_decision(question):
            alarm = question.next_alarm()
            if await in_time(
                lambda: question.ruling is not None or self._work.needs_no_decision(question),
                alarm,
                line,
            ):
                return
            if question.advance(alarm):
                self._work.state.pending.expire(question)
            elif not question.decisions:
                self._work.calls.remind(self._work.turn_number, question)
            self._showing.update()

    def _group(self, turn: int) -> EventGroup:
        """What Temporal's UI shows the events of a turn under: one group for the whole of it."""
        if self._groups is None or self._groups[0] != turn:
            label = f"turn {turn}" if turn else "call"
            self._groups = (turn, workflow.create_event_group(label))
        return self._groups[1]
