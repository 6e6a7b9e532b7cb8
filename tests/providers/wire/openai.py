"""Chat completions, from the server's side: by the types of the package `openai`."""

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

import httpx
from pydantic import TypeAdapter

from holdfast.providers.openai.format import OpenAIFormat
from holdfast.schemas.internal.solution import Usage
from tests.providers.fakes import stream
from tests.providers.wire.base import Wire, check_key
from tests.providers.writers import chat_completions


@cache
def published_params() -> TypeAdapter[Any]:
    from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

    return TypeAdapter(CompletionCreateParamsStreaming)


@cache
def published_event() -> TypeAdapter[Any]:
    from openai.types.chat import ChatCompletionChunk

    return TypeAdapter(ChatCompletionChunk)


class OpenAIWire(Wire):
    format = OpenAIFormat()
    writer = chat_completions
    base_url = "https://api.openai.com/v1"
    usage = Usage(input_tokens=12, output_tokens=3, cached_tokens=4)
    is_partial = True

    def frame(self, events: Sequence[Any]) -> bytes:
        return stream(events, end="")

    def vouch(self, event: Any) -> None:
        if event != "[DONE]":
            published_event().validate_python(event, strict=True)

    def understands(self, request: httpx.Request) -> dict[str, Any]:
        assert request.url.path.endswith("/chat/completions")
        check_key(request)
        made: dict[str, Any] = json.loads(request.content)
        checked = published_params().validate_json(request.content)
        assert set(checked) == set(made), "there are fields that the format does not have"
        # Pydantic reads the lists of these types lazily: reading them is what checks them.
        for name in ("messages", "tools"):
            assert len(list(checked.get(name, ()))) == len(made.get(name, ()))
        return made
