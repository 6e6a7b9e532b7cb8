"""The request of a run, typed by its agent, and a run as a child of another workflow."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Literal, TypedDict, TypeVar, Unpack

from pydantic import BaseModel, ValidationError
from pydantic_core import to_jsonable_python
from temporalio import workflow
from temporalio.exceptions import ApplicationError

from holdfast.definitions.agent import Agent
from holdfast.definitions.json_form import as_written, read_as
from holdfast.definitions.tool import JsonObject
from holdfast.schemas import names
from holdfast.schemas.agent import ToolChoice
from holdfast.schemas.base import Stored
from holdfast.schemas.budget import Budget
from holdfast.schemas.message import ContextMessage, Part
from holdfast.schemas.names import ErrorCode
from holdfast.schemas.run import (
    Conversation,
    Fork,
    Principal,
    PrincipalToken,
    RunRequest,
    RunResult,
)

OutputT = TypeVar("OutputT")
RunInput = str | JsonObject | BaseModel | Sequence[Part] | None


class RequestFields(TypedDict, total=False):
    """The fields of a request beside its agent and its input, as `RunRequest` describes them."""

    context: Sequence[ContextMessage | JsonObject]
    state: JsonObject
    skill: str
    tool_choice: ToolChoice
    budget: Budget | JsonObject
    principal: Principal | PrincipalToken | JsonObject
    approvals: Literal["ask", "deny"]
    conversation: bool | Conversation | JsonObject
    fork: Fork | JsonObject


def run_request(
    agent: Agent[Any] | str | JsonObject, input: RunInput, fields: RequestFields
) -> dict[str, Any]:
    """Return a request as JSON. An `Agent` is named: the worker has its definition."""
    written = {RunRequest.model_fields[name].alias or name: each for name, each in fields.items()}
    return {
        "agent": agent.name if isinstance(agent, Agent) else as_written(agent),
        **({} if input is None else {"input": to_jsonable_python(input)}),
        **{name: as_written(each) for name, each in written.items()},
    }


async def execute_agent(
    agent: Agent[OutputT],
    input: RunInput,
    *,
    id: str | None = None,
    task_queue: str | None = None,
    execution_timeout: timedelta | None = None,
    **fields: Unpack[RequestFields],
) -> OutputT:
    """Run an agent as a child of the current workflow and return its output.

    Raises:
        ChildWorkflowError: the run failed; its cause has the code.
        ApplicationError: the run used up its budget (`budget_exceeded`), or has no output of the
            agent's type that a workflow can read (`invalid_output`).
    """
    value = await workflow.execute_child_workflow(
        names.AGENT_WORKFLOW,
        run_request(agent, input, fields),
        id=id,
        task_queue=task_queue,
        execution_timeout=execution_timeout,
        result_type=dict[str, Any],
    )
    result = RunResult.read(value)
    if result.status == names.BUDGET_EXCEEDED:
        reason = f"the run of agent `{agent.name}` used up its budget: {result.reason}"
        raise ApplicationError(reason, type=names.BUDGET_EXCEEDED)
    if Stored.of(result.output) is not None:
        reason = f"the output of agent `{agent.name}` is in the store, and no workflow reads it"
        raise ApplicationError(reason, type=ErrorCode.INVALID_OUTPUT)
    try:
        return read_as(agent.output_type, result.output)
    except ValidationError as error:
        wrong = f"the run of agent `{agent.name}` is {result.status}; its output does not fit"
        raise ApplicationError(f"{wrong}: {error}", type=ErrorCode.INVALID_OUTPUT) from error
