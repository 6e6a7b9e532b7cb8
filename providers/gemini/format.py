"""The provider `gemini`: the Gemini API, of Google or of any server that speaks it.

Sources: Google's API reference ("Generating content", v1beta) and its guides ("Function calling",
"Thought signatures", "Structured outputs", "File input methods"), and the types of its package
`google-genai`, where these are silent.
"""

import re
from urllib.parse import quote

import httpx

from holdfast.providers.base import EncodedMessage, Request, ToolNames, Unanswerable
from holdfast.providers.gemini.answer import Generated
from holdfast.providers.gemini.request import RESERVED, body, encode, unsaid
from holdfast.providers.streamed_answer import StreamedAnswer
from holdfast.providers.transport.sse import ServerSentEvents
from holdfast.providers.transport.target import Target
from holdfast.schemas.internal.model_request import Ask
from holdfast.schemas.message import ChatMessage
from holdfast.schemas.phrases import quoted

# What stands before the names of models in addresses.
_COLLECTIONS = ("models/", "tunedModels/")
# It stands in the address: none may lead out of the endpoint's own.
_NAME = re.compile(r"(?!.*(^|/)\.{1,2}(/|$))[\w.@:+-]+(/[\w.@:+-]+)*", re.ASCII)
_VERSIONED = re.compile(r".*/v\d\w*/?\Z")


class Gemini:
    """The format of `streamGenerateContent`."""

    kind = "gemini"
    reserved: tuple[str, ...] = RESERVED

    def url(self, target: Target, ask: Ask) -> httpx.URL:
        """`BASE/v1beta/models/NAME:streamGenerateContent`; the base may hold a version."""
        name = ask.model.name
        if not _NAME.fullmatch(name):
            raise Unanswerable(f"{target.shown}: {quoted(name)} is no name of a model")
        place = quote(name if name.startswith(_COLLECTIONS) else f"models/{name}")
        is_versioned = _VERSIONED.match(httpx.URL(target.endpoint.base_url or "").path)
        version = "" if is_versioned else "/v1beta"
        return target.url(f"/{place}:streamGenerateContent", version, query="alt=sse")

    def headers(self, key: str | None) -> dict[str, str]:
        """The key in a header of its own: in the address, it would stand in logs."""
        return {"x-goog-api-key": key} if key is not None else {}

    def unsaid(self, ask: Ask) -> list[str]:
        """That an answer was not held to its form, where tools were offered as well."""
        return unsaid(ask)

    def shows_form(self, ask: Ask, host: str) -> bool:
        """The model is guided by it ("Structured outputs", "Best practices")."""
        return True

    def encode(self, message: ChatMessage, names: ToolNames) -> EncodedMessage:
        """The message as Gemini has it."""
        return encode(message, names)

    def body(self, request: Request, host: str) -> bytes:
        """The contents first, then the settings."""
        return body(request)

    def stream(self) -> ServerSentEvents:
        """Server-sent events."""
        return ServerSentEvents()

    def reading(self, answer: StreamedAnswer) -> Generated:
        """Events, or one whole answer."""
        return Generated(answer)
