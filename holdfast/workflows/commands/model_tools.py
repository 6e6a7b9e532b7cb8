"""Execute calls that the model itself answers, each by a request of its own."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from temporalio import workflow
from temporalio.exceptions import ActivityError
from temporalio.workflow import ActivityConfig

with workflow.unsafe.imports_passed_through():
    from holdfast.schemas import names
    from holdfast.schemas.internal.model_request import (
        HAND_OVER,
        ConversationPage,
        ConversationPageRequest,
        ConversationPointer,
    )
    from holdfast.schemas.internal.solution import Solution
    from holdfast.schemas.names import ErrorCode

from holdfast.workflows.commands import activity_options
from holdfast.workflows.engine.budget.meter import BudgetExhausted
from holdfast.workflows.engine.call.tool_call import Outcome, ToolCall, fail, refuse
from holdfast.workflows.engine.model.latent_calls import Latent
from holdfast.workflows.engine.model.model_choice import TOO_LONG
from holdfast.workflows.engine.run import AgentRun
from holdfast.workflows.input import model_failure_message

if TYPE_CHECKING:
    from holdfast.workflows.commands.step_executor import StepExecutor

AnswerPage = Callable[[ConversationPageRequest], ConversationPage]


async def execute_model_tool(call: ToolCall, turn: int, executor: "StepExecutor") -> Outcome:
    """Let the model answer a call, a second time if the answer does not fit."""
    work = executor.work
    assert isinstance(work, AgentRun)  # a single call never has a tool that a model answers
    meter = work.state.meter
    latent = work.settings.latents[call.id] = Latent(call, work.agent, work.state)
    try:
        while True:
            now = workflow.now()
            try:
                meter.hold_request(call.id)
            except BudgetExhausted as error:
                return refuse(ErrorCode.BLOCKED, f"`{call.name}` was not answered: {error}")
            model = work.agent.own_model
            pointer = latent.pointer(turn, model)
            what = f"the model answers {call.tool.label or call.tool.name}"
            line = activity_options.turn_summary(turn, what, call.arguments)
            left = meter.remaining(now)
            config = activity_options.model_request_config(work, model, executor.facts, line, left)
            config["activity_id"] = names.answer_id(call.id, latent.requests)
            try:
                solution = await request_model(pointer, config, latent.page, executor)
            except ActivityError as error:
                if meter.out_of_time:
                    return fail(ErrorCode.TIMEOUT, f"`{call.name}` was not answered in time.")
                failure: str | None = model_failure_message(error)
            else:
                is_answer = work.requests.charge_answer(solution, model)
                if not is_answer and work.requests.next_model(TOO_LONG, failed=model):
                    continue
                failure = latent.failure(solution)
            finally:
                meter.held.pop(call.id, None)
            if failure is not None:
                if work.requests.next_model(failure, failed=model):
                    continue
                # The reason goes to the log, not to the model.
                work.state.log.add_notice(f"{call.id} was not answered: {failure}")
                return fail(ErrorCode.TOOL_ERROR, f"`{call.name}` could not be answered now.")
            outcome = latent.answered(solution)
            if outcome is not None:
                return outcome
    finally:
        del work.settings.latents[call.id]


async def request_model(
    pointer: ConversationPointer, config: ActivityConfig, page: AnswerPage, executor: "StepExecutor"
) -> Solution:
    """Make one request, and offer its page to the process, if that accepts it."""
    take, info = workflow.extern_functions().get(HAND_OVER), workflow.info()
    if take is not None and not workflow.unsafe.is_replaying():
        take((info.workflow_id, info.run_id), pointer, page, "task_queue" in config)
    request = workflow.execute_activity(names.GENERATE, pointer.to_json(), **config)
    return Solution.read(await executor.on_run_time(request))
