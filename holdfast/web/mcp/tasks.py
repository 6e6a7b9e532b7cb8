"""Runs as tasks: the extension `io.modelcontextprotocol/tasks`, whose task ids are ids of runs.

A client that declares it receives a task for a call that does not finish at once, and polls it. No
process holds anything of a task: it is its run.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import mcp_types as types
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel
from temporalio.client import WorkflowExecutionDescription

from holdfast.client.errors import HasEndedError, HoldfastError
from holdfast.client.run import Run
from holdfast.schemas.base import rfc3339
from holdfast.schemas.settings.keys import KeyRight
from holdfast.web.mcp.callers import Caller
from holdfast.web.mcp.run_results import ApprovalForms, RunResults, person_to_ask

EXTENSION: Final = "io.modelcontextprotocol/tasks"
# A run that ends sooner is no task.
TASK_AFTER_SECONDS: Final = 2.0
POLL_INTERVAL_MS: Final = 2_000

Context = ServerRequestContext[Any, Any]


class TaskParams(types.RequestParams):
    """The task of a request."""

    task_id: str


class UpdateParams(TaskParams):
    """Answers to the forms of a task."""

    input_responses: types.InputResponses


def declares_tasks(ctx: Context) -> bool:
    """Return whether the client can be answered with a task."""
    declared = ctx.session.client_capabilities
    known = (declared.extensions if declared else None) or {}
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS and EXTENSION in known


def task_of(found: WorkflowExecutionDescription) -> dict[str, Any]:
    """Return a run as a task that is working."""
    return {
        "taskId": found.id,
        "status": "working",
        "createdAt": rfc3339(found.start_time),
        "lastUpdatedAt": rfc3339(found.close_time or datetime.now(UTC)),
        "ttlMs": None,
        "pollIntervalMs": POLL_INTERVAL_MS,
    }


@dataclass(frozen=True)
class RunTasks:
    """Answers requests about tasks; `open_run` returns a run of the caller with a right on it."""

    open_run: Callable[[str, Caller, KeyRight], Awaitable[Run]]
    find_caller: Callable[[], Caller]
    forms: ApprovalForms
    results: RunResults

    def add_to(self, server: Server[Any]) -> None:
        """Have a server answer requests about tasks."""
        server.extensions[EXTENSION] = {}
        server.add_request_handler("tasks/get", TaskParams, self.get)
        server.add_request_handler("tasks/update", UpdateParams, self.update)
        server.add_request_handler("tasks/cancel", TaskParams, self.cancel)

    async def get(self, ctx: Context, params: TaskParams) -> dict[str, Any]:
        """Return a task, with its forms or its result."""
        run, caller = await self._open(ctx, params, "read")
        found = await run.describe()
        task = task_of(found)
        if found.close_time is not None:
            ending = await run.ending()
            if ending.status == "cancelled":
                return task | {"status": "cancelled"}
            return task | {
                "status": "completed",
                "result": _json(self.results.finished(run.id, ending)),
            }
        with suppress(HoldfastError):  # no worker answers now
            asks = person_to_ask(ctx, caller) is not None
            if asks and (forms := await self.forms.requests(run, await run.approvals())):
                requests = {key: _json(each) for key, each in forms.items()}
                return task | {"status": "input_required", "inputRequests": requests}
        state = await self.results.unfinished(run)
        lines = [getattr(each, "text", "") for each in state.content]
        return task | {"statusMessage": "\n".join(lines)}

    async def update(self, ctx: Context, params: UpdateParams) -> dict[str, Any]:
        """Send answers as decisions; those of a client that is not trusted are ignored."""
        run, caller = await self._open(ctx, params, "decide")
        if caller.approver is not None:
            try:
                await self.forms.decide(run, params.input_responses, caller.approver)
            except HoldfastError as error:
                raise MCPError(types.INVALID_PARAMS, str(error)) from None
        return {}

    async def cancel(self, ctx: Context, params: TaskParams) -> dict[str, Any]:
        """Request the cancellation of the run."""
        run, _ = await self._open(ctx, params, "cancel")
        with suppress(HasEndedError):
            await run.cancel()
        return {}

    async def _open(self, ctx: Context, params: TaskParams, right: KeyRight) -> tuple[Run, Caller]:
        if not declares_tasks(ctx):
            required: dict[str, Any] = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
            message = f"the client does not declare {EXTENSION}"
            raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, message, required)
        # The library compares this header of the protocol's own methods alone.
        if ctx.request is not None and (
            decode_header_value(ctx.request.headers.get(MCP_NAME_HEADER)) != params.task_id
        ):
            raise MCPError(
                types.HEADER_MISMATCH, f"the header {MCP_NAME_HEADER} is not the task's id"
            )
        try:
            caller = self.find_caller()
            return await self.open_run(params.task_id, caller, right), caller
        except HoldfastError as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from None


def _json(model: BaseModel) -> dict[str, Any]:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)
