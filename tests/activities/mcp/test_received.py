"""What servers send that does not fit the protocol costs itself alone."""

import json
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from mcp import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    PARSE_ERROR,
    CallToolResult,
    ListToolsResult,
    jsonrpc_message_adapter,
)
from mcp_types.methods import parse_server_result
from pydantic import ValidationError

from holdfast.activities.mcp import servers
from holdfast.activities.mcp.http_client import McpHttpClient, _checked
from holdfast.runtime.mcp.errors import SessionEndedError
from holdfast.runtime.mcp.received import PROBLEM, fitted, repaired

HEAD = '{"jsonrpc": "2.0", "id": 7, '
OBJECT: dict[str, Any] = {"type": "object"}
IMAGE = {"type": "image", "mimeType": "image/svg+xml"}


def read(line: str) -> dict[str, Any] | None:
    with pytest.raises(ValidationError) as problem:
        jsonrpc_message_adapter.validate_json(line, by_name=False)
    message = repaired(problem.value, "a server")
    return None if message is None else message.model_dump(exclude={"jsonrpc"}, exclude_unset=True)


def failure(message: str, code: int = INTERNAL_ERROR) -> dict[str, Any]:
    return {"id": 7, "error": {"code": code, "message": message}}


@pytest.mark.parametrize(
    ("line", "read_as"),
    [
        (HEAD + r'"result": {"a": "half \ud83d"}}', {"id": 7, "result": {"a": "half \ufffd"}}),
        (HEAD + '"result": {"a": "tab\there"}}', {"id": 7, "result": {"a": "tab\there"}}),
        (HEAD + '"result": "ok"}', {"id": 7, "result": {"content": "ok"}}),
        (HEAD + '"error": {"code": "E_BOOM", "message": "boom"}}', failure("boom")),
        (HEAD + '"error": {"code": "E_BOOM"}}', failure("E_BOOM")),
        (HEAD + '"error": "boom"}', failure("boom")),
        (HEAD + r'"error": {"code": -32000, "message": "\udc00"}}', failure("\ufffd")),
        (HEAD + '"result": {"content": [{"ty', failure("its answer is no JSON", PARSE_ERROR)),
        ('{"id": 7, "result": undefined}', failure("its answer is no JSON", PARSE_ERROR)),
        (HEAD + '"method": "roots/list", "params": 5}', None),
        (HEAD + '"method": "roots/l', None),
        ('{"level": "info", "id": 7, "error": "no"}', None),
        ("Starting server on stdio…", None),
        ("{", None),
        ("[" * 100_000, None),
    ],
    ids=lambda one: str(one)[30:70],
)
def test_an_answer_is_read_as_far_as_it_can_be(
    line: str, read_as: dict[str, Any] | None, caplog: pytest.LogCaptureFixture
) -> None:
    assert read(line) == read_as
    is_repaired = read_as is not None and "is no JSON" not in str(read_as)
    assert ("a server: an answer does not fit JSON-RPC" in caplog.text) == is_repaired


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"content": [{"type": "video", "mimeType": "video/mp4"}]}, "[video of video/mp4, not"),
        ({"content": [{**IMAGE, "data": "PHN2Zy8+"}]}, "[image of image/svg+xml, not shown]"),
        ({"content": [{**IMAGE, "data": "iVBORw0KGgo=\n"}]}, "[image of image/svg+xml, not shown]"),
        ({"content": [{"type": "text", "text": "a", "annotations": {"priority": 9}}]}, "a"),
        ({"content": {"type": "text", "text": "a"}}, "a"),
        ({"content": "a"}, "a"),
        ({"content": [7]}, "7"),
        ({"content": [], "structuredContent": [1]}, "[1]"),
        ({"content": [{"type": "resource_link", "uri": "u:1", "name": "n"}]}, "n\nu:1"),
        ({"content": [{"type": "resource", "resource": {"uri": "u:1", "text": "a"}}]}, "a"),
        (
            {"content": [{"type": "resource", "resource": {"mimeType": "a/b", "blob": ""}}]},
            "[resource of a/b, not shown]",
        ),
    ],
    ids=str,
)
def test_a_block_that_does_not_fit_is_a_text(result: dict[str, Any], text: str) -> None:
    parse_server_result("tools/call", "2025-11-25", found := fitted(result))
    [block] = CallToolResult.model_validate(found).content
    assert block.type == "text"
    assert block.text.startswith(text)


@pytest.mark.parametrize("stated", [{}, {"mimeType": "image/jpeg"}, {"mimeType": "image/PNG"}])
def test_an_image_has_the_type_of_its_content(stated: dict[str, str]) -> None:
    image = {"type": "image", "data": "iVBORw0KGgo="}
    assert fitted({"content": [{**image, **stated}]}) == {
        "content": [{**image, "mimeType": "image/png"}]
    }


def test_a_result_without_content_keeps_its_object() -> None:
    for nothing in ({}, {"content": None}):
        found = CallToolResult.model_validate(fitted({**nothing, "structuredContent": {"n": 5}}))
        assert (found.content, found.structured_content) == ([], {"n": 5})
    assert fitted({"resources": [1]}) == {"resources": [1]}


def test_what_is_no_object_is_no_structured_content_of_older_revisions() -> None:
    for structured in (None, [1], "a"):
        sent = {"content": [{"type": "text", "text": "7"}], "structuredContent": structured}
        assert fitted(sent) == {"content": sent["content"]}
        assert fitted({**sent, "resultType": "complete"})["structuredContent"] == structured


@pytest.mark.parametrize(
    ("tool", "problem"),
    [
        ({"name": "bad"}, "`inputSchema`: Field required"),
        ({"name": "bad", "inputSchema": {"type": "string"}}, "`inputSchema.type`: Input should"),
        ({"name": "bad", "inputSchema": {"anyOf": []}}, "`inputSchema.type`: Field required"),
        ({"name": 5, "inputSchema": OBJECT}, "`name`: Input should be a valid string"),
        ("bad", "``: Input should be a valid dictionary"),
    ],
    ids=str,
)
def test_a_malformed_tool_is_listed_with_its_problem(tool: Any, problem: str) -> None:
    for modern in ({}, {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}):
        good = {"name": "good", "inputSchema": OBJECT}
        first, second = ListToolsResult.model_validate(fitted({"tools": [good, tool]})).tools
        assert (first.name, first.meta) == ("good", None)
        assert (second.meta or {})[PROBLEM].startswith(problem), modern


class Pages:
    """The pages of a server, by their cursors."""

    def __init__(self, pages: dict[str | None, Any]) -> None:
        self.pages, self.session = pages, self

    async def list_tools(self, params: Any) -> Any:
        names, cursor = self.pages[params.cursor] or ([], None)
        if isinstance(names, Exception):
            raise names
        tools = [{"name": name, "inputSchema": OBJECT, "description": cursor} for name in names]
        return ListToolsResult.model_validate({"tools": tools, "nextCursor": cursor})


@pytest.mark.parametrize(
    ("pages", "names"),
    [
        ({None: (["a"], ""), "": (["b"], None)}, ["a", "b"]),
        ({None: ([], "x"), "x": ([], "y"), "y": (["a"], None)}, ["a"]),
        ({None: (["a"], ""), "": (["a"], "")}, ["a"]),
        ({None: (["a"], "x"), "x": (["b"], "x")}, ["a", "b"]),
        ({None: (["a"], ""), "": (MCPError(INVALID_PARAMS, "no such cursor"), None)}, ["a"]),
        ({None: (["a", "a"], None)}, ["a"]),
    ],
    ids=str,
)
async def test_pages_are_read_until_there_is_no_cursor(
    pages: dict[str | None, Any], names: list[str]
) -> None:
    found = await servers._list_all(Pages(pages))  # type: ignore[arg-type]
    assert [each.name for each in found] == names


async def test_pages_without_an_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "MAX_TOOLS", 3)
    endless: dict[str | None, Any] = {
        None: ([], "1"),
        **{str(n): ([], str(n + 1)) for n in range(1, 9)},
    }
    with pytest.raises(ValueError, match="more than 3 tools, or pages"):
        await servers._list_all(Pages(endless))  # type: ignore[arg-type]


def answering(body: bytes, kind: str) -> Callable[[httpx2.Request], httpx2.Response]:
    return lambda request: httpx2.Response(200, headers={"content-type": kind}, content=body)


async def test_an_error_of_a_server_over_http_is_no_lost_connection() -> None:
    error = {"code": CONNECTION_CLOSED, "message": "not found"}
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
    ends = b"".join(b"event: message\r\ndata: %s\r\n\r\n" % each for each in (b"", body))
    for answer, kind in ((body, "application/json"), (ends, "text/event-stream")):
        transport = httpx2.MockTransport(answering(answer, kind))
        async with McpHttpClient(transport=transport) as http:
            http.is_open = True
            read = await http.post("http://shop.example", json={"id": 7, "method": "tools/call"})
            sent = json.loads((await read.aread()).rpartition(b"data:")[2])
        assert sent == {"jsonrpc": "2.0", **failure("not found")}


async def test_an_event_in_several_lines_is_passed_on() -> None:
    lines = b'data: {"jsonrpc": "2.0", "id": 7,\ndata: "result": {}}\n\n: end'
    transport = httpx2.MockTransport(answering(lines, "text/event-stream"))
    async with McpHttpClient(transport=transport) as http:
        read = await http.post("http://shop.example", json={"id": 7})
        assert await read.aread() == lines


async def test_an_error_of_a_request_does_not_end_its_session() -> None:
    request = httpx2.Request("POST", "https://a.example", headers={"mcp-session-id": "s"})

    def answer(code: int) -> httpx2.Response:
        error = {"code": code, "message": "session_date is required"}
        return httpx2.Response(400, json={"jsonrpc": "2.0", "error": error}, request=request)

    assert b"session_date" in (await _checked(request, answer(-32602), is_open=True)).content
    for code in (-32000, -32600):
        with pytest.raises(SessionEndedError):
            await _checked(request, answer(code), is_open=True)
