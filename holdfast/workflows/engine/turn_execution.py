"""Execute the calls of a turn: the one interpreter of what a call does next.

`CallLifecycle.action` returns what a call does next, and changes nothing. The interpreter has the
shell do it, and reports what came back to the engine; before each step it ends the calls that the
run's end, or a message that must be read first, prevents. A shell is the workflow, or the driver of
a test: it knows how to wait and how to run an activity, and makes no decisions.
"""

from collections.abc import Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from holdfast.schemas.names import ErrorCode
from holdfast.workflows.engine.approvals.question import Question
from holdfast.workflows.engine.call import activities
from holdfast.workflows.engine.call.outcomes import Outcome
from holdfast.workflows.engine.call.states import ToolCall, Turn
from holdfast.workflows.engine.execution import results
from holdfast.workflows.engine.execution.lifecycle import Action, AwaitCalls
from holdfast.workflows.engine.execution_base import ExecutionBase

_RUN_ENDED = "the run ended before this call"


class Shell(Protocol):
    """What a turn needs of the world."""

    def publish(self) -> None:
        """Show the present state of the run."""

    async def wait_until(self, condition: Callable[[], bool]) -> None: ...

    async def wait_for_ruling(self, question: Question) -> None:
        """Return once the question has a ruling, or needs none any more."""

    async def run_hook(self, hook: activities.Hook) -> activities.HookResult: ...

    async def execute(self, turn: Turn, call: ToolCall) -> Outcome | None:
        """Execute a call; None if it was withheld while it waited for its command."""

    async def together(self, executions: Iterable[Coroutine[Any, Any, None]]) -> None:
        """Run these at the same time, to the end of all."""

    def call_scope(self, call: ToolCall) -> AbstractAsyncContextManager[Any]:
        """Return the scope of a call until it has ended."""

    def slot(self) -> AbstractAsyncContextManager[Any]:
        """Return one of the slots for calls that run at the same time."""

    def decision(self) -> AbstractAsyncContextManager[Any]:
        """Return the right to decide, which one call has at a time."""


class TurnExecution:
    """The execution of the turns of a run, or of a single call, by a shell."""

    def __init__(self, work: ExecutionBase, shell: Shell) -> None:
        self._work = work
        self._shell = shell

    async def execute(self, turn: Turn) -> None:
        """Execute every call of a turn; the approval of a plan precedes all of them."""
        work, planning = self._work, self._work.planning
        if turn.is_plan:
            await self._decide(planning.check(turn))
            question = None if work.is_steered else planning.ask(turn)
            if question is not None:
                self._shell.publish()
                await self._shell.wait_for_ruling(question)
                planning.apply_ruling(turn, question)
        for calls in [[call] for call in turn.calls] if turn.is_sequential else [turn.calls]:
            await self._execute_together(turn, calls)

    async def _execute_together(self, turn: Turn, calls: list[ToolCall]) -> None:
        work, lifecycle = self._work, self._work.calls
        if work.is_halting:
            work.abandon(turn, _RUN_ENDED)
            return
        if work.is_steered:
            work.planning.hold_back(calls)
        await self._decide(lifecycle.check_and_start(turn, calls))
        self._shell.publish()
        open_ = [one for one in calls if lifecycle.action(one) or one.dependencies.has_dependents]
        await self._shell.together(self._execute_to_end(turn, call) for call in open_)
        await self._decide(results.finish(turn.number, calls, work.state))

    async def _execute_to_end(self, turn: Turn, call: ToolCall) -> None:
        lifecycle = self._work.calls
        async with self._shell.call_scope(call):
            while (action := lifecycle.action(call)) not in ("publish", None):
                await self._advance(turn, call, action)
                self._shell.publish()
        if action is not None:
            await self._decide(results.publish_result(call, self._work.state))

    async def _advance(self, turn: Turn, call: ToolCall, action: Action | None) -> None:
        work, lifecycle, shell = self._work, self._work.calls, self._shell
        match action:
            case AwaitCalls(are_over, is_decided):
                await shell.wait_until(lambda: are_over() or work.is_halting)
                if work.is_halting:
                    lifecycle.cancel(call, _RUN_ENDED)
                elif work.is_steered:
                    work.planning.hold_back([call])
                elif is_decided:
                    lifecycle.start(turn.number, call)
                else:
                    await self._decide(lifecycle.resume(turn.number, call))
            case Question() as question:
                await shell.wait_for_ruling(question)
                if work.is_steered and question.ruling is None and not call.decided.has_run:
                    work.planning.hold_back([call])
                else:
                    lifecycle.apply_ruling(turn.number, call)
            case "execute":
                async with shell.slot():
                    await self._execute_call(turn, call)
            case "execute items":
                await self._execute_items(turn, call)

    async def _execute_items(self, turn: Turn, call: ToolCall) -> None:
        items = (self._execute_to_end(turn, item) for item in call.open_items)
        if turn.is_sequential:
            for item in items:
                await item
        else:
            await self._shell.together(items)
        await self._decide(results.collect_items(call, self._work.state))

    async def _execute_call(self, turn: Turn, call: ToolCall) -> None:
        # While it waited for a slot, the run may have ended, or a message may have come.
        work, lifecycle, decided = self._work, self._work.calls, call.decided
        if work.is_halting and not decided.unknown_attempts:
            lifecycle.refuse(call, ErrorCode.CANCELLED, _RUN_ENDED)
        elif work.is_steered and not decided.has_run:
            work.planning.hold_back([call])
        elif not lifecycle.refuse_without_time(call):
            if call.is_undecided:
                lifecycle.start(turn.number, call)
            if not call.is_running:
                return
            outcome: Outcome | None = lifecycle.doubt_after_reset(call)
            if outcome is None and not lifecycle.withhold(turn.number, call):
                outcome = await self._shell.execute(turn, call)
            if outcome is not None:
                lifecycle.apply_outcome(turn.number, call, outcome)

    async def _decide(self, deciding: activities.HookRequests[None]) -> None:
        """Run a decision of the engine with the hooks that it requests, one at a time."""
        async with self._shell.decision():
            limits = self._work.state.limits
            hook = activities.advance(deciding, limits)
            while hook is not None:
                hook = activities.advance(deciding, limits, await self._shell.run_hook(hook))
