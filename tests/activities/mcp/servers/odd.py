"""An MCP server without the library, and with one thread: `python odd.py` serves it by stdio."""

import json
import os
import sys
import time
from typing import Any

SECRET = "ODD_SECRET"
OBJECT = {"type": "object"}
PICTURE = {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgoA" + "A" * 4_000}
RESULTS: dict[str, Any] = {
    "object": {"content": [], "structuredContent": {"answer": 42}},
    "both": {"content": [{"type": "text", "text": "42"}], "structuredContent": {"answer": 42}},
    "failure": {"content": [], "structuredContent": {"code": 7}, "isError": True},
    "picture": {
        "content": [{"type": "text", "text": "no ink"}, PICTURE],
        "isError": True,
    },
    "junk": {"content": [{"type": "text", "text": "after lines of its own"}]},
    "hang": {"content": []},
    "half": {"content": [{"type": "text", "text": "half \ud83d"}, {"type": "video"}]},
    "refuse": {},
    "cut": {},
    "pid": {"content": [{"type": "text", "text": str(os.getpid())}]},
}


def write(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def result_of(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """Return the result of a request."""
    if method == "initialize":
        info = {"name": "odd", "version": "1"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        tools = [{"name": name, "inputSchema": OBJECT} for name in RESULTS]
        return {"tools": [{"name": "malformed"}, *tools]}
    if method != "tools/call":
        return None
    if params["name"] == "hang":
        time.sleep(3_600)
    if params["name"] == "junk":
        print(f"started with the token {os.environ[SECRET]}\n{{\n\x1b[2J")
        write(method="notifications/progress", params={"progressToken": "none", "progress": 1})
        write(method="notifications/tools/list_changed")
        write(id=99_999, result={})
    return RESULTS[params["name"]]  # type: ignore[no-any-return]


def serve() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request or "method" not in request:
            continue
        if request.get("params", {}).get("name") == "refuse":
            write(id=request["id"], error={"code": -32000, "message": "out of stock"})
        elif request.get("params", {}).get("name") == "cut":
            print(f'{{"jsonrpc": "2.0", "id": {request["id"]}, "result": {{', flush=True)
        elif (found := result_of(request["method"], request.get("params", {}))) is None:
            write(id=request["id"], error={"code": -32601, "message": "there is no such method"})
        else:
            write(id=request["id"], result=found)


if __name__ == "__main__":
    serve()
