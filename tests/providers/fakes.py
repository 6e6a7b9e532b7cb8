"""What tests of `generate` and of providers stand on: a model's server, a run's log, a sink."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import httpx

from holdfast.activities.model.conversation_cache import CachedConversation, fragments
from holdfast.providers.answer.streamed_answer import StreamedAnswer
from holdfast.providers.base import EncodedMessage, ProviderRequest, ToolNames, tool_names
from holdfast.providers.contents import without_remote_media
from holdfast.providers.openai.format import OpenAIFormat
from holdfast.providers.transport.http import HttpProvider, ProviderFormat
from holdfast.providers.transport.target import EndpointTarget
from holdfast.schemas.base import canonical_json
from holdfast.schemas.internal.model_request import Ask
from holdfast.schemas.internal.solution import Solution
from holdfast.schemas.message import ChatMessage
from holdfast.schemas.settings.endpoints import Endpoint

KEY = "sk-test-1234567890"
TOOLS = [
    {"name": "rag.query", "description": "Search.", "parameters": {"type": "object"}},
    {"name": "refund", "description": "", "parameters": {"type": "object"}},
]


def ask(**changes: Any) -> Ask:
    """An ask of the model `gpt-test` at the endpoint `openai`; `changes` replace its fields."""
    model = {"endpoint": "openai", "name": "gpt-test", **changes.pop("model", {})}
    return Ask.read({"model": model, "instructions": "Be brief.", **changes})


def chat_message(role: str, content: Any = "", **more: Any) -> ChatMessage:
    return ChatMessage.read({"role": role, "content": content, **more})


def target(**endpoint: Any) -> EndpointTarget:
    """An endpoint with a key."""
    settings = {"provider": "openai", "baseUrl": "https://api.openai.com/v1", **endpoint}
    settings.setdefault("apiKeyEnv", "TEST_KEY")
    return EndpointTarget("openai", Endpoint.model_validate(settings), {"TEST_KEY": KEY})


NAMES = tool_names(ask(tools=TOOLS).tools)


def fragments_of(
    spoken: ProviderFormat | HttpProvider, *messages: ChatMessage, names: ToolNames = NAMES
) -> tuple[bytes, ...]:
    """A conversation of these messages, as a worker holds it in a format, or for a provider."""

    def encode(message: ChatMessage) -> EncodedMessage:
        if isinstance(spoken, ProviderFormat):
            message = without_remote_media(message, spoken.fetched)
        return spoken.encode(message, names)

    held = CachedConversation()
    for message in messages:
        item = canonical_json({"message": message.to_json()}).decode("utf-8", "surrogatepass")
        held.append(item, encode)
    return fragments(held.messages())


def sent_body(
    spoken: ProviderFormat, *messages: ChatMessage, host: str = "", **asked: Any
) -> bytes:
    """The body of a request of these messages, or of a greeting, with these settings."""
    sent = fragments_of(spoken, *messages or [chat_message("user", "Hi")])
    return spoken.body(ProviderRequest(ask(**asked), sent), host)


class ReceivedText:
    def __init__(self) -> None:
        self.texts: list[str] = []
        self.calls: list[tuple[int, str, str]] = []

    def text(self, piece: str) -> None:
        self.texts.append(piece)

    def call(self, index: int, tool: str, piece: str) -> None:
        self.calls.append((index, tool, piece))

    def withdraw(self) -> None:
        self.texts.clear()
        self.calls.clear()


def read_answer(
    spoken: ProviderFormat,
    *chunks: bytes,
    heard: ReceivedText | None = None,
    names: ToolNames = NAMES,
) -> Solution:
    """What a format makes of the bytes of a response."""
    decoder = spoken.event_decoder()
    reading = spoken.answer_reader(StreamedAnswer(heard or ReceivedText(), names))
    for piece in chunks:
        for event in decoder.feed(piece):
            reading.read(event)
            if reading.is_done:
                return reading.solution()
    reading.finish(decoder.rest() or "", decoder.stray)
    return reading.solution()


def chunk(
    delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any
) -> dict[str, Any]:
    """A chunk of a chat completion; one of its usage has no choice."""
    choices = [{"index": 0, "delta": delta or {}, "finish_reason": finish}]
    return {"model": "gpt-test-2026", "choices": [] if "usage" in more else choices, **more}


def stream(chunks: Iterable[Any], end: str = "data: [DONE]\n\n") -> bytes:
    """Server-sent events: values as JSON, and texts as they are."""
    texts = (each if isinstance(each, str) else json.dumps(each) for each in chunks)
    return "".join(f"data: {text}\n\n" for text in texts).encode() + end.encode()


Handler = Callable[[httpx.Request], httpx.Response]


def answering(*bodies: bytes) -> tuple[Handler, list[dict[str, Any]]]:
    """A handler that answers with one body after the other, and what it was asked."""
    asked: list[dict[str, Any]] = []

    def handle(request: httpx.Request) -> httpx.Response:
        asked.append(json.loads(request.content))
        body = bodies[min(len(asked), len(bodies)) - 1]
        return httpx.Response(200, content=body)

    return handle, asked


def provider(handler: Handler, at: EndpointTarget | None = None) -> HttpProvider:
    """The provider `openai`, asking a function in place of a network."""
    return HttpProvider(
        OpenAIFormat(), at or target(), httpx.AsyncClient(transport=httpx.MockTransport(handler))
    )


def request(asked: Ask | None = None, *messages: ChatMessage) -> ProviderRequest:
    """A request with a conversation, encoded for `openai`."""
    asked = asked or ask()
    messages = messages or (chat_message("user", "Hello"),)
    names = tool_names(asked.tools)
    return ProviderRequest(asked, fragments_of(OpenAIFormat(), *messages, names=names))


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(serve: Serve) -> AsyncIterator[str]:
    """A server on loopback that reads one request a connection and then runs `serve`."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        try:
            await serve(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    finally:
        server.close()


def head(status: str = "200 OK", **headers: str) -> bytes:
    """The beginning of an event stream over HTTP/1.1, sent in chunks."""
    lines = {"content-type": "text/event-stream", "transfer-encoding": "chunked", **headers}
    fields = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"HTTP/1.1 {status}\r\n{fields}\r\n".encode()


def http_chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"
