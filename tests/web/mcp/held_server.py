"""`holdfast mcp`, held between two of its messages: `python held_server.py mcp --listen …`.

The messages of a call are its request and its answer, and the requests to Temporal with their
replies. The file `MCP_POINTS` receives each point in between; at that of the number `MCP_HOLD`, the
process stays until the file `….free` exists.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from temporalio.service import _BridgeServiceClient

from holdfast.cli import main
from holdfast.web.http import serving

FILE, HOLD = "MCP_POINTS", "MCP_HOLD"
_reached: list[str] = []


def reach(point: str) -> None:
    """Write the point down, and stay if it is the one to stay at."""
    _reached.append(point)
    file = Path(os.environ[FILE])
    with file.open("a", encoding="utf-8") as lines:
        lines.write(f"{point}\n")
    is_held = len(_reached) == int(os.environ[HOLD])
    while is_held and not file.with_suffix(".free").exists():
        time.sleep(0.01)


class HeldApplication:
    """An application whose tool calls have points."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        is_call = False

        async def receive_() -> Any:
            nonlocal is_call
            message = await receive()
            if body := message.get("body"):
                is_call = json.loads(body)["method"] == "tools/call"
            if is_call and body:
                reach("request received")
            return message

        async def send_(message: Any) -> None:
            is_answer = is_call and b"result" in message.get("body", b"")
            if is_answer:
                reach("answer ready")
            await send(message)
            if is_answer:
                reach("answer sent")

        await self._app(scope, receive_, send_)


def install() -> None:
    """Have this process reach its points."""
    rpc, server = _BridgeServiceClient._rpc_call, serving.server

    async def rpc_(self: Any, **given: Any) -> Any:
        reach(f"{given['rpc']} ready")
        reply = await rpc(self, **given)
        reach(f"{given['rpc']} replied")
        return reply

    setattr(_BridgeServiceClient, "_rpc_call", rpc_)  # noqa: B010
    setattr(serving, "server", lambda app, *args: server(HeldApplication(app), *args))  # noqa: B010


if __name__ == "__main__":
    install()
    sys.exit(main.command_line(sys.argv[1:]))
