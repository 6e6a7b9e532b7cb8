"""Serve an application under the path of its address, its `root`, which it does not see.

    request ─► without `root`, if it has it ─► application ─► pages, cookies, redirects with `root`

A proxy keeps the path or strips it: both are served. The operator sets it; no header names it. The
raw path decides, before any check of a request: what is authenticated is what is answered.
"""

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send


def under_path(app: ASGIApp, root: str) -> ASGIApp:
    """Return the application, served under `root`: `/holdfast`, or empty for a whole host."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        raw, path, start = scope["raw_path"], scope["path"], len(root)
        if (raw + b"/").startswith(f"{root}/".encode()):
            raw, path = raw[start:] or b"/", path[start:] or "/"

        async def send_with_root(message: Message) -> None:
            headers = message.get("headers", [])
            for index, (name, value) in enumerate(headers):
                if name == b"location" and value.startswith(b"/"):
                    headers[index] = (name, root.encode() + value)
            await send(message)

        state = {**scope.get("state", {}), "root": root}
        inner = {**scope, "raw_path": raw, "path": path, "state": state}
        await app(inner, receive, send_with_root)

    return answer


def root_of(connection: HTTPConnection) -> str:
    """Return the path that the application is served under; empty for a whole host."""
    return str(getattr(connection.state, "root", ""))
