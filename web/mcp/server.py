"""The handlers of the MCP server.

    call ─► start a run ─► its end, or a pending approval, or 45 seconds ─► result

Each call of an agent or a tool starts a run of the worker, with the worker's rules: the server runs
nothing itself, and stores nothing. So any process can continue what another has started. A call
that is cancelled ends the wait; the run goes on.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp_types import INVALID_PARAMS, CallToolRequestParams, ListToolsResult
from pydantic import ValidationError

from holdfast.client.errors import HoldfastError, NoSuchRunError, invalid_input, wrong_command
from holdfast.client.result import RunEnding
from holdfast.client.run import Run
from holdfast.client.start import REQUEST_MEMO, RunExistsError
from holdfast.schemas.base import Strict, canonical_json, sha256
from holdfast.schemas.log_entry import LogRecord
from holdfast.web.mcp import offered_tools as offered
from holdfast.web.mcp.callers import Caller
from holdfast.web.mcp.run_results import RunResults, approval_key, next_step, tool_result
from holdfast.web.services import Services

KEY_META: Final = "dev.holdfast/idempotencyKey"
MAX_KEY_CHARS: Final = 200
# The owner of a run, in its memo.
OWNER_MEMO: Final = "McpOwner"
INSTRUCTIONS: Final = (
    "Each tool starts a run, which a person may have to approve before it acts. If a run has not"
    " finished, its result has the run's id and where a person decides: show that to the user, and"
    " call `wait_run`. You cannot approve: no tool and no argument is an approval."
)
Context = ServerRequestContext[Any, Any]
ArgumentsT = TypeVar("ArgumentsT", bound=Strict)


class McpHandlers:
    """Answers requests with runs of one worker's agents and tools."""

    def __init__(
        self,
        services: Services,
        tools: Mapping[str, offered.OfferedTool],
        find_caller: Callable[[], Caller],
        inbox: str | None = None,
    ) -> None:
        self._services, self._tools, self._find_caller = services, tools, find_caller
        self._results = RunResults(inbox and inbox.rstrip("/"))

    def server(self, version: str) -> Server[Any]:
        """Return the server of the library."""
        return Server(
            "holdfast",
            version=version,
            instructions=INSTRUCTIONS,
            on_list_tools=self.list_tools,
            on_call_tool=self.call_tool,
        )

    async def list_tools(self, ctx: Context, params: Any) -> ListToolsResult:
        """List the tools."""
        listed = [each.listed for each in self._tools.values()]
        return ListToolsResult(tools=[*listed, *offered.own_tools()])

    async def call_tool(self, ctx: Context, params: CallToolRequestParams) -> Any:
        """Call a tool: start a run, or follow one."""
        caller, name, arguments = self._find_caller(), params.name, params.arguments or {}
        try:
            if name == offered.START:
                start = _read(offered.StartArguments, arguments)
                run = await self._start(ctx, start.tool, start.arguments, caller)
                return await self._results.unfinished(run)
            if name == offered.SHOW:
                run = await self._own_run(_read(offered.ShowArguments, arguments).run, caller)
                if (await run.observe()).closed:
                    return self._results.finished(run.id, await run.ending())
                return await self._results.unfinished(run, with_log=True)
            known, seconds = None, offered.MAX_WAIT_SECONDS
            if name == offered.WAIT:
                wait = _read(offered.WaitArguments, arguments)
                run, seconds = await self._own_run(wait.run, caller), wait.seconds
                known = {approval_key(each) for each in await run.approvals()}
            else:
                run = await self._start(ctx, name, arguments, caller)

            async def report(record: LogRecord, text: str) -> None:
                await ctx.session.report_progress(record.n, message=text)

            step = await next_step(run, seconds, known, report)
            if isinstance(step, RunEnding):
                return self._results.finished(run.id, step)
            return await self._results.unfinished(run)
        except HoldfastError as error:
            return tool_result([str(error)], is_error=True)

    async def _start(
        self, ctx: Context, name: str, arguments: Mapping[str, Any], caller: Caller
    ) -> Run:
        """Start the run of a call; a repeated call with the same key starts none."""
        if name not in self._tools:
            raise MCPError(INVALID_PARAMS, f"there is no tool `{name}`")
        key, run_id, memo = (ctx.meta or {}).get(KEY_META), None, {OWNER_MEMO: caller.owner}
        if key is not None:
            if not isinstance(key, str) or not 0 < len(key) <= MAX_KEY_CHARS:
                raise MCPError(INVALID_PARAMS, f"`{KEY_META}` is no text of 1 to {MAX_KEY_CHARS}")
            memo[REQUEST_MEMO] = sha256(canonical_json(["mcp", key, caller.owner, name, arguments]))
            run_id = f"mcp-{sha256(canonical_json([caller.owner, key]))[:40]}"
        new = self._tools[name].start_request(arguments, caller.principal, memo=memo)
        try:
            return await self._services.client.start_request(new, run_id)
        except RunExistsError:
            todo = "send another key, or the same call"
            raise wrong_command(f"this `{KEY_META}` was sent with another call", todo) from None

    async def _own_run(self, run_id: str, caller: Caller) -> Run:
        """Return a run that the caller has started."""
        run = self._services.client.run(run_id)
        if await (await run.describe()).memo_value(OWNER_MEMO, default=None) != caller.owner:
            raise NoSuchRunError(run_id)
        return run


def _read(model: type[ArgumentsT], arguments: Mapping[str, Any]) -> ArgumentsT:
    try:
        return model.model_validate(arguments)
    except ValidationError as error:
        todo = "see the tool's schema"
        raise invalid_input("call", error, arguments, model, todo) from None
