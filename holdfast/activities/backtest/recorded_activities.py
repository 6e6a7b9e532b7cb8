"""The activities `recorded_call` and `recorded_hook`: a tool or a hook, from a recorded run.

What the record does not have ends the backtest, or is filled in: the model simulates the tool, or a
tool that changes nothing is called on the workers of production. No effect is ever run.
"""

import asyncio
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Literal

from temporalio import activity
from temporalio.client import Client, WorkflowFailureError
from temporalio.common import RawValue, WorkflowIDConflictPolicy
from temporalio.exceptions import ApplicationError, TimeoutType
from temporalio.exceptions import TimeoutError as ActivityTimeout
from temporalio.service import RPCError

from holdfast.runtime.backtest.recorded_answers import RecordedAnswers
from holdfast.runtime.backtest.run_record import (
    End,
    MissingAnswer,
    call_key,
    hook_key,
    turn_in,
)
from holdfast.schemas import names
from holdfast.schemas.agent import ModelSettings
from holdfast.schemas.run import RunResult
from holdfast.schemas.tool import ResolvedTool

Missing = Literal["stop", "simulate", "live-reads"]
# Of a simulation and of a read: no worker may be there to end them.
LONGEST: Final = timedelta(minutes=10)
# The heartbeat timeout of the tools that have timed out in a recorded run.
TIMED_OUT: Final = timedelta(seconds=3)
_SIMULATED: Final = "simulated-tool"
_SIMULATE: Final = (
    "You simulate the tool `{name}` in a test; nothing real happens. Answer each call with a"
    " plausible result of the tool and with nothing else. What the tool does: {description}"
)


@dataclass(frozen=True)
class FillIn:
    """What becomes of what a record does not have.

    `reads` are the tools whose definition states that they change nothing. They are called on
    `task_queue`, on behalf of the `principal` who starts the backtest.
    """

    missing: Missing = "stop"
    task_queue: str = names.TASK_QUEUE
    reads: Collection[str] = ()
    principal: dict[str, Any] | None = None


class RecordedActivities:
    """Answers for the tools and hooks of backtests, by their workflow ids."""

    def __init__(
        self, client: Client, backtests: Mapping[str, RecordedAnswers], fill_in: FillIn
    ) -> None:
        self._client, self._backtests, self._fill_in = client, backtests, fill_in

    @activity.defn(name=names.RECORDED_CALL)
    async def recorded_call(self, first: Any, second: Any = None, third: Any = None) -> Any:
        """Return or raise what an equal call of the record did."""
        answers, id = self._of_run(), activity.info().activity_id
        tool, arguments = _called(answers, first, second)
        end = answers.end_of_call(id, call_key(tool.name, arguments))
        if end is not None:
            return await _outcome(end)
        missing = MissingAnswer(turn_in(id), tool.name, arguments)
        fill_in = self._fill_in
        is_read = tool.name in fill_in.reads and not tool.side_effects
        is_read = is_read and tool.name not in answers.record.effects
        if fill_in.missing == "simulate" and answers.agent is not None and answers.agent.model:
            request = _simulation(tool, arguments, answers.agent.model)
            queue, workflow, what = activity.info().task_queue, names.BACKTEST_WORKFLOW, "simulated"
        elif fill_in.missing == "live-reads" and is_read:
            request = {"tool": tool.name, "arguments": arguments, "approvals": "deny"}
            request |= {} if fill_in.principal is None else {"principal": fill_in.principal}
            queue, workflow, what = fill_in.task_queue, names.CALL_WORKFLOW, "read"
        else:
            raise _stopped(answers, missing)
        answers.findings.filled_in.append(missing)
        result = await self._run(workflow, request, what, queue, answers)
        answers.findings.cost += result.usage.cost or 0.0
        # A value, also where it has the form of an envelope.
        return {"_result": {"content": result.output}}

    @activity.defn(name=names.RECORDED_HOOK)
    async def recorded_hook(self, first: Any, second: Any = None) -> Any:
        """Return or raise what an equal use of a hook in the record did.

        A hook that the record does not have lets everything pass, unless that ends the backtest.
        """
        answers, id = self._of_run(), activity.info().activity_id
        name = "".join(one for one in id.rpartition("-")[2] if not one.isdigit())
        arguments = [first] if second is None else [first, second]
        end = answers.end_of_hook(id, hook_key(name, arguments))
        if end is not None:
            return await _outcome(end)
        # Of a hook around the model, the conversation.
        shown = first if names.call_of(id) else None
        missing = MissingAnswer(turn_in(id), f"_{name}", shown)
        # A case of a suite states no hooks.
        if self._fill_in.missing == "stop" and answers.record.snapshot is not None:
            raise _stopped(answers, missing)
        answers.findings.filled_in.append(missing)
        return first if name in ("prepare", "repair") else None

    def _of_run(self) -> RecordedAnswers:
        id = activity.info().workflow_id or ""
        if (answers := self._backtests.get(id)) is None:
            raise ApplicationError(f"run {id} is no backtest", type=names.STOP_RUN)
        return answers

    async def _run(
        self,
        workflow: str,
        request: dict[str, Any],
        what: str,
        task_queue: str,
        answers: RecordedAnswers,
    ) -> RunResult:
        """Run what fills in, and return its result, or raise its failure as the tool's."""
        info = activity.info()
        handle = await self._client.start_workflow(
            workflow,
            request,
            id=f"{info.workflow_id}.{info.activity_id}.{what}",
            task_queue=task_queue,
            execution_timeout=LONGEST,
            memo={names.BACKTEST_OF: answers.record.id},
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        )
        try:
            result = asyncio.ensure_future(handle.result())
            while not result.done():
                activity.heartbeat()
                await asyncio.wait([result], timeout=TIMED_OUT.total_seconds() / 3)
            return RunResult.read(await result)
        except WorkflowFailureError as error:
            cause = error.cause
            message = cause.message if isinstance(cause, ApplicationError) else str(cause)
            raise ApplicationError(message, type=names.ErrorCode.TOOL_ERROR) from None
        except asyncio.CancelledError:
            with suppress(RPCError):
                await handle.terminate("the backtest has ended")
            raise


def _called(answers: RecordedAnswers, first: Any, second: Any) -> tuple[ResolvedTool, Any]:
    """Return the tool of a call and its arguments, in what an activity of its kind receives."""
    agent = answers.agent
    assert agent is not None  # it was resolved before its first call
    if isinstance(second, dict) and "parameters" in second:
        return ResolvedTool.read(second), first["arguments"]
    for tool in agent.all_tools:
        if second is None and tool.knowledge is not None and tool.knowledge.to_json() == first:
            return tool, {}
        if isinstance(second, dict) and tool.mcp is not None and tool.mcp.to_json() == second:
            return tool, first
    raise ApplicationError("no tool of the candidate is called so", type=names.STOP_RUN)


async def _outcome(end: End) -> Any:
    """Return a recorded result, or raise a recorded failure, which no attempt repeats."""
    match end:
        case RawValue():
            return end
        case ApplicationError(message=message, type=type_):
            raise ApplicationError(message, *end.details, type=type_, non_retryable=True) from None
        case ActivityTimeout() if end.type is not TimeoutType.SCHEDULE_TO_START:
            # Only the server reports a timeout: it waits for a heartbeat in vain.
            await asyncio.sleep(2 * TIMED_OUT.total_seconds())
    raise ApplicationError(str(end), type="other", non_retryable=True) from None


def _simulation(tool: ResolvedTool, arguments: Any, model: ModelSettings) -> dict[str, Any]:
    description = tool.description or tool.label or tool.name
    agent = {
        "name": _SIMULATED,
        "instructions": _SIMULATE.format(name=tool.name, description=description),
        "model": model.to_json(),
        **({} if tool.output is None else {"output": tool.output}),
    }
    return {"agent": agent, "input": {"tool": tool.name, "arguments": arguments}}


def _stopped(answers: RecordedAnswers, missing: MissingAnswer) -> ApplicationError:
    answers.findings.stop(missing)
    message = f"the record has no call of `{missing.what}` with these arguments"
    return ApplicationError(message, type=names.STOP_RUN, non_retryable=True)
