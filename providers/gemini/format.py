"""The provider `gemini`: the Gemini API, of Google or of any server that speaks it.

Sources: Google's API reference ("Generating content", v1beta) and its guides ("Function calling",
"Thought signatures", "Structured outputs", "File input methods"), and the types of its package
`google-genai`, where these are silent.
"""

import re
from urllib.parse import quote

import httpx

from holdfast.providers.base import EncodedMessage, ProviderRequest, ToolNames, UnanswerableRequest
from holdfast.providers.gemini.answer import GeminiAnswerReader
from holdfast.providers.gemini.request import RESERVED, body, encode, unsaid
from holdfast.providers.streamed_answer import StreamedAnswer
from holdfast.providers.transport.sse import SseDecoder
from holdfast.providers.transport.target import EndpointTarget
from holdfast.schemas.internal.model_request import Ask
from holdfast.schemas.message import ChatMessage
from holdfast.schemas.phrases import quoted

# What stands before the names of models in addresses.
_COLLECTIONS = ("models/", "tunedModels/")
# It stands in the address: none may lead out of the endpoint's own.
_NAME = re.compile(r"(?!.*(^|/)\.{1,2}(/|$))[\w.@:+-]+(/[\w.@:+-]+)*", re.ASCII)
_VERSIONED = re.compile(r".*/v\d\w*/?\Z")


class GeminiFormat:
    """The format of `streamGenerateContent`."""

    kind = "gemini"
    reserved: tuple[str, ...] = RESERVED

    def url(self, target: EndpointTarget, ask: Ask) -> httpx.URL:
        """`BASE/v1beta/models/NAME:streamGenerateContent`; the base may hold a version."""
        name = ask.model.name
        if not _NAME.fullmatch(name):
            raise UnanswerableRequest(f"{target.label}: {quoted(name)} is no name of a model")
        place = quote(name if name.startswith(_COLLECTIONS) else f"models/{name}")
        is_versioned = _VERSIONED.match(httpx.URL(target.endpoint.base_url or "").path)
        version = "" if is_versioned else "/v1beta"
        return target.url(f"/{place}:streamGenerateContent", version, query="alt=sse")

    def headers(self, key: str | None) -> dict[str, str]:
        """The key in a header of its own: in the address, it would stand in logs."""
        return {"x-goog-api-key": key} if key is not None else {}

    def unsupported_notices(self, ask: Ask) -> list[str]:
        """That an answer was not held to its form, where tools were offered as well."""
        return unsaid(ask)

    def shows_schema(self, ask: Ask, host: str) -> bool:
        """The model is guided by it ("Structured outputs", "Best practices")."""
        return True

    def encode(self, message: ChatMessage, names: ToolNames) -> EncodedMessage:
        """The message as Gemini has it."""
        return encode(message, names)

    def body(self, request: ProviderRequest, host: str) -> bytes:
        """The contents first, then the settings."""
        return body(request)

    def event_decoder(self) -> SseDecoder:
        """Server-sent events."""
        return SseDecoder()

    def answer_reader(self, answer: StreamedAnswer) -> GeminiAnswerReader:
        """Events, or one whole answer."""
        return GeminiAnswerReader(answer)
