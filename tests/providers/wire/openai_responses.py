"""The Responses API, from the server's side: by the types of the package `openai`."""

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

import httpx
from pydantic import TypeAdapter

from holdfast.providers.openai_responses.format import OpenAIResponsesFormat
from holdfast.schemas.internal.solution import Usage
from tests.providers.fakes import stream
from tests.providers.wire.base import Wire, check_key
from tests.providers.writers import responses


@cache
def published_params() -> TypeAdapter[Any]:
    from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

    return TypeAdapter(ResponseCreateParamsStreaming)


@cache
def published_event() -> TypeAdapter[Any]:
    from openai.types.responses import ResponseStreamEvent

    return TypeAdapter(ResponseStreamEvent)


class OpenAIResponsesWire(Wire):
    format = OpenAIResponsesFormat()
    writer = responses
    base_url = "https://api.openai.com/v1"
    usage = Usage(input_tokens=12, output_tokens=30, cached_tokens=4, written_tokens=3)
    is_partial = True
    messages = "input"

    def frame(self, events: Sequence[Any]) -> bytes:
        return stream(events, end="")

    def vouch(self, event: Any) -> None:
        published_event().validate_python({**event, "sequence_number": 1}, strict=True)

    def understands(self, request: httpx.Request) -> dict[str, Any]:
        assert request.url.path.endswith("/responses")
        check_key(request)
        made: dict[str, Any] = json.loads(request.content)
        checked = published_params().validate_json(request.content)
        assert set(checked) == set(made), "there are fields that the format does not have"
        # Pydantic reads the lists of these types lazily: reading them is what checks them.
        for name in ("input", "tools"):
            assert len(list(checked.get(name, ()))) == len(made.get(name, ()))
        assert (made["stream"], made["store"]) == (True, False)
        return made
