"""The provider `anthropic`: the Messages API, of Anthropic or of any server that speaks it.

Sources: Anthropic's API reference ("Create a Message", "Streaming Messages", "Errors", "Handling
stop reasons", "Prompt caching", "Structured outputs", "Extended thinking") and the types of its
package for Python, where the reference is silent.
"""

import httpx

from holdfast.providers.anthropic.answer import AnthropicAnswerReader
from holdfast.providers.anthropic.request import RESERVED, body, encode, form_of, unsaid
from holdfast.providers.base import EncodedMessage, ProviderRequest, ToolNames
from holdfast.providers.streamed_answer import StreamedAnswer
from holdfast.providers.transport.sse import SseDecoder
from holdfast.providers.transport.target import EndpointTarget
from holdfast.schemas.internal.model_request import Ask
from holdfast.schemas.message import ChatMessage

_VERSION = "2023-06-01"


class AnthropicFormat:
    """The format of the Messages API."""

    kind = "anthropic"
    reserved: tuple[str, ...] = RESERVED

    def url(self, target: EndpointTarget, ask: Ask) -> httpx.URL:
        """`BASE/v1/messages`; the base may hold the version."""
        return target.url("/messages", version="/v1")

    def headers(self, key: str | None) -> dict[str, str]:
        """The version of the format, and the key in a header of its own."""
        named = {"x-api-key": key} if key is not None else {}
        return {"anthropic-version": _VERSION, **named}

    def unsupported_notices(self, ask: Ask) -> list[str]:
        """Some schemas of an output have no counterpart."""
        return unsaid(ask)

    def shows_schema(self, ask: Ask, host: str) -> bool:
        """Where an answer is held to it ("Structured outputs", "Prompt modification")."""
        return isinstance(ask.output, dict) and form_of(ask) is not None

    def encode(self, message: ChatMessage, names: ToolNames) -> EncodedMessage:
        """The message as the Messages API has it."""
        return encode(message, names)

    def body(self, request: ProviderRequest, host: str) -> bytes:
        """The messages first, then the settings."""
        return body(request)

    def event_decoder(self) -> SseDecoder:
        """Server-sent events."""
        return SseDecoder()

    def answer_reader(self, answer: StreamedAnswer) -> AnthropicAnswerReader:
        """Events, or one whole message."""
        return AnthropicAnswerReader(answer)
