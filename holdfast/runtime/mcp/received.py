"""What MCP servers send, read so that a part that does not fit the protocol costs itself alone.

The library drops an answer that it cannot parse, and refuses a result for one part of it. The codes
with which it reports a lost connection are codes of servers, too: theirs are replaced.
"""

import json
import logging
import re
import uuid
from contextlib import suppress
from typing import Any, Final

import httpx2
import mcp_types as types
from mcp_types.methods import parse_server_result
from mcp_types.version import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION
from pydantic import ValidationError

from holdfast.runtime.attachments import IMAGES, type_of
from holdfast.runtime.text_safety import one_line

LOST_CODES: Final = (types.CONNECTION_CLOSED, types.REQUEST_TIMEOUT, types.PARSE_ERROR)
# In the `_meta` of a listed tool: why it cannot be used. No server can write it.
PROBLEM: Final = f"holdfast/{uuid.uuid4().hex}"
_MAX_REASON_CHARS: Final = 300
_MESSAGES: Final = types.jsonrpc_message_adapter
_OF_LISTS: Final = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
_BEGINNING = re.compile(
    r'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,18}|"[^"\\]{1,200}")\s*,'
    r'(?!\s*"method")'
)

logger = logging.getLogger("holdfast")


def own_error(message: types.JSONRPCMessage) -> types.JSONRPCMessage:
    """Return a message of a server; the code of its error is none that the library uses itself."""
    if isinstance(message, types.JSONRPCError) and message.error.code in LOST_CODES:
        message.error.code = types.INTERNAL_ERROR
    return message


def sent_json(problem: ValidationError) -> Any:
    """Return the JSON in which a problem was found, or the text that is none."""
    inputs = [each["input"] for each in problem.errors(include_url=False)]
    sent: Any = next((each for each in inputs if isinstance(each, dict)), inputs[0])
    with suppress(TypeError, ValueError, RecursionError):
        return json.loads(sent, strict=False)
    return sent


def repaired(problem: ValidationError, where: str) -> types.JSONRPCMessage | None:
    """Return an answer that the library could not parse, as far as it can be read.

    Of the beginning of one, return a `PARSE_ERROR`; of what is no answer, None.
    """
    answer = sent_json(problem)
    match answer:
        case {"jsonrpc": _, "id": _, "error": error} if error is not None:
            about = error if isinstance(error, dict) else {"message": error}
            code, text = about.get("code"), about.get("message")
            number = code if isinstance(code, int) else types.INTERNAL_ERROR
            answer["error"] = {"code": number, "message": str(text or code)}
        case {"jsonrpc": _, "id": _, "result": result}:
            answer["result"] = result if isinstance(result, dict) else {"content": result}
        case str() if found := _BEGINNING.match(answer):
            lost = types.ErrorData(code=types.PARSE_ERROR, message="its answer is no JSON")
            return types.JSONRPCError(jsonrpc="2.0", id=json.loads(found[1]), error=lost)
        case _:
            return None
    logger.warning("%s: an answer does not fit JSON-RPC; it is read as far as it can be", where)
    # Half of a surrogate pair is replaced.
    sent = json.dumps(answer, ensure_ascii=False).encode("utf-16", "surrogatepass")
    with suppress(ValidationError):
        return own_error(_MESSAGES.validate_json(sent.decode("utf-16", "replace"), by_name=False))
    return None


def readable(sent: bytes, request: httpx2.Request) -> bytes:
    """Return the answer to a request so that the library reads it, if that can be."""
    try:
        found = _MESSAGES.validate_json(sent, by_name=False)
        message = own_error(found) if isinstance(found, types.JSONRPCError) else None
    except ValidationError as problem:
        message = repaired(problem, f"MCP server at {request.url.host}")
    if isinstance(message, types.JSONRPCError):
        if message.error.code == types.PARSE_ERROR:  # or one of several lines
            return sent
        if message.id is None and request.method == "POST":
            message.id = json.loads(request.content).get("id")
    return sent if message is None else message.model_dump_json(exclude_unset=True).encode()


def fitted(result: dict[str, Any]) -> dict[str, Any]:
    """Return a result whose tools fit the protocol, and whose blocks are texts and images."""
    is_modern = "resultType" in result
    if isinstance(tools := result.get("tools"), list):
        return {**result, "tools": [_tool(each, is_modern=is_modern) for each in tools]}
    if result.keys().isdisjoint(("content", "structuredContent")):
        return result
    content, structured = result.get("content"), result.get("structuredContent")
    content = content if isinstance(content, list) else [] if content is None else [content]
    if not is_modern and not isinstance(structured, dict):  # it is an object there, or none
        content = content or ([] if structured is None else [json.dumps(structured)])
        result = {key: each for key, each in result.items() if key != "structuredContent"}
    return {**result, "content": [_block(each) for each in content]}


def _tool(tool: Any, *, is_modern: bool) -> Any:
    version = LATEST_MODERN_VERSION if is_modern else LATEST_HANDSHAKE_VERSION
    try:
        parse_server_result("tools/list", version, {"tools": [tool], **_OF_LISTS})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        problem = f"`{'.'.join(map(str, first['loc'][2:]))}`: {first['msg']}"
    else:
        return tool
    name = tool.get("name") if isinstance(tool, dict) else None
    about = {PROBLEM: one_line(problem, _MAX_REASON_CHARS)}
    return {"name": str(name or ""), "inputSchema": {"type": "object"}, "_meta": about}


def _block(block: Any) -> dict[str, Any]:
    match block:
        # Providers refuse a request with an image that states another type than its own.
        case {"type": "image", "data": str(data)} if (media_type := type_of(data)) in IMAGES:
            return {"type": "image", "data": data, "mimeType": media_type}
        case {"type": "resource_link", "uri": str(uri)}:
            lines = (block.get("title") or block.get("name"), block.get("description"), uri)
            text = "\n".join(map(str, filter(None, lines)))
        case str(text) | {"text": str(text)} | {"resource": {"text": str(text)}}:
            pass
        case {"type": str(kind)}:
            about = block.get("resource")
            media_type = (about if isinstance(about, dict) else block).get("mimeType")
            text = f"[{kind} of {media_type or 'unknown type'}, not shown]"
        case _:
            text = json.dumps(block)
    return {"type": "text", "text": text}
