"""Build the arguments, the options and the summaries of activities, timers and delegates.

Temporal's UI shows a summary; it does not show event groups yet, so a summary begins with its turn.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import Priority, RetryPolicy
from temporalio.workflow import ActivityConfig, LocalActivityConfig

with workflow.unsafe.imports_passed_through():
    from holdfast.schemas import names
    from holdfast.schemas.agent import ModelSettings, WorkerFacts
    from holdfast.schemas.base import parse_duration
    from holdfast.schemas.internal.mcp_input import McpTask
    from holdfast.schemas.internal.model_request import ConversationPointer
    from holdfast.schemas.reference import argument_path, value_at
    from holdfast.schemas.run import CallContext, CallPrincipal
    from holdfast.schemas.tool import ACTIVITY_TIMEOUT, ActivityBinding, McpCall, Retry

from holdfast.workflows.engine.call.activities import Hook, call_view
from holdfast.workflows.engine.call.states import ToolCall
from holdfast.workflows.engine.conversation.scopes import CONTEXT, visible_messages
from holdfast.workflows.engine.execution_base import ExecutionBase
from holdfast.workflows.engine.run import AgentRun
from holdfast.workflows.engine.run_state import RunState
from holdfast.workflows.ui_details.markdown import arguments_line, one_line

# The timeline cuts the beginning of a longer one.
MAX_SUMMARY_CHARACTERS = 80

SCHEDULE_TO_CLOSE = parse_duration("24h")
# The longest wait of a request for a rate-limited endpoint.
TURN_TO_COME = parse_duration("24h")
# The whole turn waits for a hook.
HOOK_TO_CLOSE = parse_duration("10m")
# One request about a task of an MCP server, with the wait for a worker.
TASK_REQUEST = parse_duration("2m")
MAX_INPUT_BYTES = 1_500_000
# An activity may outlast its run's time by this: the run's own timer reports the end.
OVERTIME = parse_duration("10s")

# Errors that another attempt would only repeat.
_FINAL_ERRORS = (names.STOP_RUN, names.ACTIVITY_NOT_FOUND, names.RESULT_TOO_LARGE)


def activity_arguments(
    call: ToolCall,
    binding: ActivityBinding,
    work: ExecutionBase,
    run_id: str,
    task: McpTask | None = None,
) -> list[Any]:
    """Return the arguments of a tool's activity.

    They are the model's arguments, whole or by place, or the call, the tool and the call's context.
    An activity of the worker itself also receives values that no model may choose.
    """
    tool, state = call.tool, work.state
    if tool.knowledge is not None and tool.knowledge.kind != "activity":
        return [tool.knowledge.to_json()]
    principal = state.principal.id if state.principal is not None else None
    if tool.memory is not None:
        owner = tool.memory.model_copy(update={"principal": principal})
        return [call.arguments, owner.to_json()]
    if tool.mcp is not None:
        key, mcp = f"{run_id}/{call.id}", call.decided.mcp
        more = {"continuation": mcp.continuation} if task is None else {"task": task}
        own = McpCall(idempotency_key=key, principal=principal, **more)
        return [call.arguments if task is None else {}, tool.mcp.to_json(), own.to_json()]
    if binding.input == "arguments":
        return [call.arguments]
    if isinstance(binding.input, dict):
        return [{key: _argument(call, path) for key, path in binding.input.items()}]
    data, instance = call.prepared.visible_data or state.data, call.meta.instance
    scopes = {
        scope: visible_messages(state.log.messages(), instance, state)
        if scope == CONTEXT
        else data.visible_value(scope, instance)
        for scope in call.meta.scopes
    }
    context = CallContext(
        run_id=run_id,
        call_id=call.id,
        idempotency_key=f"{run_id}/{call.id}",
        agent=work.agent_name,
        instance=instance,
        principal=_principal(state),
        approver=call.prepared.approver or work.questions.remembered_approver(call),
    )
    if isinstance(binding.input, list):
        values = {path: _argument(call, path) for path in binding.input}
        if CallContext.key in values:
            values[CallContext.key] = context.model_copy(update={"data": scopes}).to_json()
        return [values[path] for path in binding.input]
    scopes[CallContext.key] = context.to_json()
    return [call_view(call), tool.to_json(), scopes]


def _principal(state: RunState) -> CallPrincipal | None:
    whose = state.principal
    return None if whose is None else CallPrincipal(id=whose.id, scopes=state.scopes())


def hook_arguments(hook: Hook, state: RunState, run_id: str) -> list[Any]:
    """Return the arguments of a hook around an answer of the model, with whose run it is."""
    [view], whose = hook.arguments, _principal(state)
    principal = None if whose is None else whose.model_dump(mode="json", by_alias=True)
    return [{**view, "runId": run_id, "principal": principal}]


def _argument(call: ToolCall, path: str) -> Any:
    """Return what is at a place in the arguments, with their defaults; None if nothing is."""
    place = argument_path(path)
    return None if place is None else value_at(call.arguments, place.steps)


def activity_config(
    call: ToolCall, binding: ActivityBinding, line: str, remaining: timedelta | None
) -> ActivityConfig:
    """Return the options of a tool's activity on a task queue.

    A call that may run only once has one attempt, and a separate schedule-to-start timeout, so that
    a call that never started is recognized.
    """
    config = queued_config(call.id, binding, line, SCHEDULE_TO_CLOSE, remaining)
    if call.tool.once:
        config["retry_policy"] = _retry(binding.retry, once=True)
        config["schedule_to_start_timeout"] = config.pop("schedule_to_close_timeout")
    return config


def task_config(call: ToolCall, binding: ActivityBinding, id: str) -> ActivityConfig:
    """Return the options of a request about the task of a call, which has one attempt."""
    config = queued_config(id, binding, summary(f"The task of {call.label}"), TASK_REQUEST, None)
    config["retry_policy"] = _retry(binding.retry, once=True)
    config["schedule_to_close_timeout"] = TASK_REQUEST
    return config


def queued_config(
    id: str, binding: ActivityBinding, line: str, longest: timedelta, remaining: timedelta | None
) -> ActivityConfig:
    """Return the options of an activity that may be retried, as a hook may."""
    longest = _least(binding.schedule_to_close_timeout or longest, remaining)
    return ActivityConfig(
        activity_id=id,
        summary=line,
        task_queue=binding.task_queue,
        start_to_close_timeout=binding.start_to_close_timeout or min(ACTIVITY_TIMEOUT, longest),
        schedule_to_close_timeout=longest,
        heartbeat_timeout=binding.heartbeat_timeout,
        retry_policy=_retry(binding.retry),
    )


def local_activity_config(
    id: str, binding: ActivityBinding, line: str, remaining: timedelta | None
) -> LocalActivityConfig:
    """Return the options of a short, repeatable activity, which runs within the workflow task."""
    longest = _least(binding.schedule_to_close_timeout or SCHEDULE_TO_CLOSE, remaining)
    return LocalActivityConfig(
        activity_id=id,
        summary=line,
        schedule_to_close_timeout=longest,
        start_to_close_timeout=binding.start_to_close_timeout or min(ACTIVITY_TIMEOUT, longest),
        retry_policy=_retry(binding.retry),
    )


def model_request_config(
    run: AgentRun, model: ModelSettings, facts: WorkerFacts, line: str, remaining: timedelta | None
) -> ActivityConfig:
    """Return the options of a request to a model: retried for as long as the worker allows.

    If its endpoint has a rate limit, the request waits in the endpoint's task queue among those of
    all runs, and that time is not counted.
    """
    config = ActivityConfig(
        summary=line,
        schedule_to_close_timeout=_least(facts.generate_timeout, remaining),
        heartbeat_timeout=facts.heartbeat_timeout,
        retry_policy=RetryPolicy(
            initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=60)
        ),
    )
    if (queue := facts.request_queues.get(model.endpoint)) is not None:
        longest = TURN_TO_COME + facts.generate_timeout
        config["task_queue"] = queue
        # Requests are distributed evenly among principals, or else agents.
        principal = run.state.principal
        key = names.fairness_key(run.agent.name if principal is None else principal.id)
        config["priority"] = Priority(fairness_key=key)
        config["schedule_to_start_timeout"] = _least(TURN_TO_COME, remaining)
        config["start_to_close_timeout"] = config["schedule_to_close_timeout"]
        config["schedule_to_close_timeout"] = _least(longest, remaining)
    return config


def _retry(retry: Retry, *, once: bool = False) -> RetryPolicy:
    return RetryPolicy(
        initial_interval=retry.initial_interval or timedelta(seconds=1),
        backoff_coefficient=retry.backoff_coefficient or 2.0,
        maximum_interval=retry.maximum_interval or timedelta(seconds=60),
        maximum_attempts=1 if once else retry.maximum_attempts or 5,
        non_retryable_error_types=list(
            dict.fromkeys((*_FINAL_ERRORS, *retry.non_retryable_error_types))
        ),
    )


def _least(duration: timedelta, bound: timedelta | None) -> timedelta:
    return duration if bound is None else min(duration, bound + OVERTIME)


def summary(text: str) -> str:
    """Return one line for a timeline or a list, which show it as plain text."""
    return one_line(text, MAX_SUMMARY_CHARACTERS)


def turn_summary(turn: int, text: str, arguments: Mapping[str, Any]) -> str:
    """Return one line for a timeline: the turn, the text, and the arguments that fit."""
    shown = arguments_line(arguments, MAX_SUMMARY_CHARACTERS)
    where = f"Turn {turn}" if turn else ""
    return summary(": ".join(filter(None, (where, text, shown))))


def model_summary(pointer: ConversationPointer, model: ModelSettings) -> str:
    """Summarize a request to a model."""
    what = "decides what to do"
    if pointer.summary:
        what = f"sums up the conversation so far, entries 1 to {pointer.upto}"
    return turn_summary(pointer.turn, f"the model {what} ({model.name or model.endpoint})", {})


def call_summary(turn: int, call: ToolCall) -> str:
    """Summarize an executed call: the decision on it, and the arguments that fit.

    The timeline shows the activity's name before it, so a tool without a label is not named twice.
    """
    bound = call.tool.activity
    same = call.tool.label is None and bound is not None and call.tool.name == bound.type
    name = "" if same else call.tool.label or call.tool.name
    return turn_summary(
        turn, ", ".join(filter(None, (name, call.prepared.decision))), call.arguments
    )
