"""A connection to one MCP server.

One task holds it open from its beginning to its end, as the library requires; calls use it from
their own tasks. States: opening, open, ended. It ends when it is closed, or when the program of a
stdio server ends; then the next call opens another one.
"""

import asyncio
import logging
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from contextvars import Context
from pathlib import Path
from typing import Any, TextIO, TypeVar

import anyio
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.extension import advertise
from mcp.client.session import ElicitationFnT
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import PARSE_ERROR, Implementation, JSONRPCResponse
from pydantic import ValidationError

from holdfast.activities.mcp.authorization import ClientTokens, PrincipalTokens, TokenMemory, Tokens
from holdfast.activities.mcp.http_client import MAX_ANSWER_BYTES, McpHttpClient
from holdfast.catalog.endpoints import trusted_certificates
from holdfast.runtime.mcp.errors import ServerUnreachableError, UnreadableReplyError, describe
from holdfast.runtime.mcp.received import LOST_CODES, fitted, own_error, repaired
from holdfast.runtime.secrets import StreamRedactor
from holdfast.runtime.text_safety import clean
from holdfast.schemas.settings.servers import Server

# A program may install itself first.
MAX_OPENING_SECONDS = 60.0
MAX_LINE_CHARACTERS = 2_000
_TASKS = "io.modelcontextprotocol/tasks"
_CLIENT = Implementation(name="holdfast", version="1")

T = TypeVar("T")
logger = logging.getLogger("holdfast")
# The library logs a line that it cannot read with a part of it, and so with a part of a secret.
for _name in ("stdio", "streamable_http"):
    logging.getLogger(f"mcp.client.{_name}").setLevel(logging.CRITICAL)


class Connection:
    """A connection to the server of this name, made at once, in a task.

    `principal` is whose tokens its requests carry, if the server has tokens of principals; `ask`
    answers elicitations of older revisions.
    """

    def __init__(
        self,
        name: str,
        server: Server,
        environ: Mapping[str, str],
        memory: TokenMemory,
        ask: ElicitationFnT,
        principal: str | None = None,
    ) -> None:
        self.name, self.server, self._ask = name, server, ask
        self.has_listed = False
        self._environ, self._memory, self._principal = environ, memory, principal
        self._http: McpHttpClient | None = None
        self._requests = 0
        self._is_retired = False
        self._ended = asyncio.Event()
        self._opened: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._opened.add_done_callback(lambda done: done.cancelled() or done.exception())
        # Not in the context of the run that was the first to need it: the log would name that one.
        self._task = asyncio.create_task(self._hold(), context=Context())

    @property
    def is_ended(self) -> bool:
        return self._is_retired or self._ended.is_set() or self._task.done()

    async def request(self, send: Callable[[Client], Awaitable[T]]) -> T:
        """Make requests by a function, as soon as the connection is open.

        Raises:
            ServerUnreachableError: the server has not received the request.
            ConnectionResetError: it may have received it, and no answer came.
            MCPError: it answered with an error.
        """
        client = await self.opened()
        self._requests += 1
        try:
            return await send(client)
        except MCPError as error:
            failure = self._http.failure(error) if self._http is not None else error
            if failure is error and error.code == PARSE_ERROR:  # the message may quote the answer
                failure = UnreadableReplyError("its answer cannot be read")
            elif failure is error and error.code in LOST_CODES:
                failure = ConnectionResetError(error.message.partition(":")[0])
            raise failure from None
        finally:
            self._requests -= 1
            self._end_if_idle()

    async def opened(self) -> Client:
        """Wait until the connection is open.

        Raises:
            ServerUnreachableError: it cannot be opened.
        """
        return await asyncio.shield(self._opened)

    def retire(self) -> None:
        """End the connection after the requests that are running."""
        self._is_retired = True
        self._end_if_idle()

    def end_if_hung(self) -> None:
        """End the connection after a request without an answer, unless others still run."""
        if self._opened.done() and self._requests == 0:
            self._ended.set()

    async def close(self) -> None:
        """End the connection, and the program of a stdio server."""
        self._ended.set()
        if not self._opened.done():
            self._task.cancel()
        await asyncio.wait([self._task])

    def _end_if_idle(self) -> None:
        if self._is_retired and self._requests == 0:
            self._ended.set()

    async def _hold(self) -> None:
        opening = asyncio.timeout(MAX_OPENING_SECONDS)
        try:
            async with AsyncExitStack() as stack:
                async with opening:
                    client = Client(
                        await self._transport(stack),
                        mode=self.server.protocol,
                        cache=None,
                        client_info=_CLIENT,
                        elicitation_callback=self._ask,
                        extensions=[advertise(_TASKS)],
                    )
                    await stack.enter_async_context(client)
                if self._http is not None:
                    self._http.is_open = True
                self._opened.set_result(client)
                await self._ended.wait()
        except Exception as error:
            reason = describe(error)
            if opening.expired():
                reason = f"it did not answer within {MAX_OPENING_SECONDS:g} s"
            if self.server.command is not None and self._ended.is_set():
                reason = f"its program ended ({reason}): run it yourself to see why"
            if self._opened.done():
                logger.warning("the connection to MCP server `%s` ended: %s", self.name, reason)
            else:
                self._opened.set_exception(ServerUnreachableError(reason))
        finally:
            self._ended.set()
            if not self._opened.done():
                self._opened.set_exception(ServerUnreachableError("the worker is stopping"))

    async def _transport(self, stack: AsyncExitStack) -> Any:
        server = self.server
        if server.url is not None:
            headers = {name: self._value(each) for name, each in server.headers_env.items()}
            tokens = self._tokens()
            stack.callback(self._memory.keep, tokens)
            http = McpHttpClient(tokens, headers=headers, verify=trusted_certificates())
            self._http = await stack.enter_async_context(http)
            made = streamable_http_client(
                server.url, http_client=http, max_sse_event_size=MAX_ANSWER_BYTES
            )
            return self._watched(made)
        program = StdioServerParameters(
            command=server.command or "",
            args=server.args,
            env={name: self._value(name) for name in server.env_from},
            encoding_error_handler="replace",
        )
        stderr = stack.enter_context(self._logged_stderr())
        return self._watched(stdio_client(program, stderr))

    def _tokens(self) -> Tokens | None:
        server, memory, url = self.server, self._memory, self.server.url or ""
        if server.principal_tokens is not None and self._principal is not None:
            return PrincipalTokens(server.principal_tokens, self._principal, memory)
        if (auth := server.auth) is None:
            return None
        if auth.client_secret_env is not None:
            return ClientTokens(url, auth, self._value(auth.client_secret_env), memory)
        try:
            key = Path(auth.private_key_file or "").read_text(encoding="utf-8")
        except (OSError, ValueError):
            raise ServerUnreachableError("its `privateKeyFile` cannot be read") from None
        memory.secrets.learn([key])
        return ClientTokens(url, auth, key, memory)

    def _value(self, variable: str) -> str:
        if value := self._environ.get(variable, "").strip():
            return value
        raise ServerUnreachableError(f"the environment variable {variable} is not set")

    @contextmanager
    def _logged_stderr(self) -> Iterator[TextIO]:
        """Return a file for the program's errors, which a thread writes to the worker's log."""
        read, write = os.pipe()
        secrets = self._memory.secrets
        redactor = StreamRedactor(secrets)  # a secret may be spread over two parts of a line

        def log() -> None:
            with os.fdopen(read, errors="replace") as lines:
                while line := lines.readline(MAX_LINE_CHARACTERS):
                    text = clean(secrets.clean_for_operator(redactor.redact_next(line)))
                    logger.debug("MCP server `%s`: %s", self.name, text.rstrip())

        with os.fdopen(write, "w") as file:
            threading.Thread(target=log, name=f"mcp-{self.name}", daemon=True).start()
            yield file

    @asynccontextmanager
    async def _watched(self, transport: Any) -> AsyncIterator[Any]:
        """Return the streams of a transport, with messages that the library reads; note its end."""
        send, receive = anyio.create_memory_object_stream[Any](0)
        async with transport as (read, write), anyio.create_task_group() as tasks:

            async def pass_on() -> None:
                level, text = logging.WARNING, "MCP server `%s` writes lines that are no messages"
                async with send:
                    async for item in read:
                        if isinstance(item, ValidationError):
                            answer = repaired(item, f"MCP server `{self.name}`")
                            item = item if answer is None else SessionMessage(answer)
                        elif self._http is None and not isinstance(item, Exception):
                            own_error(item.message)  # over HTTP, some are the library's
                        if isinstance(item, Exception):
                            logger.log(level, text, self.name)
                            level = logging.DEBUG
                            continue
                        if isinstance(item.message, JSONRPCResponse):
                            item.message.result = fitted(item.message.result)
                        await send.send(item)
                self._ended.set()

            tasks.start_soon(pass_on)
            yield receive, write
            tasks.cancel_scope.cancel()
