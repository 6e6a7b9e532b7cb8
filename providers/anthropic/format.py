"""The provider `anthropic`: the Messages API, of Anthropic or of any server that speaks it.

Sources: Anthropic's API reference ("Create a Message", "Streaming Messages", "Errors", "Handling
stop reasons", "Prompt caching", "Structured outputs", "Extended thinking") and the types of its
package for Python, where the reference is silent.
"""

import httpx

from holdfast.providers.anthropic.answer import Reply
from holdfast.providers.anthropic.request import RESERVED, body, encode, form_of, unsaid
from holdfast.providers.base import EncodedMessage, Request, ToolNames
from holdfast.providers.streamed_answer import StreamedAnswer
from holdfast.providers.transport.sse import ServerSentEvents
from holdfast.providers.transport.target import Target
from holdfast.schemas.internal.model_request import Ask
from holdfast.schemas.message import ChatMessage

_VERSION = "2023-06-01"


class Anthropic:
    """The format of the Messages API."""

    kind = "anthropic"
    reserved: tuple[str, ...] = RESERVED

    def url(self, target: Target, ask: Ask) -> httpx.URL:
        """`BASE/v1/messages`; the base may hold the version."""
        return target.url("/messages", version="/v1")

    def headers(self, key: str | None) -> dict[str, str]:
        """The version of the format, and the key in a header of its own."""
        named = {"x-api-key": key} if key is not None else {}
        return {"anthropic-version": _VERSION, **named}

    def unsaid(self, ask: Ask) -> list[str]:
        """Some schemas of an output have no counterpart."""
        return unsaid(ask)

    def shows_form(self, ask: Ask, host: str) -> bool:
        """Where an answer is held to it ("Structured outputs", "Prompt modification")."""
        return isinstance(ask.output, dict) and form_of(ask) is not None

    def encode(self, message: ChatMessage, names: ToolNames) -> EncodedMessage:
        """The message as the Messages API has it."""
        return encode(message, names)

    def body(self, request: Request, host: str) -> bytes:
        """The messages first, then the settings."""
        return body(request)

    def stream(self) -> ServerSentEvents:
        """Server-sent events."""
        return ServerSentEvents()

    def reading(self, answer: StreamedAnswer) -> Reply:
        """Events, or one whole message."""
        return Reply(answer)
