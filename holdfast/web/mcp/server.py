"""The handlers of the MCP server.

    call ─► start a run ─► its end, or a pending approval, or 45 seconds ─► result

A trusted client shows a pending approval to a person as a form (`input_required`). It then repeats
the call, with the answer and our sealed state, and the answer becomes a decision.

Each call of an agent or a tool starts a run of the worker, with the worker's rules: the server runs
nothing itself, and stores nothing. So any process can continue what another has started. A call
that is cancelled ends the wait; the run continues.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp_types import INVALID_PARAMS, CallToolRequestParams, InputRequiredResult, ListToolsResult

from holdfast.client.errors import NO_SUCH, HoldfastError, NoSuchRunError, wrong_command
from holdfast.client.result import RunEnding
from holdfast.client.run import PendingCall, Run
from holdfast.client.start import REQUEST_MEMO, RunExistsError
from holdfast.schemas import names
from holdfast.schemas.base import canonical_json, sha256
from holdfast.schemas.log_entry import LogRecord
from holdfast.schemas.settings.keys import KeyRight
from holdfast.web.mcp import offered_tools as offered
from holdfast.web.mcp.approval_forms import ApprovalForms, person_to_ask
from holdfast.web.mcp.callers import Caller
from holdfast.web.mcp.run_results import RUN_META, RunResults, approval_key, next_step, tool_result
from holdfast.web.mcp.tasks import TASK_AFTER_SECONDS, RunTasks, declares_tasks, task_of
from holdfast.web.services import Services

KEY_META: Final = names.MCP_IDEMPOTENCY_KEY
MAX_KEY_CHARS: Final = 200
# A run refuses the answer to a question whose own time is over.
MAX_STATE_SECONDS: Final = 366 * 86_400.0
# The owner of a run, in its memo.
OWNER_MEMO: Final = "McpOwner"
INSTRUCTIONS: Final = (
    "Each tool starts a run, which a person may have to approve before it acts. If a run has not"
    " finished, its result has the run's id and where a person decides: show that to the user, and"
    " call `wait_run`. You cannot approve: no tool and no argument is an approval."
)
Context = ServerRequestContext[Any, Any]


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
        self._forms = ApprovalForms(services, self._results)
        self._tasks = RunTasks(self._own_run, find_caller, self._forms, self._results)

    def server(self, version: str, state_keys: Sequence[bytes]) -> Server[Any]:
        """Return the server of the library; processes with the same keys accept the same states."""
        server = Server[Any](
            "holdfast",
            version=version,
            instructions=INSTRUCTIONS,
            on_list_tools=self.list_tools,
            on_call_tool=self.call_tool,
        )
        self._tasks.add_to(server)
        security = RequestStateSecurity(keys=state_keys, ttl=MAX_STATE_SECONDS)
        server.middleware.append(RequestStateBoundary(security, default_audience="holdfast"))
        return server

    async def list_tools(self, ctx: Context, params: Any) -> ListToolsResult:
        """List the tools."""
        listed = [each.listed for each in self._tools.values()]
        return ListToolsResult(tools=[*listed, *offered.own_tools()])

    async def call_tool(self, ctx: Context, params: CallToolRequestParams) -> Any:
        """Call a tool: start a run, or follow one."""
        caller, name, arguments = self._find_caller(), params.name, params.arguments or {}
        try:
            if name == offered.SHOW:
                show = offered.read_arguments(offered.ShowArguments, arguments)
                run = await self._own_run(show.run, caller)
                if (await run.observe()).closed:
                    return self._results.finished(run.id, await run.ending())
                return await self._results.unfinished(run, with_log=True)
            if params.request_state is not None:
                return await self._answer(ctx, params, caller)
            if name == offered.WAIT:
                wait = offered.read_arguments(offered.WaitArguments, arguments)
                run = await self._own_run(wait.run, caller)
                return await self._follow(ctx, run, caller, (), (), wait.seconds)
            if is_detached := name == offered.START:
                start = offered.read_arguments(offered.StartArguments, arguments)
                name, arguments = start.tool, start.arguments
            run = await self._start(ctx, name, arguments, caller)
            if "read" not in caller.may:
                return self._results.started(run.id)
            if is_detached:
                return await self._results.unfinished(run)
            return await self._follow(ctx, run, caller, None)
        except HoldfastError as error:
            return tool_result([str(error)], is_error=True)

    async def _follow(
        self,
        ctx: Context,
        run: Run,
        caller: Caller,
        known: Collection[str] | None,
        notes: Sequence[str] = (),
        seconds: float | None = None,
    ) -> Any:
        """Return the result of a run, or a form of an approval whose key is not `known`."""

        async def report(record: LogRecord, text: str) -> None:
            await ctx.session.report_progress(record.n, message=text)

        seconds = offered.MAX_WAIT_SECONDS if seconds is None else seconds
        is_task = known is None and declares_tasks(ctx)
        if known is not None:  # the run was started before
            pending = {approval_key(each): each for each in await run.approvals()}
            new = [each for key, each in pending.items() if key not in known]
            if form := await self._ask(ctx, run, new, caller):
                return form
            known = {*known, *pending}
        step = await next_step(run, TASK_AFTER_SECONDS if is_task else seconds, known, report)
        if isinstance(step, RunEnding):
            return self._results.finished(run.id, step, notes)
        if is_task:
            task = task_of(await run.describe())
            return {"resultType": "task", "_meta": {RUN_META: run.id}, **task}
        if form := await self._ask(ctx, run, step, caller):
            return form
        return await self._results.unfinished(run, notes)

    async def _ask(
        self, ctx: Context, run: Run, approvals: Sequence[PendingCall], caller: Caller
    ) -> InputRequiredResult | None:
        """Return the forms of approvals for the person at the client; None without any."""
        if (person := person_to_ask(ctx, caller)) is None:
            return None
        if not (forms := await self._forms.requests(run, approvals)):
            return None
        state = json.dumps({"run": run.id, "by": person.name, "asked": [*forms]})
        meta = {RUN_META: run.id}
        return InputRequiredResult(input_requests={**forms}, request_state=state, meta=meta)

    async def _answer(self, ctx: Context, params: CallToolRequestParams, caller: Caller) -> Any:
        """Send the answers of forms to their run, and follow it."""
        state = json.loads(params.request_state or "")
        run = await self._own_run(state["run"], caller)
        if caller.approver is None or caller.approver.name != state["by"]:
            todo = "call `wait_run` for the state of the run"
            raise wrong_command("the form was for another person", todo)
        given, asked = params.input_responses or {}, state["asked"]
        answers = {key: given[key] for key in asked if key in given}
        if not (notes := await self._forms.decide(run, answers, caller.approver)):
            return await self._results.unfinished(run)
        return await self._follow(ctx, run, caller, asked, notes)

    async def _start(
        self, ctx: Context, name: str, arguments: Mapping[str, Any], caller: Caller
    ) -> Run:
        """Start the run of a call; a repeated call with the same key starts none."""
        caller.require("start")
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

    async def _own_run(self, run_id: str, caller: Caller, right: KeyRight = "read") -> Run:
        """Return a run that the caller has started, for a use that needs this right."""
        caller.require(right)
        run = self._services.client.run(run_id)
        try:
            owner = await (await run.describe()).memo_value(OWNER_MEMO, default=None)
        except HoldfastError as error:
            # Also of a workflow that is no run: a guess finds nothing out.
            if error.exit_code != NO_SUCH:
                raise
            owner = None
        if owner != caller.owner:
            raise NoSuchRunError(run_id)
        return run
