"""Chat completions, from the server's side: by the types of the package `openai`."""

import json
from collections.abc import Mapping
from typing import Any

from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from pydantic import TypeAdapter

from holdfast.providers.openai.format import OpenAIFormat
from holdfast.providers.transport.http import ProviderFormat
from holdfast.schemas.internal.solution import Usage
from tests.activities.dialects.base import Result, Seen
from tests.activities.fakes import KEY, calls, chunk, stream

_PARAMS: TypeAdapter[Any] = TypeAdapter(CompletionCreateParamsStreaming)
_USAGE = {
    "prompt_tokens": 12,
    "completion_tokens": 3,
    "total_tokens": 15,
    "prompt_tokens_details": {"cached_tokens": 4},
}


class OpenAIDialect:
    """OpenAI's own server."""

    format: ProviderFormat = OpenAIFormat()
    base_url = "https://api.openai.com/v1"
    usage = Usage(input_tokens=12, output_tokens=3, cached_tokens=4)
    choices: Mapping[str, tuple[list[str], str | None]] = {
        "auto": (["rag_query", "refund"], "auto"),
        "none": (["rag_query", "refund"], "none"),
        "required": (["rag_query", "refund"], "required"),
        "refund": (["rag_query", "refund"], "refund"),
    }
    marks_errors = False
    partial = True
    lacks_tools = (400, b'{"error": {"message": "\'tools\' is not supported with this model"}}')

    def says(self, *pieces: str) -> bytes:
        said = [chunk({"content": piece}) for piece in pieces]
        return stream([*said, chunk(finish="stop"), chunk(usage=_USAGE)])

    def calls(self, *asked: tuple[str, dict[str, Any]]) -> bytes:
        chunks = []
        for index, (name, arguments) in enumerate(asked):
            written = json.dumps(arguments)
            half = len(written) // 2
            chunks.append(calls((index, f"call_{index}", name, written[:half])))
            chunks.append(calls((index, None, None, written[half:])))
        return stream([*chunks, chunk(finish="tool_calls"), chunk(usage=_USAGE)])

    def breaks_off(self, piece: str) -> bytes:
        return stream([chunk({"content": piece})], end="")

    def refuses(self, status: int, message: str) -> bytes:
        error = {"message": message, "type": "invalid_request_error", "code": None, "param": None}
        return json.dumps({"error": error}).encode()

    def understands(self, url: str, headers: Mapping[str, str], body: bytes) -> Seen:
        assert url == f"{self.base_url}/chat/completions"
        assert headers["authorization"] == f"Bearer {KEY}"
        made: dict[str, Any] = json.loads(body)
        checked = _PARAMS.validate_json(body)
        assert set(checked) == set(made)
        assert len(list(checked["messages"])) == len(made["messages"])
        system, *messages = made["messages"]
        asked = [call for each in messages for call in each.get("tool_calls") or ()]
        results = [each for each in messages if each["role"] == "tool"]
        assert [each["tool_call_id"] for each in results] == [call["id"] for call in asked]
        functions = [call["function"] for call in asked]
        return Seen(
            instructions=system["content"],
            texts=[text for each in messages if each["role"] == "user" for text in _texts(each)],
            pictures=[url for each in messages for url in _pictures(each)],
            calls=[(each["name"], json.loads(each["arguments"])) for each in functions],
            results=[
                Result(function["name"], each["content"])
                for function, each in zip(functions, results, strict=True)
            ],
            tools=[tool["function"]["name"] for tool in made.get("tools", ())],
            choice=_choice(made.get("tool_choice")),
            output=made.get("response_format", {}).get("json_schema", {}).get("schema"),
        )


def _texts(message: dict[str, Any]) -> list[str]:
    content = message["content"]
    if isinstance(content, str):
        return [content]
    return [part["text"] for part in content if part["type"] == "text"]


def _pictures(message: dict[str, Any]) -> list[str]:
    content = message["content"]
    parts = content if isinstance(content, list) else []
    return [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]


def _choice(choice: Any) -> str | None:
    said: str | None = choice["function"]["name"] if isinstance(choice, dict) else choice
    return said
