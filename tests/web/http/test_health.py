"""`/health`: what is told while Temporal answers, while it does not, and however many ask."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import Request
from temporalio.service import RPCError, RPCStatusCode

from holdfast.web import monitoring as health
from holdfast.web.monitoring import InboxHealth

ASKED = Request({"type": "http"})


class Server:
    """A server that answers so, and is looked at so often."""

    def __init__(self, answer: Any = True) -> None:
        self.answer = answer
        self.looks = 0

    async def check_health(self) -> bool:
        """Whether it is well."""
        self.looks += 1
        await asyncio.sleep(0)
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer is None:
            await asyncio.Event().wait()
        return bool(self.answer)


def looking_at(server: Server) -> InboxHealth:
    """The health of an inbox at this server."""
    client: Any = SimpleNamespace(service_client=server)
    return InboxHealth(client)


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (True, 200),
        (False, 503),
        (None, 503),
        (RPCError("down", RPCStatusCode.UNAVAILABLE, b""), 503),
        (RuntimeError("there was never one"), 503),
    ],
    ids=["well", "not", "silent", "down", "never there"],
)
async def test_it_is_told_whatever_the_server_does(
    monkeypatch: pytest.MonkeyPatch, answer: Any, status: int
) -> None:
    monkeypatch.setattr(health, "ANSWER_TIMEOUT_SECONDS", 0.05)
    async with asyncio.timeout(5):
        assert (await looking_at(Server(answer)).answer(ASKED)).status_code == status


async def test_however_many_ask_it_is_looked_at_once_in_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(health, "BETWEEN_LOOKS_SECONDS", 1_000)
    server = Server()
    looking = looking_at(server)
    answers = await asyncio.gather(*(looking.answer(ASKED) for _ in range(5)))
    assert {one.status_code for one in answers} == {200}
    assert server.looks == 1


async def test_what_was_down_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "BETWEEN_LOOKS_SECONDS", 0)
    server = Server(False)
    looking = looking_at(server)
    assert (await looking.answer(ASKED)).status_code == 503
    server.answer = True
    assert (await looking.answer(ASKED)).status_code == 200
