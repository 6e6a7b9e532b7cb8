"""Connections are kept from turn to turn, and one that was closed meanwhile is no failure."""

import asyncio
import contextlib
import gc
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx
import pytest

from holdfast.catalog.endpoints import http_client
from holdfast.providers.openai.format import OpenAIFormat
from holdfast.providers.transport import http
from holdfast.providers.transport.http import HttpProvider
from tests.providers.fakes import ReceivedText, chunk, head, http_chunk, request, stream, target

HELLO = stream([chunk({"content": "Hello"}), chunk(finish="stop")])
END = b"0\r\n\r\n"
# What a server does with a request, by its number on its connection.
Answer = Callable[[StreamWriter, int], None]


class CountingServer:
    """Counts the connections, and the requests that they brought."""

    def __init__(self, answer: Answer) -> None:
        self.connections = self.requests = 0
        self._answer = answer

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        self.connections += 1
        number = 0
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while not writer.is_closing():
                sent = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(int(sent.lower().split(b"content-length:")[1].split()[0]))
                number += 1
                self.requests += 1
                self._answer(writer, number)
        writer.close()


@asynccontextmanager
async def asking(server: CountingServer) -> AsyncIterator[HttpProvider]:
    serving = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{serving.sockets[0].getsockname()[1]}/v1"
    try:
        async with http_client() as http:
            yield HttpProvider(OpenAIFormat(), target(baseUrl=url), http)
    finally:
        serving.close()


async def answers(server: CountingServer, times: int) -> list[str]:
    async with asking(server) as model:
        return [(await model.solve(request(), ReceivedText())).text for _ in range(times)]


def sends_hello(writer: StreamWriter, _: int) -> None:
    """A server as most are."""
    writer.write(head() + http_chunk(HELLO) + END)


async def test_all_turns_go_over_one_connection() -> None:
    server = CountingServer(sends_hello)
    assert await answers(server, 3) == ["Hello"] * 3
    assert server.connections == 1


async def test_a_request_is_freed_with_its_answer_and_not_by_the_garbage_collector() -> None:
    def requests_in_memory() -> int:
        return sum(isinstance(each, httpx.Request) for each in gc.get_objects())

    gc.collect()
    before = requests_in_memory()
    gc.disable()
    try:
        assert await answers(CountingServer(sends_hello), 3) == ["Hello"] * 3
        assert requests_in_memory() == before
    finally:
        gc.enable()


async def test_an_end_that_comes_a_little_later_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "END_SECONDS", 10)

    def answer(writer: StreamWriter, _: int) -> None:
        writer.write(head() + http_chunk(HELLO))
        asyncio.get_running_loop().call_later(0.005, writer.write, END)

    server = CountingServer(answer)
    assert await answers(server, 2) == ["Hello"] * 2
    assert server.connections == 1


async def test_an_end_that_does_not_come_costs_the_connection_alone() -> None:
    server = CountingServer(lambda writer, _: writer.write(head() + http_chunk(HELLO)))
    assert await answers(server, 2) == ["Hello"] * 2
    assert server.connections == 2


@pytest.mark.parametrize("end", [StreamWriter.close, lambda writer: writer.transport.abort()])
async def test_a_connection_that_ends_when_it_is_used_again_is_replaced(
    end: Callable[[StreamWriter], None],
) -> None:
    def answer(writer: StreamWriter, number: int) -> None:
        if number == 1:
            sends_hello(writer, number)
        else:
            end(writer)

    server = CountingServer(answer)
    assert await answers(server, 3) == ["Hello"] * 3
    assert (server.connections, server.requests) == (3, 5)


async def test_a_connection_that_ends_later_is_a_failure_since_the_request_may_have_arrived(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "CLOSED_SECONDS", 0)

    def answer(writer: StreamWriter, number: int) -> None:
        if number == 1:
            sends_hello(writer, number)
        else:
            writer.close()

    server = CountingServer(answer)
    with pytest.raises(httpx.RemoteProtocolError):
        await answers(server, 2)
    assert server.requests == 2


async def test_a_new_connection_that_is_closed_is_a_failure_and_not_asked_again() -> None:
    server = CountingServer(lambda writer, _: writer.close())
    with pytest.raises(httpx.RemoteProtocolError):
        await answers(server, 1)
    assert server.requests == 1


async def test_a_started_answer_is_not_requested_again() -> None:
    def answer(writer: StreamWriter, number: int) -> None:
        if number == 1:
            sends_hello(writer, number)
        else:
            writer.write(head() + http_chunk(stream([chunk({"content": "Hel"})], end="")))
            writer.close()

    server = CountingServer(answer)
    with pytest.raises(httpx.RemoteProtocolError):
        await answers(server, 2)
    assert server.requests == 2
