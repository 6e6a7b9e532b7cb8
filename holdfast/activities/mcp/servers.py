"""The MCP servers of a worker: one connection to each, made when it is first needed."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar
from weakref import WeakSet

from mcp import Client, MCPError
from mcp_types import METHOD_NOT_FOUND, PaginatedRequestParams, TextContent, TextResourceContents
from pydantic import ValidationError

from holdfast.activities.mcp.authorization import TokenMemory
from holdfast.activities.mcp.connection import Connection
from holdfast.activities.mcp.held_calls import HeldCalls
from holdfast.catalog.builtin_tools import MAX_KNOWLEDGE_BYTES
from holdfast.catalog.mcp_tools import PROMPT, ListedTool, Listing
from holdfast.runtime.mcp.errors import ServerUnreachableError, SessionEndedError
from holdfast.runtime.mcp.received import PROBLEM
from holdfast.runtime.secrets import Secrets, address_secrets
from holdfast.runtime.text_safety import one_line
from holdfast.schemas.settings.servers import Server
from holdfast.schemas.tool import McpCall

# Runs that start one after the other share a listing.
KEPT_SECONDS = 5.0
MAX_TOOLS = 1_000
# With connections of their own; those of the others end, the longest unused first.
MAX_PRINCIPALS = 50
# A listing, with a connection that is made for it.
MAX_LISTING_SECONDS = 25.0
# By a local activity, a part of a workflow task: more than 5 s of one are a warning (TMPRL1104).
AWAITED_SECONDS = 3.0
MAX_REASON_CHARS = 1_000
# For a connection to be made, before a call.
MAX_WAIT_SECONDS = 15.0

T = TypeVar("T")
# A server, and the principal whose tokens its requests carry.
At = tuple[str, str | None]


class McpServers:
    """The MCP servers of one worker, by name; use them within `running`."""

    def __init__(
        self, servers: Mapping[str, Server], environ: Mapping[str, str], secrets: Secrets
    ) -> None:
        self._servers, self._environ, self._secrets = dict(servers), environ, secrets
        self._memory = TokenMemory(secrets)
        self.held_calls = HeldCalls()
        self._connections: dict[At, Connection] = {}
        # Those that were replaced, too: a program may take seconds to end.
        self._made: WeakSet[Connection] = WeakSet()
        self._listings: dict[str, asyncio.Task[list[ListedTool]]] = {}
        self._ended: dict[str, float] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def secrets(self) -> Iterator[str]:
        """Yield the secrets in requests to the servers, and in their programs' environments."""
        for server in self._servers.values():
            yield from address_secrets(server.url or "")
            of_client = server.auth.client_secret_env if server.auth is not None else None
            for variable in (*server.headers_env.values(), *server.env_from, of_client or ""):
                value = self._environ.get(variable, "").strip()
                yield from (value, value.rpartition(" ")[2])

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Have the servers ready; at the end, close all connections."""
        self._loop = asyncio.get_running_loop()
        try:
            yield
        finally:
            self._loop = None
            tasks = [*self._listings.values()]
            for task in tasks:
                task.cancel()
            closing = [each.close() for each in [*self._made]]
            await asyncio.gather(*tasks, *closing, return_exceptions=True)

    def list_in_thread(self, servers: Collection[str]) -> Listing:
        """List the tools of servers, in a thread beside the event loop.

        Raises:
            TimeoutError: it takes longer, and continues; the next request awaits it.
        """
        if self._loop is None:
            return dict.fromkeys(servers, "the worker is stopping")
        listing = asyncio.run_coroutine_threadsafe(self.list_tools(servers), self._loop)
        return listing.result(AWAITED_SECONDS)

    async def list_tools(self, servers: Collection[str]) -> Listing:
        """List the tools of servers; of one that cannot be reached, return the reason.

        `SERVER/prompt/NAME` is a prompt, and `SERVER/URI` a resource: its text is listed.
        """
        found = await asyncio.gather(
            *(self._listing(*each.partition("/")[::2]) for each in servers)
        )
        return dict(zip(servers, found, strict=True))

    async def request(
        self,
        name: str,
        call: McpCall,
        longest_seconds: float,
        send: Callable[[Client], Awaitable[T]],
    ) -> T:
        """Make a request for a call, with its principal's token if the server has one.

        It is sent only within the first half of `longest_seconds`: a call that was not made must
        not end as an unknown outcome.

        Raises:
            ServerUnreachableError: the server has not received the request.
            ConnectionResetError: it may have received it, and no answer came.
            MCPError: it answered with an error.
            ValidationError: its answer does not fit the protocol.
        """
        server = self._servers.get(name)
        principal = call.principal if server and server.principal_tokens else None
        if server and server.principal_tokens and principal is None:
            reason = "it requires the token of a principal, and the run acts for none"
            raise ServerUnreachableError(reason)
        at, wait_seconds = (name, principal), min(MAX_WAIT_SECONDS, longest_seconds / 2)
        try:
            async with asyncio.timeout(wait_seconds):
                connection, _ = self._connection(at)
                client = await connection.opened()
                # Some parameters are sent in headers, too: by what the connection has listed, on
                # revisions of the protocol that have no sessions.
                is_modern = client.session.initialize_result is None
                if connection.server.url and is_modern and not connection.has_listed:
                    await self._request(at, _list_all)
        except TimeoutError:
            reason = f"it did not answer within {wait_seconds:g} s"
            raise ServerUnreachableError(reason) from None
        except (ConnectionResetError, MCPError, ValidationError, ValueError) as error:
            raise ServerUnreachableError(str(error)) from None
        return await self._request(at, send)

    async def _listing(self, name: str, text: str) -> list[ListedTool] | str:
        # A resource is read each time; a prompt is for the start of runs, as tools are.
        key, is_kept = f"{name}/{text}", not text or text.startswith(PROMPT)
        task, ended = self._listings.get(key), self._ended.get(key, math.inf)
        if task is None or (task.done() and time.monotonic() - ended > KEPT_SECONDS):
            # Not with a principal's token: at a run's start, theirs may not be verified yet.
            reading = self._request((name, None), partial(_read_text, text) if text else _list_all)
            # It ends itself: later runs would wait for one that hangs, too.
            task = asyncio.create_task(asyncio.wait_for(reading, MAX_LISTING_SECONDS))
            if is_kept:
                self._listings[key] = task

                def note_end(done: asyncio.Task[list[ListedTool]]) -> None:
                    self._ended[key] = time.monotonic()
                    done.cancelled() or done.exception()  # the run that waited may have ended

                task.add_done_callback(note_end)
        try:
            return await asyncio.shield(task)
        except TimeoutError:
            reason = f"it did not answer within {MAX_LISTING_SECONDS:g} s"
            if (connection := self._connections.get((name, None))) is not None:
                connection.end_if_hung()
        except ValidationError:
            reason = "what it lists does not fit the protocol"
        except (ServerUnreachableError, ConnectionResetError, MCPError, ValueError) as error:
            reason = str(error)
        self._listings.pop(key, None)  # a failure is reported once, and requested again
        where = f"MCP server `{name}`" + (f", `{text}`" if text else "")
        text = self._secrets.clean_for_operator(f"{where}: {reason}")
        return one_line(text, MAX_REASON_CHARS)

    async def _request(self, at: At, send: Callable[[Client], Awaitable[T]]) -> T:
        """Make a request on the connection, or on a new one if the server has ended the session."""
        while True:
            connection, is_new = self._connection(at)
            try:
                found = await connection.request(send)
            except SessionEndedError:
                connection.retire()
                if is_new:
                    raise
            else:
                connection.has_listed |= send is _list_all
                return found

    def _connection(self, at: At) -> tuple[Connection, bool]:
        """Return the connection to a server, and whether it was made now."""
        connection, is_new = self._connections.pop(at, None), False
        if connection is None or connection.is_ended:
            name, principal = at
            if (server := self._servers.get(name)) is None:
                raise ServerUnreachableError("this worker has no MCP server of this name")
            connection = Connection(
                *(name, server, self._environ, self._memory, self.held_calls.ask, principal)
            )
            is_new = True
            self._made.add(connection)
        self._connections[at] = connection  # the last one used is the last one here
        if len(self._connections) > len(self._servers) + MAX_PRINCIPALS:
            self._connections.pop(next(iter(self._connections))).retire()
        return connection, is_new


async def _list_all(client: Client) -> list[ListedTool]:
    """Return the tools of all pages.

    Raises:
        ValueError: there are too many.
    """
    found: dict[str, ListedTool] = {}
    cursors: set[str | None] = set()
    cursor: str | None = None
    while cursor not in cursors:  # some servers begin again
        cursors.add(cursor)
        try:
            page = await client.session.list_tools(params=PaginatedRequestParams(cursor=cursor))
        except MCPError as error:
            # It has prompts or resources alone, or means the end by an empty cursor.
            if error.code == METHOD_NOT_FOUND or cursor == "":
                break
            raise
        for tool in page.tools:
            hints = tool.annotations and tool.annotations.model_dump(
                mode="json", by_alias=True, exclude_none=True
            )
            listed = ListedTool(
                name=tool.name,
                title=tool.title,
                description=tool.description,
                input_schema=tool.input_schema,
                output_schema=tool.output_schema,
                annotations=hints or {},
                problem=(tool.meta or {}).get(PROBLEM, ""),
            )
            found.setdefault(tool.name, listed)  # the first of a name
        if max(len(found), len(cursors)) > MAX_TOOLS:
            raise ValueError(f"it lists more than {MAX_TOOLS} tools, or pages of them")
        if (cursor := page.next_cursor) is None:
            break
    return [*found.values()]


async def _read_text(which: str, client: Client) -> list[ListedTool]:
    """Return the text of a resource, or of a prompt without arguments.

    Raises:
        ValueError: it is no text, or has too much of it.
    """
    try:
        if which.startswith(PROMPT):
            prompt = await client.session.get_prompt(which.removeprefix(PROMPT))
            parts: list[Any] = [each.content for each in prompt.messages if each.role == "user"]
            count = len(prompt.messages)
        else:
            parts = [*(await client.session.read_resource(which)).contents]
            count = len(parts)
    except RuntimeError:
        raise ValueError("it requires input from a person") from None
    texts = [each.text for each in parts if isinstance(each, TextContent | TextResourceContents)]
    text = "\n\n".join(texts)
    if len(texts) < count or not text.strip():
        raise ValueError("it is not a text with the role `user`")
    if len(text.encode("utf-8", "surrogatepass")) > MAX_KNOWLEDGE_BYTES:
        raise ValueError(f"it has more than {MAX_KNOWLEDGE_BYTES} bytes")
    return [ListedTool(which, description=text)]
