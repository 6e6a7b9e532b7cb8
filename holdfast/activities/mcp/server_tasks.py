"""The requests about a task that a server runs in place of a call: its state, answers, its end."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal

from mcp import Client, MCPError
from mcp_types import (
    CallToolResult,
    ElicitResult,
    InputRequiredResult,
    Request,
    RequestParams,
    Result,
)
from pydantic import TypeAdapter

from holdfast.runtime.mcp.errors import NoResultError, ServerUnreachableError, quote
from holdfast.runtime.mcp.received import fitted
from holdfast.schemas.internal.mcp_input import McpTask
from holdfast.schemas.names import ErrorCode

MAX_POLL_MS: Final = 24 * 3600 * 1000.0
_STATE: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])
Found = dict[str, Any]


class TaskResult(Result):
    """The reply to a call that the server runs as a task."""

    result_type: Literal["task"]
    task_id: str
    poll_interval_ms: float | None = None

    @property
    def task(self) -> McpTask:
        """Return the task as a run follows it."""
        return McpTask(id=self.task_id, poll_ms=_poll_ms(self.poll_interval_ms))


class _Params(RequestParams):
    task_id: str
    input_responses: dict[str, ElicitResult] | None = None


class _TaskRequest(Request[_Params, str]):
    name_param = "taskId"


async def request_state(
    task: McpTask, request: Callable[[Callable[[Client], Awaitable[Found]]], Awaitable[Found]]
) -> CallToolResult | InputRequiredResult | McpTask:
    """Make the next request about a task; return it if it is running, or did not answer.

    Raises:
        NoResultError: it failed, or the server does not know it.
        ValidationError: its result does not fit the protocol.
    """

    async def send(client: Client) -> Found:
        async def ask(method: str, **more: Any) -> Found:
            params = _Params(task_id=task.id, **more)
            made = _TaskRequest(method=method, params=params)
            # A type of the library is only for models.
            return await client.session.send_request(made, _STATE)  # type: ignore[type-var]

        if task.cancel:
            return await ask("tasks/cancel")
        if task.responses:
            await ask("tasks/update", input_responses=task.responses)
        return await ask("tasks/get")

    try:
        found = await request(send)
    except (ServerUnreachableError, ConnectionResetError):
        return task
    except MCPError as error:
        raise NoResultError(
            f"its task is lost: {quote(error.message)}", ErrorCode.OUTCOME_UNKNOWN
        ) from None
    return _read(found, task)


def _read(found: Found, task: McpTask) -> CallToolResult | InputRequiredResult | McpTask:
    match found:
        case {"status": "completed", "result": result}:
            result = fitted(result) if isinstance(result, dict) else result
            return CallToolResult.model_validate(result, by_name=False)
        case {"status": "failed" | "cancelled" as status, **more}:
            error = more.get("error")
            why = error.get("message") if isinstance(error, Mapping) else more.get("statusMessage")
            raise NoResultError(f"its task ended as {status}: {why or 'no reason'}")
        case {"status": "input_required", "inputRequests": dict(asked)}:
            new = {key: each for key, each in asked.items() if key not in task.answered}
            if new:
                return InputRequiredResult.model_validate({"inputRequests": new}, by_name=False)
    poll_ms = _poll_ms(found.get("pollIntervalMs"))
    return task.model_copy(update={"responses": {}, "poll_ms": poll_ms})


def _poll_ms(value: Any) -> float:
    # In this order, not a number is 0.
    return min(max(0.0, value), MAX_POLL_MS) if isinstance(value, int | float) else 0.0
