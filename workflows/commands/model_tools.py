"""Calls that the model itself answers: a request of its own for each, and what comes of it."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from holdfast.schemas import names
    from holdfast.schemas.agent import WorkerFacts
    from holdfast.schemas.errors import ErrorCode
    from holdfast.schemas.internal.solution import Solution
    from holdfast.schemas.log_entry import NoticeEntry

from holdfast.workflows.commands import activity_options, failures
from holdfast.workflows.commands.page_prefetch import hand_over
from holdfast.workflows.engine.budget.reservations import NothingLeft, hold_request
from holdfast.workflows.engine.call.outcome import Failed, Outcome, fail, refuse
from holdfast.workflows.engine.call.tool_call import ToolCall
from holdfast.workflows.engine.execution_base import ExecutionBase
from holdfast.workflows.engine.model.latent_calls import Latent
from holdfast.workflows.engine.run import Run
from holdfast.workflows.publishing import summaries

AtWork = Callable[[Coroutine[Any, Any, Any]], Awaitable[Any]]


async def answer(
    call: ToolCall, turn: int, work: ExecutionBase, facts: WorkerFacts, at_work: AtWork
) -> Outcome:
    """Have the model answer a call: once more where its answer does not fit."""
    assert isinstance(work, Run)  # a single call is of no tool that a model answers
    latent = work.pages.latents[call.id] = Latent(call, work.agent, work.state)
    try:
        while True:
            said = await _request(latent, call, turn, work, facts, at_work)
            outcome = latent.answered(said) if isinstance(said, Solution) else said
            if outcome is not None:
                return outcome
    finally:
        del work.pages.latents[call.id]


async def _request(
    latent: Latent, call: ToolCall, turn: int, run: Run, facts: WorkerFacts, at_work: AtWork
) -> Solution | Outcome:
    """One request, on the run's budget; or why there is no answer."""
    meter, now = run.state.meter, workflow.now()
    try:
        hold_request(meter, now, call.id)
    except NothingLeft as error:
        return refuse(ErrorCode.BLOCKED, f"`{call.name}` was not answered: {error}")
    pointer = latent.pointer(turn)
    line = summaries.answer_summary(turn, call)
    config = activity_options.generate(run, facts, line, meter.remaining(now))
    config["activity_id"] = names.answer_id(call.id, latent.requests)
    hand_over(pointer, latent.page)
    try:
        said = await at_work(workflow.execute_activity(names.GENERATE, pointer.to_json(), **config))
    except ActivityError as error:
        if workflow.cancellation_reason() is not None:
            raise asyncio.CancelledError from error
        return _unanswered(call, run, error)
    finally:
        meter.held.pop(call.id, None)
    solution = Solution.read(said)
    run.charged(solution)
    return solution


def _unanswered(call: ToolCall, run: Run, error: ActivityError) -> Failed:
    """The model could not be asked: people read why, the model itself that there is no answer."""
    if run.state.meter.out_of_time:
        return fail(ErrorCode.TIMEOUT, f"`{call.name}` was not answered in time.")
    why = failures.model_failure_of(error)
    run.state.log.append(NoticeEntry(text=f"{call.id} was not answered: {why}"))
    return fail(ErrorCode.TOOL_ERROR, f"`{call.name}` could not be answered now.")
