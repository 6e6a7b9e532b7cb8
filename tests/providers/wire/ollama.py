"""Ollama's chats, from the server's side: by the types of the package `ollama`."""

import json
from collections.abc import Sequence
from typing import Any

import httpx
from ollama import ChatResponse, Message, Options
from ollama._types import ChatRequest

from holdfast.providers.ollama import OllamaFormat
from holdfast.schemas.internal.solution import Usage
from tests.providers.wire.base import Wire, check_key
from tests.providers.writers import ollama

# Fields that the server's own types have (`api/types.go`) and the package's do not, yet.
_NEWER = {"truncate", "shift", "tool_call_id", "id", "type", "index"}


class OllamaWire(Wire):
    format = OllamaFormat()
    writer = ollama
    base_url = "http://127.0.0.1:11434"
    usage = Usage(input_tokens=12, output_tokens=3)

    def frame(self, events: Sequence[Any]) -> bytes:
        lines = (each if isinstance(each, str) else json.dumps(each) for each in events)
        return "".join(f"{line}\n" for line in lines).encode()

    def vouch(self, event: Any) -> None:
        ChatResponse.model_validate(event, strict=True)

    def refuses(self, status: int, message: str) -> bytes:
        return json.dumps({"error": message}).encode()

    def understands(self, request: httpx.Request) -> dict[str, Any]:
        """The body, once the package's types have taken every field of it."""
        assert request.url.path.endswith("/api/chat")
        check_key(request)
        made: dict[str, Any] = json.loads(request.content)
        ChatRequest.model_validate(made, strict=True)
        assert set(made) <= set(ChatRequest.model_fields) | _NEWER
        assert set(made["options"]) <= set(Options.model_fields)
        Options.model_validate(made["options"], strict=True)
        for message in made["messages"]:
            # The package holds a picture in an object, and sends its text alone.
            images = [{"value": image} for image in message.get("images", ())]
            Message.model_validate({**message, "images": images}, strict=True)
            assert set(message) <= set(Message.model_fields) | _NEWER
            for each in message.get("tool_calls", ()):
                assert set(each) <= set(Message.ToolCall.model_fields) | _NEWER
                assert set(each["function"]) <= set(Message.ToolCall.Function.model_fields) | _NEWER
        return made
