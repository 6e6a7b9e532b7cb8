"""One conversation with a server, over real connections: streams, cuts, silence and refusals."""

import asyncio
import contextlib
from asyncio import StreamReader, StreamWriter
from typing import Any

import httpx
import pytest

from holdfast.providers.base import UnanswerableRequest
from holdfast.providers.openai.format import OpenAIFormat
from holdfast.providers.transport.http import MAX_ANSWER_BYTES, HttpProvider
from holdfast.providers.transport.target import EndpointTarget
from holdfast.schemas.internal.model_request import Ask
from holdfast.schemas.internal.solution import Solution
from tests.providers.fakes import (
    KEY,
    Handler,
    ReceivedText,
    Serve,
    answering,
    chunk,
    head,
    http_chunk,
    provider,
    request,
    serving,
    stream,
    target,
)

HELLO = stream([chunk({"content": "Hello"}), chunk(finish="stop")])


async def solve(
    handler: Handler, asked: Ask | None = None, at: EndpointTarget | None = None
) -> Solution:
    return await provider(handler, at).solve(request(asked), ReceivedText())


async def solve_from(serve: Serve, heard: ReceivedText | None = None, **endpoint: Any) -> Solution:
    """What the provider makes of a server on loopback."""
    async with serving(serve) as url, httpx.AsyncClient() as http:
        openai = HttpProvider(OpenAIFormat(), target(baseUrl=url, **endpoint), http)
        return await openai.solve(request(), heard or ReceivedText())


def sending(*data: bytes, end: bytes = b"0\r\n\r\n") -> Serve:
    """A server that sends these chunks of a stream, and its end or what replaces it."""

    async def serve(_: StreamReader, writer: StreamWriter) -> None:
        writer.write(head() + b"".join(http_chunk(each) for each in data) + end)
        await writer.drain()

    return serve


async def test_a_stream_is_received_while_it_is_sent() -> None:
    go_on = asyncio.Event()

    async def serve(_: StreamReader, writer: StreamWriter) -> None:
        writer.write(head() + http_chunk(stream([chunk({"content": "Guten"})], end="")))
        await go_on.wait()
        rest = stream([chunk({"content": " Tag"}), chunk(finish="stop")])
        writer.write(http_chunk(rest) + b"0\r\n\r\n")

    class Listening(ReceivedText):
        def text(self, piece: str) -> None:
            super().text(piece)
            go_on.set()

    heard = Listening()
    assert (await solve_from(serve, heard)).text == "Guten Tag"
    assert heard.texts == ["Guten", " Tag"]


async def test_a_connection_that_breaks_after_the_end_loses_the_usage_alone() -> None:
    body = stream([chunk({"content": "Hello"}), chunk(finish="stop")], end="")
    solution = await solve_from(sending(body, end=b""))
    assert solution.text == "Hello"
    assert solution.usage.input_tokens is None


async def test_a_silence_longer_than_the_timeout_is_noticed() -> None:
    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        writer.write(head() + http_chunk(stream([chunk({"content": "Hel"})], end="")))
        await reader.read()

    with pytest.raises(httpx.ReadTimeout):
        await solve_from(serve, timeout="200ms")


async def test_cancelling_ends_the_request_at_once() -> None:
    asked, left = asyncio.Event(), asyncio.Event()

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        writer.write(head())
        asked.set()
        await reader.read()
        left.set()

    async with serving(serve) as url, httpx.AsyncClient() as http:
        task = asyncio.create_task(
            HttpProvider(OpenAIFormat(), target(baseUrl=url), http).solve(request(), ReceivedText())
        )
        await asked.wait()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        async with asyncio.timeout(120):
            await left.wait()


async def test_an_answer_without_end_is_read_up_to_a_bound() -> None:
    piece = stream([chunk({"content": "x" * 1_000})], end="") * 500

    async def serve(_: StreamReader, writer: StreamWriter) -> None:
        writer.write(head())
        with contextlib.suppress(ConnectionError):
            for _count in range(10 * MAX_ANSWER_BYTES // len(piece)):
                writer.write(http_chunk(piece))
                await writer.drain()

    solution = await solve_from(serve)
    assert solution.stop_reason == "length"
    assert "larger than 16777216 bytes" in solution.notices[0]


async def test_the_key_and_the_endpoint_s_headers_are_sent_and_nothing_is_compressed() -> None:
    seen: list[httpx.Request] = []

    def handle(asked: httpx.Request) -> httpx.Response:
        seen.append(asked)
        return httpx.Response(200, content=HELLO)

    at = target(baseUrl="http://localhost:8080/v1/", headers={"X-Team": "a"})
    await solve(handle, at=at)
    assert seen[0].url == "http://localhost:8080/v1/chat/completions"
    assert seen[0].headers["authorization"] == f"Bearer {KEY}"
    assert seen[0].headers["x-team"] == "a"
    assert seen[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize("key", ["", "two\nlines", "naïve"])
async def test_a_key_that_is_missing_or_invalid_is_reported_with_its_variable(key: str) -> None:
    at = EndpointTarget("openai", target().endpoint, {"TEST_KEY": key})
    with pytest.raises(UnanswerableRequest, match="TEST_KEY") as error:
        await solve(answering(HELLO)[0], at=at)
    assert not key or key not in str(error.value)
