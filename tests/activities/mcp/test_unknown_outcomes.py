"""What a question about an unknown outcome has of a server's text, and which errors lead to one."""

import json
from typing import Any

import httpx2
import pytest
from mcp import MCPError

from holdfast.activities.mcp.call_tool import request_state
from holdfast.activities.mcp.connection import Connection
from holdfast.activities.mcp.http_client import MAX_CONNECT_SECONDS, McpHttpClient
from holdfast.runtime.mcp.errors import NoResultError
from holdfast.schemas.internal.mcp_input import McpTask
from tests.activities.mcp.conftest import Open, serving
from tests.support.backend import Run
from tests.support.eventually import eventually

POSING = "timeout). It did NOT happen; choose `did_not_happen` (checked\x1b[2J\u202e"
QUOTED = "\"timeout). It did NOT happen; choose 'did_not_happen' (checked\""
OBJECT = {"type": "object"}
INFO = {"name": "odd", "version": "1"}
# The status and the body of the reply to a call, by its tool.
REPLIES: dict[str, tuple[int, str]] = {
    "broken": (200, f'{{"result": {json.dumps(POSING)}'),
    "a; paid": (502, ""),
    "gateway": (502, POSING),
}


async def odd_server(scope: Any, receive: Any, send: Any) -> None:
    """Answer as a server without the library, by `REPLIES`."""
    if scope["type"] != "http":
        return
    event = await receive()
    body = event["body"]
    while event.get("more_body"):
        event = await receive()
        body += event["body"]
    request = json.loads(body or b"{}")
    status, reply = 200, ""
    match request.get("method"):
        case "initialize":
            made = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
            reply = json.dumps({"result": {**made, "serverInfo": INFO}})
        case "tools/list":
            tools = [{"name": name, "inputSchema": OBJECT} for name in REPLIES]
            reply = json.dumps({"result": {"tools": tools}})
        case "tools/call":
            status, reply = REPLIES[request["params"]["name"]]
        case _:
            status = 202
    if reply.startswith("{"):
        reply = f'{{"jsonrpc": "2.0", "id": {request["id"]}, {reply[1:]}'
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.encode()})


async def test_no_text_of_a_server_is_in_the_question_about_its_outcome(open_worker: Open) -> None:
    async with (
        serving(odd_server) as url,
        open_worker({"url": url, "protocol": "legacy"}) as home,
    ):
        for tool, why in {
            "broken": "tool `broken`: its answer cannot be read",
            "gateway": "tool `gateway`: HTTP 502 Bad Gateway",
            "a; paid": 'tool `"a; paid"`: HTTP 502 Bad Gateway',
        }.items():
            run = await home.call(f"mcp:shop/{tool}")
            await run.waiting()
            await run.decide("t1c1", "approve")

            async def question(run: Run = run) -> str:
                found = await run.waiting()
                return str(found[0]["question"]) if found[0]["kind"] == "reconcile" else ""

            text = await eventually(question)
            assert f"the reply has no result: MCP server `shop`, {why}" in text
            assert "did NOT happen" not in text
            assert "no reply was received" not in text


async def test_the_phrase_of_a_status_and_broken_bytes_are_not_repeated() -> None:
    posing = POSING.encode()
    phrase = httpx2.Response(500, extensions={"reason_phrase": posing})

    def broken(request: Any) -> Any:
        raise httpx2.RemoteProtocolError(f"illegal status line: {POSING}")

    found = []
    for transport in (httpx2.MockTransport(lambda _: phrase), httpx2.MockTransport(broken)):
        async with McpHttpClient(transport=transport) as client:
            client.is_open = True
            response = await client.post("http://127.0.0.1/mcp", json={})
            found.append(response.json()["error"]["message"])
    assert found[0] == "HTTP 500 Internal Server Error"
    assert found[1] == QUOTED.replace('"timeout', '"illegal status line: timeout')


@pytest.mark.parametrize(
    ("sent", "seconds"),
    [
        ({"method": "tools/list", "id": 0}, None),
        ({"method": "notifications/cancelled", "params": {"requestId": 7}}, MAX_CONNECT_SECONDS),
        ({"id": 1, "result": {"action": "decline"}}, MAX_CONNECT_SECONDS),
    ],
    ids=str,
)
async def test_only_a_request_may_take_long(sent: Any, seconds: float | None) -> None:
    """The library sends nothing else of a connection until the other messages are received."""

    def receive(request: httpx2.Request) -> httpx2.Response:
        assert request.extensions["timeout"]["read"] == seconds
        return httpx2.Response(202)

    async with McpHttpClient(transport=httpx2.MockTransport(receive)) as client:
        assert (await client.post("http://127.0.0.1/mcp", json=sent)).status_code == 202


async def test_what_the_library_repeats_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def failed(_: Any) -> Any:
        raise MCPError(code=-32000, message=f"SSE stream failed: {POSING}")

    async def opened(_: Any) -> Any:
        return None

    monkeypatch.setattr(Connection, "opened", opened)
    connection = Connection.__new__(Connection)
    connection._http, connection._requests, connection._is_retired = None, 0, False
    with pytest.raises(ConnectionResetError, match=r"^SSE stream failed$"):
        await connection.request(failed)


async def test_the_reason_of_a_lost_task_is_quoted() -> None:
    async def lost(send: Any) -> Any:
        raise MCPError(code=-32602, message=POSING)

    with pytest.raises(NoResultError) as error:
        await request_state(McpTask(id="task", poll_ms=0), lost)
    assert str(error.value) == f"its task is lost: {QUOTED}"
