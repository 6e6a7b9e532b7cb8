"""The Gemini API, from the server's side: by the types of the package `google-genai`."""

import json
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import httpx
from pydantic import TypeAdapter

from holdfast.providers.gemini import GeminiFormat
from holdfast.schemas.internal.solution import Usage
from tests.providers.fakes import stream
from tests.providers.wire.base import Wire, check_key
from tests.providers.writers import gemini

Part = dict[str, Any]


@cache
def published_fields() -> dict[str, TypeAdapter[Any]]:
    """The request as it is sent has no type of its own, its fields do."""
    from google.genai import types

    return {
        "contents": TypeAdapter(list[types.Content]),
        "systemInstruction": TypeAdapter(types.Content),
        "tools": TypeAdapter(list[types.Tool]),
        "toolConfig": TypeAdapter(types.ToolConfig),
        "generationConfig": TypeAdapter(types.GenerationConfig),
        "safetySettings": TypeAdapter(list[types.SafetySetting]),
    }


@cache
def published_event() -> TypeAdapter[Any]:
    from google.genai.types import GenerateContentResponse

    return TypeAdapter(GenerateContentResponse)


class GeminiWire(Wire):
    format = GeminiFormat()
    writer = gemini
    base_url = "https://generativelanguage.googleapis.com"
    usage = Usage(input_tokens=12, output_tokens=3, cached_tokens=4)
    messages = "contents"

    def frame(self, events: Sequence[Any]) -> bytes:
        return stream(events, end="")

    def vouch(self, event: Any) -> None:
        published_event().validate_json(json.dumps(event), strict=True)

    def refuses(self, status: int, message: str) -> bytes:
        error = {"code": status, "message": message, "status": "INVALID_ARGUMENT"}
        return json.dumps({"error": error}).encode()

    def understands(self, request: httpx.Request) -> dict[str, Any]:
        assert str(request.url).endswith(":streamGenerateContent?alt=sse")
        check_key(request, "x-goog-api-key")
        made: dict[str, Any] = json.loads(request.content)
        for name, value in made.items():
            # Their server takes names in both spellings.
            published_fields()[name].validate_json(json.dumps(value), strict=True)
        _check_turns(made["contents"])
        return made


def _check_turns(contents: list[dict[str, Any]]) -> None:
    """Roles take turns, the user first, no content is empty, and the results of a turn stand behind
    its calls, in their order and each with the id of its own."""
    assert all(content["parts"] for content in contents)
    roles = [content["role"] for content in contents]
    assert roles[0] == "user"
    assert all(one != other for one, other in pairwise(roles))
    for before, content in pairwise([{"parts": []}, *contents]):
        asked = [_named(part["functionCall"]) for part in before["parts"] if "functionCall" in part]
        answered = [_named(part.get("functionResponse", {})) for part in content["parts"]]
        assert answered[: len(asked)] == asked
        assert not any(name for name, _ in answered[len(asked) :])


def _named(part: Part) -> tuple[str | None, str | None]:
    return part.get("name"), part.get("id")
