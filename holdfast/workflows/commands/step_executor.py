"""Execute the steps that the engine returns, as activities, timers and waits for decisions.

The engine processes the outcome of each; this module makes no decisions: it is the shell of
`engine/turn_execution.py`. A call that the model itself answers is a request of its own.
"""

# Names and not the module: the sandbox checks each use of a module's attribute.
from asyncio import CancelledError, Lock, Semaphore, create_task, gather
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError, FailureError
from temporalio.workflow import EventGroup

with workflow.unsafe.imports_passed_through():
    from holdfast.schemas import names
    from holdfast.schemas.agent import WorkerFacts
    from holdfast.schemas.base import json_size, parse_duration
    from holdfast.schemas.internal.mcp_input import McpTask
    from holdfast.schemas.internal.shared_budgets import CallReservation
    from holdfast.schemas.names import ErrorCode
    from holdfast.schemas.tool import ActivityBinding, RepairAgent

from holdfast.workflows import input as received
from holdfast.workflows.commands import activity_options, child_workflows, mcp_tasks
from holdfast.workflows.commands.base_executor import (
    MAX_EARLY,
    MAX_LATE,
    BaseExecutor,
    wait_in_time,
)
from holdfast.workflows.commands.interceptors import Trace
from holdfast.workflows.commands.publisher import Publisher
from holdfast.workflows.decisions import count_decision
from holdfast.workflows.engine.approvals.question import Question
from holdfast.workflows.engine.budget.meter import BudgetExhausted
from holdfast.workflows.engine.call import activities, outcomes
from holdfast.workflows.engine.call.states import ToolCall, Turn
from holdfast.workflows.engine.execution_base import ExecutionBase
from holdfast.workflows.engine.model.latent_calls import Latent
from holdfast.workflows.engine.phases import AskModel
from holdfast.workflows.engine.request_settings import TOO_LONG
from holdfast.workflows.engine.run import AgentRun
from holdfast.workflows.engine.turn_execution import TurnExecution


class StepExecutor(BaseExecutor):
    """An executor of the steps of one workflow."""

    def __init__(
        self, work: ExecutionBase, facts: WorkerFacts, publisher: Publisher, trace: Trace
    ) -> None:
        super().__init__(work, facts, publisher)
        self.publish = publisher.update
        self._trace = trace
        self._groups: tuple[int, EventGroup] | None = None
        self._decisions = Lock()
        self._slots = Semaphore()

    async def ask_model(self, run: AgentRun, step: AskModel) -> None:
        """Make one request to the model, and report its outcome to the run."""
        meter, pointer, model = run.state.meter, step.pointer, run.settings.agent.own_model
        if step.pause is not None:
            pause = min(step.pause, meter.remaining(self.work.state.clock()) or step.pause)
            line = "Waits before the model is requested again (_onModelError)"
            await self.on_run_time(workflow.sleep(pause, summary=line))
            if meter.out_of_time:
                run.requests.give_up()
                return
        line = activity_options.model_summary(pointer, model)
        left = meter.remaining(self.work.state.clock())
        config = activity_options.model_request_config(run, model, self.facts, line, left)
        charge = partial(run.requests.charge_failed, model)
        with self._group(pointer.turn).scope():
            try:
                solution = await self.request_model(pointer, config, run.settings.page, charge)
            except ActivityError as error:
                if left is not None and meter.out_of_time:
                    run.requests.give_up()
                else:
                    run.requests.failed(received.model_failure_message(error))
                return
        take = run.requests.summary_answered if pointer.summary else run.model_answered
        take(solution)

    async def ask_hook(self, run: AgentRun, hook: activities.Hook) -> None:
        """Run a hook around an answer of the model, and report its outcome to the run."""
        run_id = workflow.info().workflow_id
        hook = replace(hook, arguments=activity_options.hook_arguments(hook, run.state, run_id))
        # Without any time left, the model finishes: this hook is of its last request.
        had_time = not run.state.meter.out_of_time
        with self._group(hook.arguments[0]["turn"]).scope():
            result = await self.run_hook(hook)
        if had_time and run.state.meter.out_of_time:
            run.requests.give_up()
        else:
            run.requests.hook_answered(hook, result)

    async def execute_turn(self, turn: Turn) -> None:
        """Execute every call of a turn: one at a time, or as many as the agent's `concurrency`."""
        self._slots = Semaphore(self.work.state.rules.concurrency)
        with self._group(turn.number).scope():
            await TurnExecution(self.work, self).execute(turn)

    # What the execution of a turn needs: a `turn_execution.Shell`.

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        await workflow.wait_condition(condition)

    async def together(self, executions: Iterable[Coroutine[Any, Any, None]]) -> None:
        """Run the calls of a turn, or of a loop; a cancellation waits for the end of each."""
        tasks = list(map(create_task, executions))
        try:
            await gather(*tasks)
        except CancelledError:
            await gather(*tasks, return_exceptions=True)
            raise

    @asynccontextmanager
    async def call_scope(self, call: ToolCall) -> AsyncIterator[None]:
        """Cancel what a server still runs for a call, and note when the call ended."""
        try:
            yield
        finally:
            await mcp_tasks.cancel(call, self)
        self._trace.call_ended(call.id)

    def slot(self) -> Semaphore:
        return self._slots

    def decision(self) -> Lock:
        return self._decisions

    async def execute(self, turn: Turn, call: ToolCall) -> outcomes.Outcome | None:
        """Execute a call; `None` if its principal's rights or the run's time ended before that."""
        if call.tool.name in self.facts.counted_tools:
            if (refused := await self._reserve_call(call)) is not None:
                return outcomes.refuse(ErrorCode.BLOCKED, f"`{call.name}` was not run: {refused}")
            if self.is_withheld(turn, call):
                return None
        # In a backtest, an activity answers for a delegate.
        if call.tool.delegate is not None and call.tool.activity is None:
            return await child_workflows.execute_delegate(call, turn, self)
        if call.tool.latent:
            return await execute_model_tool(call, turn.number, self)
        activity = call.tool.activity
        assert activity is not None  # only an activity is left to execute it
        if call.decided.mcp.task is not None:
            return await mcp_tasks.follow(call, activity, call.decided.mcp.task, self)
        run_id, principal = workflow.info().workflow_id, self.work.state.principal
        build = partial(activity_options.activity_arguments, call, activity, self.work, run_id)
        arguments = build()
        size = json_size(arguments)
        if size > activity_options.MAX_INPUT_BYTES:
            bound = activity_options.MAX_INPUT_BYTES
            message = f"the input of `{call.name}` has {size} bytes; at most {bound} can be sent"
            return outcomes.fail(ErrorCode.INVALID_ARGUMENTS, message)
        async with self.in_flight(size):
            if self.is_withheld(turn, call):
                return None
            # A token that was renewed meanwhile may have other scopes.
            arguments = arguments if self.work.state.principal is principal else build()
            outcome = await self._outcome_of_activity(call, activity, arguments)
        if isinstance(outcome, McpTask):
            return await mcp_tasks.follow(call, activity, outcome, self)
        return outcome

    async def _reserve_call(self, call: ToolCall) -> str | None:
        """Count a call in the budgets that runs share; return why it may not run."""
        info, scopes = workflow.info(), self.work.state.budget_scopes
        key = f"{info.workflow_id}/{info.first_execution_run_id}/{call.id}"
        wanted = CallReservation(tool=call.tool.name, key=key, scopes=scopes)
        try:
            full = await self.on_run_time(
                workflow.execute_local_activity(
                    names.RESERVE_CALL,
                    wanted.to_json(),
                    schedule_to_close_timeout=parse_duration("1m"),
                    summary=f"Counts {call.id} in a shared budget",
                )
            )
        except FailureError as error:
            return received.activity_failure(error).message
        return None if full is None else f"the budget {full} is used up"

    async def run_hook(self, hook: activities.Hook) -> activities.HookResult:
        """Run the activity or the agent of a hook."""
        what = f"the hook _{hook.name} runs for {hook.call_id}"
        turn = self.work.state.meter.turns if names.call_of(hook.call_id) else 0
        line = activity_options.turn_summary(turn, what, {})
        size = json_size(hook.arguments)
        if size > activity_options.MAX_INPUT_BYTES:
            bound = activity_options.MAX_INPUT_BYTES
            return outcomes.Failure("other", f"its input has {size} bytes; at most {bound}")
        if isinstance(hook.activity, RepairAgent):
            return await child_workflows.execute_repair(hook, hook.activity.agent, self)
        id = names.hook_id(hook.call_id, hook.name, hook.n)
        remaining = self.work.state.meter.remaining(self.work.state.clock())
        longest = activity_options.HOOK_TO_CLOSE
        config = activity_options.queued_config(id, hook.activity, line, longest, remaining)
        try:
            answer = await self.on_run_time(
                workflow.execute_activity(
                    hook.activity.type, args=hook.arguments, result_type=RawValue, **config
                )
            )
            return outcomes.Succeeded(received.payload_json(answer))
        except FailureError as error:
            return received.activity_failure(error)
        except ValueError as error:
            return outcomes.Failure("other", str(error))

    async def _outcome_of_activity(
        self, call: ToolCall, activity: ActivityBinding, arguments: list[Any]
    ) -> outcomes.Outcome | McpTask:
        tool = call.tool
        start_timeout, scheduled_at = None, self.work.state.clock()
        try:
            remaining = self.work.state.meter.remaining(scheduled_at)
            line = activity_options.call_summary(self.work.state.meter.turns, call)
            running: Coroutine[Any, Any, Any]
            if activity.local:
                running = workflow.execute_local_activity(
                    activity.type,
                    args=arguments,
                    result_type=RawValue,
                    **activity_options.local_activity_config(call.id, activity, line, remaining),
                )
            else:
                config = activity_options.activity_config(call, activity, line, remaining)
                start_timeout = config.get("schedule_to_start_timeout")
                running = workflow.execute_activity(
                    activity.type, args=arguments, result_type=RawValue, **config
                )
            result = await self.on_run_time(running)
            number = len(call.decided.unknown_attempts) + call.decided.mcp.forms
            budget = self.work.state.limits.budget()
            return mcp_tasks.read_result(call, activity, call.id, number, result, budget)
        except FailureError as error:
            failure = received.activity_failure(error)
            waited = self.work.state.clock() - scheduled_at
            start_is_known = (
                failure.started
                or start_timeout is None
                or start_timeout - MAX_EARLY <= waited <= start_timeout + MAX_LATE
            )
            late = outcomes.Failure("other", "its last attempt did not start in time")
            outcome = activities.outcome_of_failure(tool, failure if start_is_known else late)
            if not isinstance(outcome, outcomes.Unknown):
                return outcome
            if failure.type == ErrorCode.OUTCOME_UNKNOWN:
                return outcome
            since = f"it was scheduled at {scheduled_at:%Y-%m-%d %H:%M:%S} UTC"
            return outcomes.Unknown(f"{outcome.message}; {since}, and may still be running")
        except ValueError as error:
            return outcomes.misfit(tool, f"result is lost: {error}")

    async def wait_for_ruling(self, question: Question) -> None:
        """Wait for the decision on a question, with reminders, until it expires."""
        what = f"decision needed (see User Metadata): {question.label}"
        line = activity_options.turn_summary(self.work.state.meter.turns, what, question.brief)
        work, pending = self.work, self.work.state.pending

        def is_over() -> bool:
            return question.ruling is not None or work.needs_no_decision(question)

        await self._count_early(question)
        while not is_over():
            alarm = question.next_alarm(self.work.state.clock())
            if alarm > timedelta() and await wait_in_time(is_over, alarm, line):
                return
            work.questions.forward(question, self.work.state.clock())
            await self._count_early(question)
            if pending.is_held:
                await workflow.wait_condition(lambda: not pending.is_held or is_over())
            if not is_over():
                work.questions.end_or_remind(question, self.work.state.clock())
            self.publisher.update()

    async def _count_early(self, question: Question) -> None:
        """Count the signed decisions that arrived before a question, or before its forward."""
        if early := self.work.state.pending.take_early(question, have_tokens=True):
            at, limits = min(self.work.state.clock(), question.last_moment), self.work.state.limits
            await gather(*(count_decision(self.work, decision, at, limits) for decision in early))
            self.publisher.update()

    def _group(self, turn: int) -> EventGroup:
        if self._groups is None or self._groups[0] != turn:
            label = f"turn {turn}" if turn else "call"
            self._groups = (turn, workflow.create_event_group(label))
        return self._groups[1]


async def execute_model_tool(call: ToolCall, turn: int, executor: BaseExecutor) -> outcomes.Outcome:
    """Let the model answer a call, a second time if the answer does not fit."""
    work = executor.work
    assert isinstance(work, AgentRun)  # a single call never has a tool that a model answers
    meter, name = work.state.meter, f"`{call.name}`"
    latent = work.settings.latents[call.id] = Latent(call, work.agent, work.state)
    try:
        while True:
            try:
                meter.hold_request(call.id)
            except BudgetExhausted as error:
                return outcomes.refuse(ErrorCode.BLOCKED, f"{name} was not answered: {error}")
            model = work.agent.own_model
            pointer = latent.pointer(turn, model)
            what = f"the model answers {call.tool.label or call.tool.name}"
            line = activity_options.turn_summary(turn, what, call.arguments)
            left = meter.remaining(work.state.clock())
            config = activity_options.model_request_config(work, model, executor.facts, line, left)
            config["activity_id"] = names.answer_id(call.id, latent.requests)
            try:
                charge = partial(work.requests.charge_failed, model)
                solution = await executor.request_model(pointer, config, latent.page, charge)
            except ActivityError as error:
                if meter.out_of_time:
                    return outcomes.fail(ErrorCode.TIMEOUT, f"{name} was not answered in time.")
                failure: str | None = received.model_failure_message(error)
            else:
                is_answer = work.requests.charge_answer(solution, model)
                is_refused = not (is_answer or solution.over_budget)
                if is_refused and work.requests.next_model(TOO_LONG, failed=model):
                    continue
                failure = latent.failure(solution)
            finally:
                meter.held.pop(call.id, None)
            if failure is not None:
                if work.requests.next_model(failure, failed=model):
                    continue
                # The reason goes to the log, not to the model.
                work.state.log.add_notice(f"{call.id} was not answered: {failure}")
                return outcomes.fail(ErrorCode.TOOL_ERROR, f"{name} could not be answered now.")
            if (outcome := latent.answered(solution)) is not None:
                return outcome
    finally:
        del work.settings.latents[call.id]
