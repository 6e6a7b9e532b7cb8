"""The MCP server: its handlers, and how it is served by standard input and output or over HTTP.

    call ─► start a run ─► its end, or a pending approval, or 45 seconds ─► result

A trusted client shows a pending approval to a person as a form (`input_required`). It then repeats
the call, with the answer and our sealed state, and the answer becomes a decision.

Each call of an agent or a tool starts a run of the worker, with the worker's rules: the server runs
nothing itself, and stores nothing. So any process can continue what another has started. A call
that is cancelled ends the wait; the run continues.
"""

import asyncio
import json
import os
import signal
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

import mcp_types as types
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.message import SessionMessage
from pydantic import ValidationError
from starlette.types import ASGIApp, Receive, Scope, Send

import holdfast
from holdfast.client import errors
from holdfast.client.errors import HoldfastError, NoSuchRunError, wrong_command
from holdfast.client.result import RunEnding
from holdfast.client.run import PendingCall, Run
from holdfast.client.start import REQUEST_MEMO, RunExistsError
from holdfast.runtime.encryption.key_ring import KEY_BYTES, KeyRing
from holdfast.runtime.mcp.received import sent_json
from holdfast.schemas import names
from holdfast.schemas.base import canonical_json, sha256
from holdfast.schemas.log_entry import LogRecord
from holdfast.schemas.settings.keys import KeyRight
from holdfast.web.auth.sessions import Person
from holdfast.web.http import serving
from holdfast.web.http.origins import hosts_of, own_origins
from holdfast.web.http.problems import RefusedRequest, problem_of
from holdfast.web.mcp import offered_tools as offered
from holdfast.web.mcp import run_results as results
from holdfast.web.mcp.callers import Caller, open_token_callers
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
# Each open call has one, to receive events.
_MAX_CONNECTIONS: Final = 2_000
_STATE_KEYS: Final = b"holdfast: states of MCP requests"
_ANY_CASE: Final = (b"content-type", b"accept")
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
        self._results = results.RunResults(inbox and inbox.rstrip("/"))
        self._forms = results.ApprovalForms(services, self._results)
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

    async def list_tools(self, ctx: Context, params: Any) -> types.ListToolsResult:
        listed = [each.listed for each in self._tools.values()]
        return types.ListToolsResult(tools=[*listed, *offered.own_tools()])

    async def call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> Any:
        """Call a tool: start a run, or follow one."""
        caller, name, arguments = self._find_caller(), params.name, params.arguments or {}
        try:
            if name == offered.SHOW:
                show = offered.read_arguments(offered.ShowArguments, arguments)
                run = await self._own_run(show.run, caller)
                return await self._results.current(run, with_log=True)
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
                return await self._results.current(run)
            return await self._follow(ctx, run, caller, None)
        except HoldfastError as error:
            return results.tool_result([str(error)], is_error=True)

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
            pending = {results.approval_key(each): each for each in await run.approvals()}
            new = [each for key, each in pending.items() if key not in known]
            if form := await self._ask(ctx, run, new, caller):
                return form
            known = {*known, *pending}
        step = await results.next_step(
            run, TASK_AFTER_SECONDS if is_task else seconds, known, report
        )
        if isinstance(step, RunEnding):
            return self._results.finished(run.id, step, notes)
        if is_task:
            task = task_of(await run.describe())
            return {"resultType": "task", "_meta": {results.RUN_META: run.id}, **task}
        if form := await self._ask(ctx, run, step, caller):
            return form
        return await self._results.current(run, notes)

    async def _ask(
        self, ctx: Context, run: Run, approvals: Sequence[PendingCall], caller: Caller
    ) -> types.InputRequiredResult | None:
        """Return the forms of approvals for the person at the client; None without any."""
        if (person := results.person_to_ask(ctx, caller)) is None:
            return None
        if not (forms := await self._forms.requests(run, approvals)):
            return None
        state = json.dumps({"run": run.id, "by": person.name, "asked": [*forms]})
        meta = {results.RUN_META: run.id}
        return types.InputRequiredResult(input_requests={**forms}, request_state=state, meta=meta)

    async def _answer(
        self, ctx: Context, params: types.CallToolRequestParams, caller: Caller
    ) -> Any:
        """Send the answers of forms to their run, and follow it."""
        state = json.loads(params.request_state or "")
        run = await self._own_run(state["run"], caller)
        if caller.approver is None or caller.approver.name != state["by"]:
            todo = "call `wait_run` for the state of the run"
            raise wrong_command("the form was for another person", todo)
        given, asked = params.input_responses or {}, state["asked"]
        answers = {key: given[key] for key in asked if key in given}
        if not (notes := await self._forms.decide(run, answers, caller.approver)):
            return await self._results.current(run)
        return await self._follow(ctx, run, caller, asked, notes)

    async def _start(
        self, ctx: Context, name: str, arguments: Mapping[str, Any], caller: Caller
    ) -> Run:
        """Start the run of a call; a repeated call with the same key starts none."""
        caller.require("start")
        if name not in self._tools:
            raise MCPError(types.INVALID_PARAMS, f"there is no tool `{name}`")
        key, run_id, memo = (ctx.meta or {}).get(KEY_META), None, {OWNER_MEMO: caller.owner}
        if key is not None:
            if not isinstance(key, str) or not 0 < len(key) <= MAX_KEY_CHARS:
                raise MCPError(
                    types.INVALID_PARAMS, f"`{KEY_META}` is no text of 1 to {MAX_KEY_CHARS}"
                )
            memo[REQUEST_MEMO] = sha256(canonical_json(["mcp", key, caller.owner, name, arguments]))
            run_id = names.derived_id("mcp", sha256(canonical_json([caller.owner, key])))
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
            if error.exit_code != errors.NO_SUCH:
                raise
            owner = None
        if owner != caller.owner:
            raise NoSuchRunError(run_id)
        return run


def load_state_keys(file: str | None) -> Sequence[bytes]:
    """Return the keys of forms in a file, or without one a key of this process.

    Raises:
        HoldfastError: the file does not load.
    """
    if not file:
        return [os.urandom(KEY_BYTES)]
    with errors.explain_settings("`--state-keys`"):
        return KeyRing.load(Path(file), os.environ).derive(_STATE_KEYS)


async def serve_stdio(
    make: Callable[..., McpHandlers],
    state_keys: Sequence[bytes],
    approver: str | None,
    groups: Iterable[str],
) -> None:
    """Serve the program that has started this one, until the standard input ends.

    `make` makes the handlers for a `find_caller`; the person at that program is the `approver`.
    """
    local = Caller(approver=Person(approver, tuple(groups)) if approver else None)
    served = make(find_caller=lambda: local).server(holdfast.__version__, state_keys)
    # A thread reads the standard input, and no signal ends it; the process has nothing to lose.
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, os._exit, errors.INTERRUPTED)
    async with stdio_server() as (read, write):
        messages: Any = parsed_messages(read, write)
        await served.run(messages, write, served.create_initialization_options())


async def serve_http(
    make: Callable[..., McpHandlers],
    state_keys: Sequence[bytes],
    host: str,
    port: int,
    url: str | None,
    keys: str | None,
    trusted: Collection[str],
) -> None:
    """Serve at an address until it is stopped; `make` makes the handlers for a `find_caller`.

    Raises:
        HoldfastError: the address is not private or not available, or the keys do not load.
    """
    serving.check_private(host, url, "`--url https://…`")
    if keys is None and (url or not ip_address(host).is_loopback):
        raise wrong_command("anyone could start runs", "name the keys that verify tokens: --keys")
    async with AsyncExitStack() as stack:
        socket = stack.enter_context(serving.open_listener(host, port))
        own = own_origins(host, socket.getsockname()[1], url)
        at, auth = f"{serving.public_origin(own)}/mcp", dict[str, Any]()
        find_caller: Callable[[], Caller] = Caller
        if keys is not None:
            opened = open_token_callers(keys, at, trusted)
            callers, settings = await stack.enter_async_context(opened)
            find_caller, auth = callers.find, {"auth": settings, "token_verifier": callers}
        served = make(find_caller=find_caller).server(holdfast.__version__, state_keys)
        allowed = TransportSecuritySettings(allowed_hosts=[*hosts_of(own)], allowed_origins=[*own])
        # Without sessions, also of older revisions: any process answers any request.
        app = served.streamable_http_app(stateless_http=True, transport_security=allowed, **auth)
        app.add_middleware(accepting)
        await stack.enter_async_context(served.session_manager.run())
        await serving.serve(app, socket, f"mcp ready: {at}", _MAX_CONNECTIONS)


async def parsed_messages(read: Any, write: Any) -> AsyncGenerator[SessionMessage]:
    """Yield the messages of the standard input; answer a request that cannot be parsed.

    The library drops it, and its sender waits. The codes are of JSON-RPC 2.0, section 5.1.
    """
    async for item in read:
        if not isinstance(item, Exception):
            yield item
        elif isinstance(item, ValidationError) and (sent := sent_json(item)) not in ("\n", "\r\n"):
            code, why = types.INVALID_REQUEST, "this is no message of JSON-RPC"
            if isinstance(sent, str):
                code, why = types.PARSE_ERROR, "this is no JSON"
            error = types.ErrorData(code=code, message=why)
            id = sent.get("id") if isinstance(sent, dict) else None
            id = id if isinstance(id, int | str) else None
            await write.send(SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=id, error=error)))


def accepting(app: ASGIApp) -> ASGIApp:
    """Return the application: media types of any case, a slash at a path's end, our refusals."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = [(k, v.lower() if k in _ANY_CASE else v) for k, v in scope["headers"]]
            scope = {**scope, "headers": headers, "path": scope["path"].rstrip("/") or "/"}
        try:
            await app(scope, receive, send)
        except RefusedRequest as refused:
            await problem_of(refused).response()(scope, receive, send)

    return serve
