"""The activity `call_mcp_tool`: one call of a tool of an MCP server, or a request about its task.

A server's reply is the content of an `Envelope`, so that none can be taken for one, or for a
message. A server that cannot be reached has not run the call; if it may have, and no answer came,
the interceptor `once.py` makes the error an unknown outcome where the call may run once. A server
may run a task in place of a call: the requests about it read its state, send answers, or end it.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, Literal

import mcp_types as types
from mcp import Client, MCPError
from pydantic import TypeAdapter, ValidationError
from temporalio import activity

from holdfast.activities.mcp.held_calls import HELD_CALL, HeldCall
from holdfast.activities.mcp.servers import McpServers
from holdfast.runtime.http_post import request_error
from holdfast.runtime.mcp.errors import NoResultError, ServerUnreachableError, quote
from holdfast.runtime.mcp.input_forms import MAX_NAME_CHARACTERS, read_forms
from holdfast.runtime.mcp.received import fitted
from holdfast.runtime.text_safety import name_in_line
from holdfast.schemas import names
from holdfast.schemas.internal.mcp_input import INPUT_REQUIRED, TASK, McpContinuation, McpTask
from holdfast.schemas.message import ImagePart, TextPart
from holdfast.schemas.names import ErrorCode
from holdfast.schemas.tool import ACTIVITY_TIMEOUT, McpCall, McpTool

# A server may return a state alone, and is then called again at once, after these pauses.
STATE_PAUSES_SECONDS = (0.05, 0.2, 0.5, 1.0, 2.0)
MAX_POLL_MS: Final = 24 * 3600 * 1000.0
_STATE: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])
Found = dict[str, Any]
State = types.CallToolResult | types.InputRequiredResult | McpTask
_error = partial(request_error, ErrorCode.TOOL_ERROR)


class TaskResult(types.Result):
    """The reply to a call that the server runs as a task."""

    result_type: Literal["task"]
    task_id: str
    poll_interval_ms: float | None = None

    @property
    def task(self) -> McpTask:
        return McpTask(id=self.task_id, poll_ms=_poll_ms(self.poll_interval_ms))


class _Params(types.RequestParams):
    task_id: str
    input_responses: dict[str, types.ElicitResult] | None = None


class _TaskRequest(types.Request[_Params, str]):
    name_param = "taskId"


async def request_state(
    task: McpTask, request: Callable[[Callable[[Client], Awaitable[Found]]], Awaitable[Found]]
) -> State:
    """Make the next request about a task of a server; return it if it runs, or did not answer.

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


def _read(found: Found, task: McpTask) -> State:
    match found:
        case {"status": "completed", "result": result}:
            result = fitted(result) if isinstance(result, dict) else result
            return types.CallToolResult.model_validate(result, by_name=False)
        case {"status": "failed" | "cancelled" as status, **more}:
            error = more.get("error")
            why = error.get("message") if isinstance(error, Mapping) else more.get("statusMessage")
            raise NoResultError(f"its task ended as {status}: {why or 'no reason'}")
        case {"status": "input_required", "inputRequests": dict(asked)}:
            new = {key: each for key, each in asked.items() if key not in task.answered}
            if new:
                return types.InputRequiredResult.model_validate(
                    {"inputRequests": new}, by_name=False
                )
    poll_ms = _poll_ms(found.get("pollIntervalMs"))
    return task.model_copy(update={"responses": {}, "poll_ms": poll_ms})


def _poll_ms(value: Any) -> float:
    # In this order, not a number is 0.
    return min(max(0.0, value), MAX_POLL_MS) if isinstance(value, int | float) else 0.0


Reply = types.CallToolResult | types.InputRequiredResult | TaskResult
_REPLY: TypeAdapter[Reply] = TypeAdapter(Reply)


class CallMcpToolActivity:
    """Calls the tools of one worker's MCP servers."""

    def __init__(self, servers: McpServers) -> None:
        self._servers = servers

    @activity.defn(name=names.CALL_MCP_TOOL)
    async def call_mcp_tool(
        self, arguments: dict[str, Any], tool: dict[str, Any], call: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the result of a `McpCall` of a `McpTool`, as an `Envelope`, or what it requires.

        Raises:
            ApplicationError: the tool failed, or was not run.
            ConnectionResetError: the server may have run it, and no answer came.
        """
        reference = McpTool.read(tool)
        name = name_in_line(reference.tool, MAX_NAME_CHARACTERS)
        where = f"MCP server `{reference.server}`, tool `{name}`"
        try:
            result = await self._reply(reference, arguments, McpCall.read(call))
            if isinstance(result, types.InputRequiredResult):
                return {INPUT_REQUIRED: read_forms(result).to_json()}
        except NoResultError as error:
            raise request_error(error.code, f"{where}: {error}") from None
        except ServerUnreachableError as error:
            message = f"{where}: the call was not made: {error}"
            raise _error(message, retried=True) from None
        except ConnectionResetError as error:
            raise type(error)(f"{where}: {error}") from None
        except ValidationError:
            message = f"{where}: it was run, and its result does not fit the protocol"
            raise _error(message) from None
        except MCPError as error:
            is_misfit = error.code == types.INVALID_PARAMS
            kind = names.INVALID_ARGUMENTS if is_misfit else ErrorCode.TOOL_ERROR
            raise request_error(kind, f"{where}: {error.message}") from None
        if isinstance(result, McpTask):
            return {TASK: result.to_json()}
        content = _content(result, is_object=reference.structured and not result.is_error)
        if result.is_error:
            raise _error(_as_text(content) or f"{where}: it failed, and reported no reason")
        return {"_result": {"content": content}}

    async def _reply(self, tool: McpTool, arguments: dict[str, Any], call: McpCall) -> State:
        """Make or continue a call; one that may be made again is, if its state was refused."""
        if call.task is not None and call.task.id.startswith(HELD_CALL):
            found: State = await self._servers.held_calls.request_state(call.task)
            return found
        longest = activity.info().start_to_close_timeout or ACTIVITY_TIMEOUT
        request = partial(self._servers.request, tool.server, call, longest.total_seconds())
        if call.task is not None:
            return await request_state(call.task, request)
        meta: Any = {names.MCP_IDEMPOTENCY_KEY: call.idempotency_key}
        params = types.CallToolRequestParams(name=tool.tool, arguments=arguments, meta=meta)
        send, given = partial(self._send, request, params), call.continuation
        try:
            result = await send(given)
        except MCPError as error:
            if given is None or given.state is None or error.code != types.INVALID_PARAMS:
                raise
            if not given.may_repeat:
                why = f"it no longer accepts the state of the call: {quote(error.message)}"
                raise NoResultError(why, ErrorCode.OUTCOME_UNKNOWN) from None
            result = await send(None)
            if (
                isinstance(result, types.InputRequiredResult)
                and read_forms(result).digest == given.forms
            ):
                result = await send(given.model_copy(update={"state": result.request_state}))
        for pause_seconds in STATE_PAUSES_SECONDS:
            if not isinstance(result, types.InputRequiredResult) or result.input_requests:
                break
            await asyncio.sleep(pause_seconds)
            result = await send(McpContinuation(state=result.request_state, responses={}, forms=""))
        return result.task if isinstance(result, TaskResult) else result

    async def _send(
        self,
        request: Callable[[Callable[[Client], Awaitable[Reply]]], Awaitable[Reply]],
        params: types.CallToolRequestParams,
        given: McpContinuation | None,
    ) -> Reply | McpTask:
        """Make a call once; it is a task if the server waits for a person within it."""
        if given is not None:
            answers = {key: types.ElicitResult(**each) for key, each in given.responses.items()}
            continued = {"input_responses": answers or None, "request_state": given.state}
            params = params.model_copy(update=continued)

        async def send(held: HeldCall, client: Client) -> Reply:
            held.session = client.session
            # Not by `Client.call_tool`: that sends a call again after some errors, and lists the
            # tools again to check a result, which the run does by what it has pinned.
            return await client.session.send_request(types.CallToolRequest(params=params), _REPLY)

        return await self._servers.held_calls.reply(lambda held: request(partial(send, held)))


def _content(result: types.CallToolResult, *, is_object: bool) -> Any:
    """Return the structured content if it is wanted, or all: else one text, or several parts."""
    if "structured_content" in result.model_fields_set and (is_object or not result.content):
        return result.structured_content
    # Texts and images: `received.fitted` leaves no others.
    match result.content:
        case []:
            return ""
        case [types.TextContent(text=text)]:
            return text
    return [
        ImagePart(data=block.data, media_type=block.mime_type).to_json()
        if isinstance(block, types.ImageContent)
        else TextPart(text=getattr(block, "text", "")).to_json()
        for block in result.content
    ]


def _as_text(content: Any) -> str:
    match content:
        case str():
            return content
        case list():
            return "\n".join(each.get("text", "[image, not shown]") for each in content)
    return json.dumps(content)
