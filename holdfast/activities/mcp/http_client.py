"""The HTTP client of MCP servers, by which each request fails alone.

An error in one request would end the connection, and with it every other call. So the client
answers a request that fails with an error of its own, which states whether the server may have
received it. No error of a server can be taken for one: it has no `mark`.
"""

import json
import re
import uuid
from asyncio import sleep
from collections.abc import AsyncIterator
from time import monotonic
from typing import Any

import httpx2
from mcp import MCPError

from holdfast.activities.mcp.authorization import Tokens
from holdfast.runtime.mcp.errors import (
    ServerUnreachableError,
    SessionEndedError,
    UnreadableReplyError,
    describe,
    quote,
)
from holdfast.runtime.mcp.received import readable

MAX_ANSWER_BYTES = 64_000_000
MAX_CONNECT_SECONDS = 10.0
# Between two streams of a connection: a server may end each at once, and request that the library
# opens the next without a pause.
MIN_STREAM_SECONDS = 1.0
_SESSION = "mcp-session-id"
# Of a request that the server has read: an unknown method, invalid parameters, a failure.
_OF_REQUEST = re.compile(rb'"code"\s*:\s*-3260[1-3]\b')
_ERROR_CODE = -32000
_NEVER_SENT = (
    *(httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError),
    *(httpx2.LocalProtocolError, httpx2.UnsupportedProtocol),
)
_FAILURES = (ServerUnreachableError, SessionEndedError, ConnectionResetError, UnreadableReplyError)


class McpHttpClient(httpx2.AsyncClient):
    """Answers failed requests itself, once the connection `is_open`."""

    def __init__(self, tokens: Tokens | None = None, **options: Any) -> None:
        # A call may take long; the time of its activity limits it.
        timeout = httpx2.Timeout(None, connect=MAX_CONNECT_SECONDS, pool=MAX_CONNECT_SECONDS)
        super().__init__(timeout=timeout, **options)
        self.is_open = False
        self._next_stream = 0.0
        self._mark = uuid.uuid4().hex
        self._tokens = tokens

    def failure(self, error: MCPError) -> Exception:
        """Return the failure of a request that this client has answered itself, or the error."""
        match error.data:
            case [self._mark, int(number)]:
                return _FAILURES[number](error.message)
        return error

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request; the library calls this."""
        # The library sends nothing else until a notification, or the answer to a form, is received.
        sent = json.loads(request.content) if request.method == "POST" else {}
        if request.method != "GET" and not {"method", "id"} <= sent.keys():
            request.extensions["timeout"] = httpx2.Timeout(MAX_CONNECT_SECONDS).as_dict()
        if request.method == "GET":
            await sleep(self._next_stream - monotonic())
            self._next_stream = monotonic() + MIN_STREAM_SECONDS
        if request.method != "POST":
            return _with_events(await self._authorized(request, options))
        try:
            response = _with_events(await self._authorized(request, options))
            return await _checked(request, response, is_open=self.is_open)
        except _FAILURES as error:
            failure: Exception = error
        except _NEVER_SENT as error:
            failure = ServerUnreachableError(describe(error))
        except httpx2.TransportError as error:
            failure = ConnectionResetError(quote(describe(error)))
        except ValueError as error:
            failure = UnreadableReplyError(quote(describe(error)))
        if not self.is_open:
            raise failure
        data = [self._mark, _FAILURES.index(type(failure))]
        shown = {"code": _ERROR_CODE, "message": str(failure), "data": data}
        answer = {"jsonrpc": "2.0", "id": None, "error": shown}
        return httpx2.Response(503, json=answer, request=request)

    async def _authorized(
        self, request: httpx2.Request, options: dict[str, Any]
    ) -> httpx2.Response:
        if self._tokens is not None:
            self._tokens.authorize(request)
        response = await super().send(request, **options)
        if self._tokens is None or response.status_code not in (401, 403):
            return response
        response = await _read(request, response)
        is_renewed = await self._tokens.renew(request, response, self._send_beside)
        return await super().send(request, **options) if is_renewed else response

    async def _send_beside(self, request: httpx2.Request) -> httpx2.Response:
        return await _read(request, await super().send(request, stream=True))


async def _checked(
    request: httpx2.Request, response: httpx2.Response, *, is_open: bool
) -> httpx2.Response:
    """Return a response that the library reads as the server's own.

    Raises:
        ServerUnreachableError: the server has refused the request unread.
        ConnectionResetError: it may have received it, and the response has no result.
    """
    status, kind = response.status_code, response.headers.get("content-type", "")
    is_json = kind.lower().startswith("application/json")
    if response.is_success and kind.lower().startswith("text/event-stream"):
        return response
    if is_json:
        response = await _read(request, response)
        response = _replaced(response, content=readable(response.content, request))
    # Not the phrase of the response, which is the server's text.
    text = f"HTTP {status} {httpx2.codes.get_reason_phrase(status)}".strip()
    is_of_protocol = is_json and b'"jsonrpc"' in response.content
    # Some servers answer so instead of with 404.
    is_unknown = status == 400 and is_json and b"session" in response.content.lower()
    is_unknown = is_unknown and not _OF_REQUEST.search(response.content)
    if _SESSION in request.headers and (status == 404 or is_unknown):
        raise SessionEndedError(f"{text}: the session has ended")
    if is_of_protocol or response.is_redirect:
        return response
    if response.is_success:
        if b'"tools/call"' not in request.content or (is_json and status != 202):
            return response
        raise UnreadableReplyError(f"{text} with no result")
    if status in (408, 409) or status >= 500:
        raise UnreadableReplyError(text)
    # Until the connection is open, this is how a server refuses a revision of the protocol.
    if is_open or status in (401, 403, 407, 429):
        raise ServerUnreachableError(text)
    return response


async def _read(request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
    """Return the response with its content, which is not left to be read later.

    Raises:
        ValueError: it is too large.
    """
    body = bytearray()
    try:
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > MAX_ANSWER_BYTES:
                raise ValueError(f"the answer has more than {MAX_ANSWER_BYTES} bytes")
    finally:
        await response.aclose()
    return _replaced(response, content=bytes(body))


class _Events(httpx2.AsyncByteStream):
    """The events of a response; each message in them is one that the library reads."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        request, line = self._response.request, bytearray()
        async for chunk in self._response.aiter_bytes():
            *ends, rest = chunk.split(b"\n")
            for end in ends:
                whole, line = bytes(line + end), bytearray()
                is_data = whole.startswith(b"data:")
                yield (b"data:" + readable(whole[5:], request) if is_data else whole) + b"\n"
            line += rest
            if len(line) > MAX_ANSWER_BYTES:
                raise ValueError(f"the answer has more than {MAX_ANSWER_BYTES} bytes")
        yield bytes(line)

    async def aclose(self) -> None:
        await self._response.aclose()


def _with_events(response: httpx2.Response) -> httpx2.Response:
    kind = response.headers.get("content-type", "").lower()
    is_stream = kind.startswith("text/event-stream")
    return _replaced(response, stream=_Events(response)) if is_stream else response


def _replaced(response: httpx2.Response, **body: Any) -> httpx2.Response:
    headers = response.headers.copy()
    headers.pop("content-encoding", None)  # a small one may unpack to any size: it was counted so
    return httpx2.Response(response.status_code, headers=headers, request=response.request, **body)
