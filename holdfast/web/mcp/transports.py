"""What the MCP server accepts beyond the library: other spellings, and requests that fail alone."""

from collections.abc import AsyncGenerator
from typing import Any

from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError
from pydantic import ValidationError
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.runtime.mcp.received import sent_json

_ANY_CASE = (b"content-type", b"accept")


async def parsed_messages(read: Any, write: Any) -> AsyncGenerator[SessionMessage]:
    """Yield the messages of the standard input; answer a request that cannot be parsed.

    The library drops it, and its sender waits. The codes are of JSON-RPC 2.0, section 5.1.
    """
    async for item in read:
        if not isinstance(item, Exception):
            yield item
        elif isinstance(item, ValidationError) and (sent := sent_json(item)) not in ("\n", "\r\n"):
            error = ErrorData(code=INVALID_REQUEST, message="this is no message of JSON-RPC")
            if isinstance(sent, str):
                error = ErrorData(code=PARSE_ERROR, message="this is no JSON")
            id = sent.get("id") if isinstance(sent, dict) else None
            id = id if isinstance(id, int | str) else None
            await write.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=id, error=error)))


def accepting(app: ASGIApp) -> ASGIApp:
    """Return the application; media types are of any case, and a path may end with a slash."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = [(k, v.lower() if k in _ANY_CASE else v) for k, v in scope["headers"]]
            scope = {**scope, "headers": headers, "path": scope["path"].rstrip("/") or "/"}
        await app(scope, receive, send)

    return serve
