"""What tests of `generate` and of providers stand on: a model's server, a run's log, a sink."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import httpx
from openai.types.chat import ChatCompletionChunk
from pydantic import TypeAdapter

from holdfast.activities.model.conversation_cache import CachedConversation, RunKey, fragments
from holdfast.providers.answer.streamed_answer import StreamedAnswer
from holdfast.providers.base import EncodedMessage, ProviderRequest, ToolNames
from holdfast.providers.content import without_remote_media
from holdfast.providers.openai.format import OpenAIFormat
from holdfast.providers.transport.http import HttpProvider, ProviderFormat
from holdfast.providers.transport.target import EndpointTarget
from holdfast.schemas.base import canonical_json, link, sha256
from holdfast.schemas.internal.model_request import (
    Ask,
    ConversationPage,
    ConversationPageRequest,
    ConversationPointer,
)
from holdfast.schemas.internal.solution import Solution
from holdfast.schemas.message import ChatMessage
from holdfast.schemas.settings.endpoints import Endpoint

KEY = "sk-test-1234567890"
RUN = RunKey("agent-1", "run-1")
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


NAMES = ToolNames(ask(tools=TOOLS).tools)


def fragments_of(
    spoken: ProviderFormat, *messages: ChatMessage, names: ToolNames = NAMES
) -> tuple[bytes, ...]:
    """A conversation of these messages, as a worker holds it in a format."""

    def encode(message: ChatMessage) -> EncodedMessage:
        return spoken.encode(without_remote_media(message, spoken.fetched), names)

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
    """A chunk as OpenAI's own server sends it; its package's type vouches for that."""
    choices = [{"index": 0, "delta": delta or {}, "finish_reason": finish}]
    whole = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": "gpt-test-2026",
        "choices": [] if "usage" in more else choices,
        **more,
    }
    TypeAdapter(ChatCompletionChunk).validate_python(whole, strict=True)
    return whole


def calls(*pieces: tuple[int, str | None, str | None, str]) -> dict[str, Any]:
    """A chunk with pieces of calls: index, id, name, arguments."""
    return chunk(
        {
            "tool_calls": [
                {"index": index, "id": own, "function": {"name": name, "arguments": arguments}}
                for index, own, name, arguments in pieces
            ]
        }
    )


def stream(chunks: Iterable[Any], end: str = "data: [DONE]\n\n") -> bytes:
    return "".join(f"data: {json.dumps(each)}\n\n" for each in chunks).encode() + end.encode()


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
    names = ToolNames(asked.tools)
    return ProviderRequest(asked, fragments_of(OpenAIFormat(), *messages, names=names))


class LoggedRun:
    """A run's log, and the pages that it answers: of `size` characters at most."""

    def __init__(self, asked: Ask | None = None, size: int = 1_000_000) -> None:
        self.ask = asked or ask()
        self.size = size
        self.items: list[str] = []
        self.wanted: list[ConversationPageRequest] = []
        self.error: Exception | None = None

    def append(self, *messages: ChatMessage) -> None:
        for message in messages:
            entry = {"type": "message", "n": len(self.items) + 1, "message": message.to_json()}
            self.items.append(canonical_json(entry).decode())

    def summarise(self, upto: int, text: str) -> None:
        entry = {"type": "summary", "n": len(self.items) + 1, "upto": upto, "text": text}
        self.items.append(canonical_json(entry).decode())

    def note(self) -> None:
        """Append an entry that the model does not see."""
        self.items.append("#" + sha256(f"{len(self.items)}".encode()))

    def pointer(self, entries: int | None = None, since: int = 0) -> ConversationPointer:
        """The place after `entries` entries; without, the end. What is read begins `since`."""
        upto = len(self.items[:entries])
        origin = self._digest(since)
        digest = self._digest(upto)
        return ConversationPointer(turn=1, entries=upto, digest=digest, since=since, origin=origin)

    def _digest(self, upto: int) -> str:
        digest = ""
        for item in self.items[:upto]:
            own = item[1:] if item.startswith("#") else sha256(item.encode())
            digest = link(digest, own)
        return digest

    async def page(self, run: RunKey, want: ConversationPageRequest) -> ConversationPage:
        assert run == RUN
        self.wanted.append(want)
        if self.error is not None:
            raise self.error
        items, room = [], self.size
        cut = False
        for index in range(want.after, min(want.upto, len(self.items))):
            item = self.items[index][want.offset if index == want.after else 0 :]
            cut = len(item) > room
            items.append(item[:room])
            room -= len(items[-1])
            if room == 0:
                break
        return ConversationPage(items=items, cut=cut, ask=self.ask if want.offset == 0 else None)


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(serve: Serve) -> AsyncIterator[str]:
    """A server on loopback that reads one request a connection and then does `serve`."""

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
