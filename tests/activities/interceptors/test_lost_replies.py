"""Which errors of client libraries leave the outcome of a request unknown."""

import asyncio
import http.client
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import requests

from holdfast.activities.interceptors.once import LOST_REPLIES, lost_reply


@asynccontextmanager
async def server(silent: bool) -> AsyncIterator[str]:
    """Reads a request, and then sends nothing or breaks the connection."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if silent:
            await reader.read()
        writer.transport.abort()

    listening = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with listening:
        port = listening.sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"


def refusing() -> str:
    """Where no program listens."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{unused.getsockname()[1]}"


async def with_httpx(url: str) -> None:
    async with httpx.AsyncClient(timeout=httpx.Timeout(60, read=0.2), trust_env=False) as client:
        await client.post(url)


async def with_requests(url: str) -> None:
    with requests.Session() as session:
        session.trust_env = False
        await asyncio.to_thread(session.post, url, timeout=(60, 0.2))


async def with_http_client(url: str) -> None:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=0.2)
    try:
        await asyncio.to_thread(connection.request, "POST", "/")
        await asyncio.to_thread(connection.getresponse)
    finally:
        connection.close()


async def wrapped(url: str) -> None:
    """As tools often do it."""
    try:
        await with_httpx(url)
    except httpx.HTTPError as error:
        raise RuntimeError("the bank is away") from error


PAGE = Path(__file__).parents[3] / "docs" / "tools" / "tools.md"
CLIENTS = [with_httpx, with_requests, with_http_client, wrapped]
Request = Callable[[str], Awaitable[None]]


async def error_of(request: Request, url: str) -> Exception:
    """The error of a request."""
    try:
        await request(url)
    except Exception as error:
        return error
    raise AssertionError("it was answered")


@pytest.mark.parametrize("request_", CLIENTS)
@pytest.mark.parametrize("silent", [True, False])
async def test_a_reply_that_does_not_come_is_lost(request_: Request, silent: bool) -> None:
    async with server(silent) as url:
        assert lost_reply(await error_of(request_, url)) is not None


@pytest.mark.parametrize("request_", CLIENTS)
async def test_a_request_that_was_not_sent_has_no_lost_reply(request_: Request) -> None:
    assert lost_reply(await error_of(request_, refusing())) is None


def made(package: str, name: str, **more: object) -> Exception:
    """An error of a library that is not installed here."""
    error: Exception = type(name, (Exception,), {"__module__": package, **more})("gone")
    return error


def status(name: str) -> Callable[..., object]:
    """The method by which an error of gRPC returns its status."""
    return lambda _: type("Status", (), {"name": name})


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (made("aiohttp.client_exceptions", "ServerDisconnectedError"), True),
        (made("aiohttp.client_exceptions", "ClientConnectorError"), False),
        (made("botocore.exceptions", "ReadTimeoutError"), True),
        (made("botocore.exceptions", "EndpointConnectionError"), False),
        (made("grpc.aio._call", "AioRpcError", code=status("UNAVAILABLE")), True),
        (made("grpc.aio._call", "AioRpcError", code=status("INVALID_ARGUMENT")), False),
        (made("my_bank", "ReadTimeout"), False),
        (ConnectionResetError(), True),
        (ExceptionGroup("both", [ValueError(), BrokenPipeError()]), True),
        (ValueError("no money"), False),
    ],
)
def test_types_are_known_by_their_names(error: Exception, lost: bool) -> None:
    assert (lost_reply(error) is not None) == lost


def test_a_connection_that_timed_out_was_not_sent_unless_a_request_before_it_was() -> None:
    late = made("httpx", "ConnectTimeout")
    late.__context__ = TimeoutError()
    assert lost_reply(late) is None
    late.__context__ = made("httpx", "ReadTimeout")
    assert lost_reply(late) == "httpx.ReadTimeout: gone"
    late.__suppress_context__ = True
    assert lost_reply(late) is None


def test_the_page_lists_every_type() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for package, types in LOST_REPLIES.items():
        assert f"| {package} | {', '.join(f'`{name}`' for name in types.split())} |" in page
