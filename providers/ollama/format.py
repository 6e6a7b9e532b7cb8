"""The provider `ollama`: the chat of an Ollama server, and of those that speak like one.

Sources: Ollama's API reference (`/api/chat`, streaming, errors, tool calling, vision, structured
outputs), and the server's own types (`api/types.go`) where the reference is silent.
"""

import httpx

from holdfast.providers.base import EncodedMessage, ProviderRequest, ToolNames
from holdfast.providers.ollama.answer import OllamaAnswerReader
from holdfast.providers.ollama.request import RESERVED, body, encode, unsaid
from holdfast.providers.streamed_answer import StreamedAnswer
from holdfast.providers.transport.json_lines import JsonLinesDecoder
from holdfast.providers.transport.target import EndpointTarget
from holdfast.schemas.internal.model_request import Ask
from holdfast.schemas.message import ChatMessage


class OllamaFormat:
    """The format of Ollama's chats."""

    kind = "ollama"
    reserved: tuple[str, ...] = RESERVED

    def url(self, target: EndpointTarget, ask: Ask) -> httpx.URL:
        """`BASE/api/chat`; the base may end with `/api`."""
        return target.url("/chat", version="/api")

    def headers(self, key: str | None) -> dict[str, str]:
        """The key as a bearer token. A server of one's own needs none; ollama.com does."""
        return {"authorization": f"Bearer {key}"} if key is not None else {}

    def unsupported_notices(self, ask: Ask) -> list[str]:
        """There is no tool choice."""
        return unsaid(ask)

    def shows_schema(self, ask: Ask, host: str) -> bool:
        """Never: the reference asks for it to be put into the prompt ("Structured outputs")."""
        return False

    def encode(self, message: ChatMessage, names: ToolNames) -> EncodedMessage:
        """The message as Ollama has it."""
        return encode(message, names)

    def body(self, request: ProviderRequest, host: str) -> bytes:
        """The messages first, then the settings."""
        return body(request)

    def event_decoder(self) -> JsonLinesDecoder:
        """JSON, a document a line."""
        return JsonLinesDecoder()

    def answer_reader(self, answer: StreamedAnswer) -> OllamaAnswerReader:
        """Pieces of a message, or a whole one."""
        return OllamaAnswerReader(answer)
