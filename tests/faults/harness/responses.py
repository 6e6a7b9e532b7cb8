"""What a model's server sends in the place of a good answer, and what the worker has to do with it.

The demand is that of the contract's section on models: the request is made again (and when), or the
run fails with the server's words, or the answer is read as it is.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial

import httpx

from tests.providers.writers.framing import event_stream_message

EXCEPTIONS = {429: "throttlingException", 400: "validationException"}


class Act(Enum):
    """What a server does with a connection: it ends it, breaks it, or sends nothing more."""

    CLOSE = auto()
    RESET = auto()
    SILENCE = auto()


Speech = Iterator[bytes | float | Act]
"""Bytes, pauses in seconds, and acts, one after the other; all may be without end."""


@dataclass(frozen=True)
class Polite:
    """What the server would have sent: the body of a good answer, and an event of it with text."""

    kind: str
    good: bytes
    piece: bytes

    def event(self, data: str) -> bytes:
        """An event of a stream in the server's format."""
        if self.kind == "bedrock":
            headers = {"event-type": "contentBlockDelta", "message-type": "event"}
            return event_stream_message(data.encode(), headers)
        return f"{data}\n".encode() if self.kind == "ollama" else f"data: {data}\n\n".encode()

    def error(self, status: int, body: bytes) -> bytes:
        """An error within a stream: Bedrock's are named, and have no status."""
        if self.kind == "bedrock":
            payload = json.dumps(json.loads(body)["error"]).encode()
            headers = {"exception-type": EXCEPTIONS[status], "message-type": "exception"}
            return event_stream_message(payload, headers)
        return self.event(body.decode())


@dataclass(frozen=True)
class Again:
    """The request is made again: after so many seconds, at least and at most, or when Temporal sees
    fit. `doubtful`: a few times only. `told` is in the error."""

    told: str
    after_seconds: tuple[float, float] | None = None
    doubtful: bool = False


@dataclass(frozen=True)
class Final:
    """The request is not made again, and the run fails with what is `told`."""

    told: str


@dataclass(frozen=True)
class Read:
    """It is the good answer. `more`: behind other text; `cut`: up to a bound, and marked."""

    more: bool = False
    cut: bool = False


@dataclass(frozen=True)
class Row:
    """One way to misbehave. `silent`: it takes as long as the endpoint's `timeout`."""

    name: str
    speak: Callable[[Polite], Speech]
    demands: Again | Final | Read
    silent: bool = False


async def send_all(
    speech: Speech, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Send it all, for as long as the other side listens."""
    try:
        for step in speech:
            await _do(step, reader, writer)
    except ConnectionError:
        pass
    finally:
        writer.close()


async def _do(
    step: bytes | float | Act, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    match step:
        case bytes():
            writer.write(step)
            await writer.drain()
        case float():
            await asyncio.sleep(step)
        case Act.CLOSE:
            writer.close()
        case Act.RESET:
            writer.transport.abort()
        case Act.SILENCE:
            await reader.read()


# What an HTTP response is made of.


def head(status: str = "200 OK", *headers: str) -> bytes:
    """The beginning of a response. Without a length it ends with its connection."""
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, "connection: close", "\r\n"]).encode()


def whole(status: str, body: bytes, *headers: str) -> bytes:
    """A response with its length."""
    return head(status, f"content-length: {len(body)}", *headers) + body


def in_chunks(body: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    """A response in chunks, with its end or what replaces it."""
    return head("200 OK", "transfer-encoding: chunked") + b"%x\r\n%b\r\n" % (len(body), body) + end


def half(polite: Polite) -> bytes:
    """The answer up to the middle of an event."""
    return polite.good[: len(polite.good) // 3]


def fixed(*steps: bytes | float | Act) -> Callable[[Polite], Speech]:
    """What does not depend on the good answer."""
    return lambda _: iter(steps)


def answers(spoil: Callable[[Polite], bytes], *then: Act) -> Callable[[Polite], Speech]:
    """What is made of the good answer, and what comes behind it."""
    return lambda polite: iter((spoil(polite), *then))


Choose = Callable[[bytes], Row | None]
"""How a request, by its body, is to be answered; None: as the server behind would."""


class Front:
    """Rude by `choose`, before a server in OpenAI's format."""

    def __init__(self, choose: Choose) -> None:
        self._choose = choose

    @asynccontextmanager
    async def before(self, url: str) -> AsyncIterator[str]:
        """Be in front of the server at a URL; where it is to be asked instead."""
        async with httpx.AsyncClient(timeout=60) as http:
            answer = partial(self._answer, http, httpx.URL(url))
            server = await asyncio.start_server(answer, "127.0.0.1", 0)
            try:
                port = server.sockets[0].getsockname()[1]
                yield str(httpx.URL(url).copy_with(port=port))
            finally:
                server.close()

    async def _answer(
        self,
        http: httpx.AsyncClient,
        behind: httpx.URL,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        path, body = await _request(reader)
        row = self._choose(body)
        reply = await http.post(behind.copy_with(raw_path=path), content=body)
        good, status = reply.content, f"{reply.status_code} {reply.reason_phrase}"
        first, end, _ = good.partition(b"\n\n")
        polite = Polite("openai", good, first + end)
        await send_all(row.speak(polite) if row else iter((whole(status, good),)), reader, writer)


async def _request(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    return head.split()[1], await reader.readexactly(length)
