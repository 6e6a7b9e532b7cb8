"""Both sides of an exchange with Gemini, for the tests of what is its own."""

from typing import Any

from holdfast.providers.gemini.format import GeminiFormat
from holdfast.providers.transport.target import EndpointTarget
from holdfast.schemas.internal.solution import Solution
from holdfast.schemas.message import ChatMessage
from tests.providers.fakes import chat_message, read_answer, sent_body, target
from tests.providers.wire.gemini import events, understood

BASE = "https://generativelanguage.googleapis.com"
PICTURE = {"type": "image", "mediaType": "image/png", "data": "iVBORw0KGgo="}
CALL = {"id": "t1c1", "providerId": "fc_9", "tool": "rag.query", "arguments": {"q": "†ü"}}
OWN = {**CALL, "id": "t1c2", "providerId": "t1c2"}
SIGNED, SIGNED_TOO = "c2lnbmVk", "c2lnbmVkIHRvbw=="
Contents = list[dict[str, Any]]


def at(base_url: str = BASE) -> EndpointTarget:
    return target(provider="gemini", baseUrl=base_url)


def sent(*messages: ChatMessage, **asked: Any) -> dict[str, Any]:
    """The body of a request, once the package's types have taken it."""
    return understood(sent_body(GeminiFormat(), *messages, **asked))


def contents(*messages: ChatMessage, **asked: Any) -> Contents:
    made: Contents = sent(*messages, **asked)["contents"]
    return made


def read(*said_events: Any) -> Solution:
    """The solution of these events, or of these bytes, as the provider reads them."""
    body = said_events[0] if isinstance(said_events[0], bytes) else events(said_events)
    return read_answer(GeminiFormat(), body)


def again(solution: Solution) -> Contents:
    """An answer as it is sent back with the next request, behind a message of the user."""
    calls = [
        {"id": f"t1c{number}", "providerId": each.provider_id or f"t1c{number}", **each.to_json()}
        for number, each in enumerate(solution.calls, 1)
    ]
    data = solution.to_json().get("providerData")
    answer = chat_message("assistant", solution.text, calls=calls, providerData=data)
    results = [
        chat_message(
            "tool", "ok", callId=each["id"], providerId=each["providerId"], tool=each["tool"]
        )
        for each in calls
    ]
    return contents(chat_message("user", "Hi"), answer, *results)[1:]
