"""Chat completions, from the server's side: by the types of the package `openai`."""

import json
from collections.abc import Mapping
from typing import Any

from openai.types.chat import ChatCompletion
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from pydantic import TypeAdapter

from holdfast.providers.openai.format import OpenAIFormat
from holdfast.schemas.internal.solution import Usage
from tests.providers.fakes import KEY, calls, chunk, stream
from tests.providers.wire.base import ReadRequest, Result, Wire

_PARAMS: TypeAdapter[Any] = TypeAdapter(CompletionCreateParamsStreaming)
_USAGE = {
    "prompt_tokens": 12,
    "completion_tokens": 3,
    "total_tokens": 15,
    "prompt_tokens_details": {"cached_tokens": 4},
}


def _whole() -> bytes:
    function = {"name": "refund", "arguments": '{"n": 1}'}
    message = {
        "role": "assistant",
        "content": "One moment.",
        "refusal": None,
        "tool_calls": [{"id": "x", "type": "function", "function": function}],
    }
    choice = {"index": 0, "finish_reason": "tool_calls", "logprobs": None, "message": message}
    completion = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [choice],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
    }
    TypeAdapter(ChatCompletion).validate_python(completion, strict=True)
    return json.dumps(completion, indent=2).encode()


class OpenAIWire(Wire):
    format = OpenAIFormat()
    base_url = "https://api.openai.com/v1"
    usage = Usage(input_tokens=12, output_tokens=3, cached_tokens=4)
    partial = True
    lacks_tools = (
        404,
        b'{"error": {"message": "tools is not supported in this model. For a list of supported'
        b' models, refer to https://platform.openai.com/docs/guides/function-calling."}}',
    )

    hi = ([chunk({"content": "Hi"})], [chunk(finish="stop")])
    stop_reasons = {
        "stop": ("stop", 0),
        "length": ("length", 0),
        "content_filter": ("filtered", 1),
        "eos": ("stop", 0),
    }
    ignored = (
        {"choices": [None, "x", {"index": 1, "delta": {"content": "other"}}]},
        {"choices": [{"delta": None}, {"delta": {"tool_calls": [None, "x"]}}]},
        {"choices": [{"delta": {"reasoning_content": None, "content": [{"type": "thinking"}]}}]},
        {"id": 1},
        [],
    )
    stream_errors = (
        ({"error": {"message": "busy", "code": 503}}, 503, "busy"),
        ({"error": {"message": "slow", "type": "rate_limit_exceeded"}}, 429, "slow"),
        ({"error": {"message": "bad", "type": "invalid_request_error"}}, 400, "bad"),
        ({"object": "error", "message": "no such", "code": 404}, 404, "no such"),
        ({"error": "out of memory"}, 500, "out of memory"),
    )
    foreign = (
        b'data: {"type": "message_start", "message": {}}\n\n',
        b'{"model": "llama", "message": {"content": "Hi"}, "done": true}',
        b"<html>Welcome</html>",
        b"garbage\n\n",
        b'{"ok": true}',
        b"[]",
        b"data: x\n\n",
    )
    truncated = (
        *(b"", b"\n", b": still thinking\n\n", b'{"choices": ['),
        stream([chunk({"content": "Hel"})], end='data: {"cho'),
    )
    whole = _whole()
    uncounted = (
        chunk({"content": "x"}, "stop"),
        {"choices": [], "usage": {"prompt_tokens": "many", "completion_tokens": True}},
    )

    def stops(self, reason: str) -> bytes:
        choice = {"delta": {"content": "Well"}, "finish_reason": reason}
        return self.events({"choices": [choice]})

    def answer(self, *pieces: str) -> bytes:
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

    def understands(self, url: str, headers: Mapping[str, str], body: bytes) -> ReadRequest:
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
        return ReadRequest(
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
