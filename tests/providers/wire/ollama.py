"""Ollama's chats, from the server's side: by the types of the package `ollama`."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ollama import ChatResponse, Message, Options
from ollama._types import ChatRequest

from holdfast.providers.ollama.format import OllamaFormat
from holdfast.schemas.internal.solution import Usage
from tests.providers.fakes import KEY
from tests.providers.wire.base import ReadRequest, Result, Wire

# Fields that the server's own types have (`api/types.go`) and the package's do not, yet.
_NEWER = {"truncate", "shift", "tool_call_id", "id", "type", "index"}


def piece(message: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A piece of an answer as Ollama sends it; its package's type vouches for that."""
    said = {"role": "assistant", "content": "", **(message or {})}
    whole = {
        "model": "tiny:latest",
        "created_at": "2026-08-21T18:48:22.123456Z",
        "message": said,
        "done": False,
        **more,
    }
    ChatResponse.model_validate(whole, strict=True)
    return whole


def last(reason: str = "stop", **more: Any) -> dict[str, Any]:
    counts = {"prompt_eval_count": 12, "eval_count": 3, "total_duration": 5, "load_duration": 1}
    return piece(done=True, done_reason=reason, **{**counts, **more})


def call(name: str, arguments: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments}, **more}


def lines(*pieces: Any) -> bytes:
    return "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in pieces).encode()


def understood(body: bytes) -> dict[str, Any]:
    """A request's body, once the package's types have taken it, every field of it."""
    made: dict[str, Any] = json.loads(body)
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


class OllamaWire(Wire):
    format = OllamaFormat()
    base_url = "http://127.0.0.1:11434"
    usage = Usage(input_tokens=12, output_tokens=3)
    choices = {
        "auto": (["rag_query", "refund"], None),
        "none": ([], None),
        "required": (["rag_query", "refund"], None),
        "refund": (["refund"], None),
    }
    lacks_tools = (
        400,
        b'{"error":"registry.ollama.ai/library/tiny:latest does not support tools"}',
    )

    hi = ([piece({"content": "Hi"})], [last()])
    stop_reasons = {
        "stop": ("stop", 0),
        "length": ("length", 0),
        "": ("stop", 0),
        "other": ("stop", 1),
    }
    ignored: Sequence[Any] = (
        *([], {}, {"status": "loading"}, {"message": 3}, {"message": {"content": 3}}),
        {"message": {"thinking": "Hm."}},
        {"message": {"tool_calls": 3}},
        {"message": {"tool_calls": [None, "refund", {}, {"function": "refund"}]}},
        {"message": {"tool_calls": {"a": 1}}},
    )
    stream_errors = (({"error": "the model stopped"}, 500, "the model stopped"),)
    foreign = (
        b'{"response": "Hi", "done": true}\n',
        b'{"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}',
        b'data: {"choices": []}\n\n',
        b'event: message_start\ndata: {"message": {}}\n\n',
        b"<html>Ollama is running</html>",
        b"Ollama is running",
        b"[]\n",
        b'"text"\n',
        b"{malformed json: <<<chaos>>>",
    )
    truncated = (b'{"model":"tiny","cre', b"\n", lines(last("load")), lines(last("unload")))
    uncounted = ({"message": {}, "done": True, "prompt_eval_count": "many", "eval_count": True},)

    whole = json.dumps(
        piece(
            {"content": "One moment.", "tool_calls": [call("refund", {"n": 1})]},
            done=True,
            done_reason="stop",
        ),
        indent=2,
    ).encode()

    def events(self, *events: Any) -> bytes:
        return lines(*events)

    def stops(self, reason: str) -> bytes:
        return lines(piece({"content": "Well"}), last(reason))

    def answer(self, *pieces: str) -> bytes:
        return lines(*(piece({"content": each}) for each in pieces), last())

    def calls(self, *asked: tuple[str, dict[str, Any]]) -> bytes:
        calls = [
            call(name, arguments, id=f"call_{index}")
            for index, (name, arguments) in enumerate(asked)
        ]
        return lines(*(piece({"tool_calls": [each]}) for each in calls), last())

    def breaks_off(self, text: str) -> bytes:
        return lines(piece({"content": text}))

    def refuses(self, status: int, message: str) -> bytes:
        return json.dumps({"error": message}).encode()

    def understands(self, url: str, headers: Mapping[str, str], body: bytes) -> ReadRequest:
        assert url == f"{self.base_url}/api/chat"
        assert headers["authorization"] == f"Bearer {KEY}"
        made = understood(body)
        system, *messages = made["messages"]
        asked = [each for message in messages for each in message.get("tool_calls", ())]
        results = [message for message in messages if message["role"] == "tool"]
        # By its place and its tool for older servers, by its id for newer ones.
        assert [each["tool_name"] for each in results] == [
            each["function"]["name"] for each in asked
        ]
        assert [each["tool_call_id"] for each in results] == [each["id"] for each in asked]
        return ReadRequest(
            instructions=system["content"],
            texts=[each["content"] for each in messages if each["role"] == "user"],
            pictures=[each for message in messages for each in message.get("images", ())],
            calls=[(each["function"]["name"], each["function"]["arguments"]) for each in asked],
            results=[Result(each["tool_name"], each["content"]) for each in results],
            tools=[tool["function"]["name"] for tool in made.get("tools", ())],
            output=made.get("format"),
        )
