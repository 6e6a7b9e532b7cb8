"""Run calls to delegates as child workflows.

While a delegate waits for a decision, the clock of its parent is stopped, as for the parent's own
approvals. A parent that ends does not wait for its delegates: it cancels them.
"""

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any

from temporalio import exceptions, workflow
from temporalio.common import RawValue, WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError, ChildWorkflowError

with workflow.unsafe.imports_passed_through():
    from holdfast.schemas import names
    from holdfast.schemas.base import json_size
    from holdfast.schemas.internal.solution import Usage
    from holdfast.schemas.message import AskedCall
    from holdfast.schemas.phrases import no_agent
    from holdfast.schemas.run import RunResult, Spent
    from holdfast.schemas.tool import ResolvedTool

from holdfast.workflows.commands import activity_options
from holdfast.workflows.commands.base_executor import BaseExecutor
from holdfast.workflows.engine import delegation
from holdfast.workflows.engine.call import outcomes
from holdfast.workflows.engine.call.activities import CallRefused, Hook, HookResult
from holdfast.workflows.engine.call.states import ProposedCall, ToolCall, Turn
from holdfast.workflows.engine.run import AgentRun
from holdfast.workflows.input import payload_json

_NOTHING = Spent(
    turns=0, calls=0, usage=Usage(input_tokens=0, output_tokens=0, cached_tokens=0, cost=0)
)


async def execute_delegate(
    call: ToolCall, turn: Turn, executor: BaseExecutor, *, is_hook: bool = False
) -> outcomes.Outcome | None:
    """Run a call as a child workflow, and return its outcome; `None` if it may not start any more.

    One that `is_hook` waits for no person, and has the time of a hook.
    """
    work, own_id = executor.work, workflow.info().workflow_id
    agent = work.agent if isinstance(work, AgentRun) else None
    try:
        delegate = delegation.build_delegate(call, turn, work.state, agent, own_id)
        if is_hook:
            request = {**delegate.request, "approvals": "deny"}
            longest = activity_options.HOOK_TO_CLOSE
            delegate = replace(delegate, request=request, longest=longest)
    except CallRefused as refusal:
        return outcomes.refuse(refusal.error.code, refusal.error.message)
    work.state.meter.held[call.id] = delegate.share
    work.delegates.add(delegate)
    executor.publisher.update()
    try:
        end = await _end_of(delegate, call, None if is_hook else turn, executor)
    finally:
        work.delegates.remove(call.id)
    if end is None:
        work.state.meter.held.pop(call.id, None)
        return None
    delegation.charge(work.state.meter, delegate, end)
    return delegation.delegate_outcome(call.tool, end, work.state.limits.budget())


async def execute_repair(hook: Hook, agent: str, executor: BaseExecutor) -> HookResult:
    """Have an agent correct a call's arguments, in the time of a hook and without people."""
    id = names.hook_id(hook.call_id, hook.name, hook.n)
    tool = ResolvedTool(name=agent, delegate=agent, parameters={})
    call = ToolCall(ProposedCall(AskedCall(id=id, provider_id=id, tool=agent, arguments={}), tool))
    call.revise(replace(call.prepared, arguments=hook.arguments[0]))
    # The rest of the budget is also for the delegates of the turn that have yet to start.
    work = executor.work
    others = [] if work.phases.turn is None else work.phases.turn.executed_calls
    turn = Turn(work.state.meter.turns, [call, *others])
    match await execute_delegate(call, turn, executor, is_hook=True):
        case outcomes.Succeeded() as outcome:
            return outcome
        case outcomes.Refused(error) | outcomes.Failed(error, _):
            return outcomes.Failure("other", f"agent `{agent}`: {error.message}")
        case outcome:
            raise AssertionError(f"a delegate that may run again ended with {outcome}")


async def _end_of(
    delegate: delegation.Delegate, call: ToolCall, turn: Turn | None, executor: BaseExecutor
) -> delegation.DelegateEnd | None:
    """Await a delegate, on the run's time except while the delegate waits for decisions."""
    work = executor.work
    running = asyncio.create_task(_run(delegate, call, turn, executor))

    def is_over() -> bool:
        return running.done() or work.is_halting

    try:
        while not is_over():
            pending = work.delegates.has_pending(call.id)

            def has_changed(was: bool = pending) -> bool:
                return is_over() or work.delegates.has_pending(call.id) != was

            change = workflow.wait_condition(has_changed)
            await (change if pending else executor.on_run_time(change))
        if running.done():
            return await running
        return delegation.DelegateFailed("abandoned", "the run ended before its delegate")
    finally:
        # Not while the SDK discards a run that was evicted from the cache.
        if workflow.in_workflow():
            running.cancel()


async def _run(
    delegate: delegation.Delegate, call: ToolCall, turn: Turn | None, executor: BaseExecutor
) -> delegation.DelegateEnd | None:
    """Run a delegate, from the run's snapshot if the file of its agent was deleted since."""
    end, known = await _attempt(delegate, call, turn, executor), executor.facts.delegates
    if not isinstance(end, delegation.DelegateFailed) or end.spent != _NOTHING:
        return end
    # Its request was refused: nothing of it has run.
    if delegate.agent not in known or no_agent(delegate.agent) not in end.message:
        return end
    agents = {name: agent.to_json() for name, agent in known.items()}
    return await _attempt(delegate, call, turn, executor, agents)


async def _attempt(
    delegate: delegation.Delegate,
    call: ToolCall,
    turn: Turn | None,
    executor: BaseExecutor,
    *agents: dict[str, Any],
) -> delegation.DelegateEnd | None:
    # A call that may run once is rejected if its id was used before. A person's decision that it
    # did not happen permits the id again.
    is_first = call.tool.once and not call.decided.unknown_attempts and not agents
    policies = WorkflowIDReusePolicy
    try:
        async with executor.in_flight(json_size(delegate.request)):
            if turn is not None and executor.is_withheld(turn, call):
                return None
            # A token that was renewed meanwhile may have other scopes.
            if (principal := delegation.own_principal(executor.work.state)) is not None:
                delegate.request["principal"] = principal.to_json()
            child = await workflow.start_child_workflow(
                names.AGENT_WORKFLOW,
                args=[delegate.request, *agents],
                id=delegate.workflow_id,
                result_type=RawValue,
                cancellation_type=workflow.ChildWorkflowCancellationType.TRY_CANCEL,
                parent_close_policy=workflow.ParentClosePolicy.REQUEST_CANCEL,
                id_reuse_policy=policies.REJECT_DUPLICATE if is_first else policies.ALLOW_DUPLICATE,
                execution_timeout=delegate.longest,
                memo={names.DELEGATE_OF: call.id},
                static_summary=activity_options.summary(
                    f"Runs {call.id}, {delegate.tool}, of {workflow.info().workflow_id}"
                ),
            )
        return RunResult.read(payload_json(await child))
    except exceptions.WorkflowAlreadyStartedError:
        return delegation.DelegateFailed(
            "not_started", f"there is, or was, a run `{delegate.workflow_id}` already"
        )
    except ChildWorkflowError as error:
        return _failure(error, delegate)
    except ValueError:
        return delegation.DelegateFailed("failed", f"{outcomes.WAS_RUN}its result is lost")


def _failure(error: ChildWorkflowError, delegate: delegation.Delegate) -> delegation.DelegateFailed:
    match error.cause:
        case ApplicationError(type=names.INVALID_REQUEST, message=message):
            return delegation.DelegateFailed("failed", message, _NOTHING)  # it never started
        case ApplicationError(message=message, details=details, type=code):
            spent = None
            with suppress(IndexError, ValueError):
                spent = Spent.read(details[0])
            if code == names.ErrorCode.OUTCOME_UNKNOWN:
                return delegation.DelegateFailed(
                    "unknown", f"the outcome of `{delegate.tool}` is unknown: {message}", spent
                )
            return delegation.DelegateFailed("failed", message, spent)
        case exceptions.CancelledError():
            return delegation.DelegateFailed("failed", f"`{delegate.tool}` was cancelled")
        case exceptions.TerminatedError():
            return delegation.DelegateFailed("lost", f"`{delegate.tool}` was terminated")
        case _:
            return delegation.DelegateFailed("lost", f"`{delegate.tool}` did not end in time")
