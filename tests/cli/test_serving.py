"""What serves the codec endpoint and the inbox: how many, whom it believes, and that it stops."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.cli import serving

HERE = "127.0.0.1"


@asynccontextmanager
async def served(app: ASGIApp, most: int = 10) -> AsyncIterator[httpx.AsyncClient]:
    """Somebody who asks an application at work, which is stopped in the end."""
    with socket.create_server((HERE, 0)) as listening:
        server = serving.server(app, most)
        task = asyncio.create_task(server.serve([listening]))
        address = f"http://{HERE}:{listening.getsockname()[1]}"
        async with httpx.AsyncClient(base_url=address) as http:
            yield http
            server.should_exit = True
            async with asyncio.timeout(30):
                await task


async def says(send: Send, text: str) -> None:
    """Answer with a text."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": text.encode()})


async def from_where(scope: Scope, receive: Receive, send: Send) -> None:
    """Say from where it was asked."""
    await says(send, f"{scope['scheme']} {scope['client'][0]}")


async def test_nobody_says_of_themselves_where_they_are() -> None:
    said = {"x-forwarded-for": "10.0.0.7", "x-forwarded-proto": "https"}
    async with served(from_where) as http:
        answer = await http.get("/", headers=said)
    assert answer.text == f"http {HERE}"
    assert "server" not in answer.headers


async def test_there_is_a_bound_to_those_who_are_answered_at_once() -> None:
    at_work, go = asyncio.Semaphore(0), asyncio.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        at_work.release()
        await go.wait()
        await says(send, "done")

    async with served(slow, most=3) as http:
        first = [asyncio.create_task(http.get("/")) for _ in range(2)]
        for _ in first:
            await at_work.acquire()
        assert (await http.get("/")).status_code == 503
        go.set()
        assert [one.status_code for one in await asyncio.gather(*first)] == [200, 200]


async def test_who_is_answered_without_end_does_not_hold_up_its_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serving, "STOP_TIMEOUT_SECONDS", 0.1)
    begun = asyncio.Event()

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with served(endless) as http:
        asking = asyncio.create_task(http.get("/"))
        await begun.wait()
    with pytest.raises(httpx.HTTPError):
        await asking
