"""News, and the three places where it arrives: a program, a mail server, Slack."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from holdfast.schemas.decision import Decided, PendingApproval
from holdfast.schemas.settings.notify import News
from holdfast.web.http.serving import open_listener

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
WAITING = PendingApproval(
    call_id="t2c1",
    kind="call",
    tool="refund",
    label="Refund an order",
    arguments={"order_id": "A-7", "amount": 120},
    reasoning="It arrived broken.",
    digest="d" * 64,
    requested_at="2026-01-02T03:04:05.678Z",
    expires_at="2026-01-09T03:04:05.678Z",
    approvers=["finance", "legal"],
    quorum=2,
)
DECIDED = Decided(
    decision="deny", by="bob", at="2026-01-02T04:00:00.000Z", digest="d" * 64, reason="too much"
)


def news(kind: Any = "asked", waiting: dict[str, Any] | None = None, **more: Any) -> News:
    """News of a refund that waits, with these fields."""
    said: dict[str, Any] = {
        "id": f"question-{kind}",
        "about": "question",
        "at": "2026-01-02T03:04:05.678Z",
        "workflow_id": "order/7",
        "agent": "desk",
        "principal": "ada",
        "lapse": "deny",
        "decided": DECIDED if kind == "decided" else None,
        **more,
    }
    return News(kind=kind, waiting=WAITING.model_copy(update=waiting or {}), **said)


@dataclass
class ReceivedRequest:
    """One request as it arrived."""

    headers: dict[str, str]
    body: bytes
    path: str = ""

    @property
    def json(self) -> Any:
        """Its text."""
        return json.loads(self.body)


@dataclass
class Listening:
    """A program that listens: what it received, and what it answers."""

    url: str = ""
    heard: list[ReceivedRequest] = field(default_factory=list)
    answer: Callable[[int], Response] = lambda _: Response(status_code=204)


def posts(number: int) -> Response:
    """What Slack answers: that it has posted the message, or changed it."""
    return JSONResponse({"ok": True, "channel": "C024BE91L", "ts": f"1503435956.{number:06}"})


@asynccontextmanager
async def listening() -> AsyncIterator[Listening]:
    """A program that listens on this machine; `answer` is given how many requests there were."""
    program = Listening()

    async def receive(request: Request) -> Response:
        heard = ReceivedRequest(dict(request.headers), await request.body(), request.url.path)
        program.heard.append(heard)
        return program.answer(len(program.heard))

    application = Starlette(routes=[Route("/{path:path}", receive, methods=["POST", "GET"])])
    server = uvicorn.Server(uvicorn.Config(application, log_config=None, lifespan="off"))
    with open_listener("127.0.0.1", 0) as taken:
        # A connection before it serves is kept waiting by the system, and not here.
        serving = asyncio.create_task(server.serve([taken]))
        program.url = f"http://127.0.0.1:{taken.getsockname()[1]}/hook"
        try:
            yield program
        finally:
            server.should_exit = True
            await serving
