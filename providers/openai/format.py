"""The provider `openai`: chat completions, of OpenAI or of any server that speaks them.

Source: OpenAI's API reference, "Create chat completion" and its streaming events.
"""

import httpx

from holdfast.providers.base import EncodedMessage, Request, ToolNames
from holdfast.providers.openai.answer import Completion
from holdfast.providers.openai.request import RESERVED, body, encode, is_own, unsaid
from holdfast.providers.streamed_answer import StreamedAnswer
from holdfast.providers.transport.sse import ServerSentEvents
from holdfast.providers.transport.target import Target
from holdfast.schemas.internal.model_request import Ask
from holdfast.schemas.message import ChatMessage


class OpenAI:
    """The format of chat completions."""

    kind = "openai"
    reserved: tuple[str, ...] = RESERVED

    def url(self, target: Target, ask: Ask) -> httpx.URL:
        """`BASE/chat/completions`; the base holds the version."""
        return target.url("/chat/completions")

    def headers(self, key: str | None) -> dict[str, str]:
        """The key as a bearer token."""
        return {"authorization": f"Bearer {key}"} if key is not None else {}

    def unsaid(self, ask: Ask) -> list[str]:
        """Some schemas of an answer are beyond what it is held to."""
        return unsaid(ask)

    def shows_form(self, ask: Ask, host: str) -> bool:
        """OpenAI does. Other servers hold the answer to it, and say nothing of it to the model."""
        return is_own(host)

    def encode(self, message: ChatMessage, names: ToolNames) -> EncodedMessage:
        """The message as chat completions have it."""
        return encode(message, names)

    def body(self, request: Request, host: str) -> bytes:
        """The messages first, then the settings."""
        return body(request, host)

    def stream(self) -> ServerSentEvents:
        """Server-sent events."""
        return ServerSentEvents()

    def reading(self, answer: StreamedAnswer) -> Completion:
        """Chunks, or one whole completion."""
        return Completion(answer)
