"""The provider `openai`: chat completions, of OpenAI or of any server that speaks them.

Source: OpenAI's API reference, "Create chat completion" and its streaming events.
"""

import httpx

from holdfast.providers.base import EncodedMessage, ProviderRequest, ToolNames
from holdfast.providers.openai.answer import OpenAIAnswerReader
from holdfast.providers.openai.request import RESERVED, body, encode, is_own, unsaid
from holdfast.providers.streamed_answer import StreamedAnswer
from holdfast.providers.transport.sse import SseDecoder
from holdfast.providers.transport.target import EndpointTarget
from holdfast.schemas.internal.model_request import Ask
from holdfast.schemas.message import ChatMessage


class OpenAIFormat:
    """The format of chat completions."""

    kind = "openai"
    reserved: tuple[str, ...] = RESERVED

    def url(self, target: EndpointTarget, ask: Ask) -> httpx.URL:
        """`BASE/chat/completions`; the base holds the version."""
        return target.url("/chat/completions")

    def headers(self, key: str | None) -> dict[str, str]:
        """The key as a bearer token."""
        return {"authorization": f"Bearer {key}"} if key is not None else {}

    def unsupported_notices(self, ask: Ask) -> list[str]:
        """Some schemas of an answer are beyond what it is held to."""
        return unsaid(ask)

    def shows_schema(self, ask: Ask, host: str) -> bool:
        """OpenAI does. Other servers hold the answer to it, and say nothing of it to the model."""
        return is_own(host)

    def encode(self, message: ChatMessage, names: ToolNames) -> EncodedMessage:
        """The message as chat completions have it."""
        return encode(message, names)

    def body(self, request: ProviderRequest, host: str) -> bytes:
        """The messages first, then the settings."""
        return body(request, host)

    def event_decoder(self) -> SseDecoder:
        """Server-sent events."""
        return SseDecoder()

    def answer_reader(self, answer: StreamedAnswer) -> OpenAIAnswerReader:
        """Chunks, or one whole completion."""
        return OpenAIAnswerReader(answer)
