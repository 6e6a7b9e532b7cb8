"""The Gemini API, from the server's side: by the types of the package `google-genai`."""

import json
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from google.genai import types
from pydantic import TypeAdapter

from holdfast.providers.gemini.format import GeminiFormat
from holdfast.schemas.internal.solution import Usage
from tests.providers.fakes import KEY, stream
from tests.providers.wire.base import ReadRequest, Result, Wire

# The request as it is sent has no type of its own, its fields do.
_FIELDS: dict[str, TypeAdapter[Any]] = {
    "contents": TypeAdapter(list[types.Content]),
    "systemInstruction": TypeAdapter(types.Content),
    "tools": TypeAdapter(list[types.Tool]),
    "toolConfig": TypeAdapter(types.ToolConfig),
    "generationConfig": TypeAdapter(types.GenerationConfig),
    "safetySettings": TypeAdapter(list[types.SafetySetting]),
}
_MODES = {"AUTO": "auto", "NONE": "none", "ANY": "required"}
USAGE = {
    "promptTokenCount": 10,
    "toolUsePromptTokenCount": 2,
    "cachedContentTokenCount": 4,
    "candidatesTokenCount": 1,
    "thoughtsTokenCount": 2,
    "totalTokenCount": 15,
}

Part = dict[str, Any]


def event(*parts: Part, finish: str | None = None, **more: Any) -> dict[str, Any]:
    """An event as Google sends it; its package's type vouches for that."""
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    whole = {"candidates": [candidate], "modelVersion": "gemini-test-2026", **more}
    types.GenerateContentResponse.model_validate_json(json.dumps(whole), strict=True)
    return whole


def call(name: str, arguments: dict[str, Any], **more: Any) -> Part:
    return {"functionCall": {"name": name, "args": arguments}, **more}


def events(said: Iterable[Any]) -> bytes:
    """Events as a stream: nothing ends it."""
    return stream(said, end="")


def typed(made: dict[str, Any]) -> dict[str, Any]:
    """A request as the package's types have it. Their server takes names in both spellings."""
    return {
        name: _FIELDS[name].validate_json(json.dumps(value), strict=True)
        for name, value in made.items()
    }


def understood(body: bytes) -> dict[str, Any]:
    """A request's body, once the package's types have taken it, every field of it."""
    made: dict[str, Any] = json.loads(body)
    typed(made)
    _check_turns(made["contents"])
    return made


class GeminiWire(Wire):
    format = GeminiFormat()
    base_url = "https://generativelanguage.googleapis.com"
    usage = Usage(input_tokens=12, output_tokens=3, cached_tokens=4)
    marks_errors = True
    lacks_tools = (
        400,
        b'{"error": {"code": 400, "message": "Function calling is not enabled for'
        b' models/gemma-3-27b-it", "status": "INVALID_ARGUMENT"}}',
    )

    hi = ([event({"text": "Hi"})], [event({"text": ""}, finish="STOP")])
    stop_reasons = {
        "STOP": ("stop", 0),
        "MAX_TOKENS": ("length", 0),
        "SAFETY": ("filtered", 1),
        "RECITATION": ("filtered", 1),
        "PROHIBITED_CONTENT": ("filtered", 1),
        "NO_IMAGE": ("stop", 1),
    }
    ignored = (
        {"candidates": [None, "x", {"content": None}, {"content": {"parts": None}}]},
        {"candidates": [{"index": 1, "content": {"parts": [{"text": "other"}]}}]},
        {"candidates": [{"content": {"parts": [None, 1, {}, {"text": 5}]}}]},
        {"candidates": [{"content": {"parts": [{"text": "Hm.", "thought": True}]}}]},
        {"candidates": [{"finishReason": "FINISH_REASON_UNSPECIFIED"}], "modelVersion": 3},
        {"promptFeedback": {"blockReason": None}, "usageMetadata": []},
        {"responseId": "x"},
        [],
    )
    stream_errors = (
        ({"error": {"code": 429, "message": "quota", "status": "X"}}, 429, "quota"),
        ({"error": {"code": 503, "message": "overloaded", "status": "X"}}, 503, "overloaded"),
    )
    foreign = (b"[]", b"[1, 2]", b'[{"choices": []}]', b"<html>Welcome</html>")
    uncounted = (
        {**event({"text": "Yes"}, finish="STOP"), "usageMetadata": {"promptTokenCount": "9"}},
    )

    truncated = (
        events([event({"text": "Yes"}), {}]),
        events([event({"text": "Yes"}), {"usageMetadata": USAGE}]),
        events([event({"text": "Yes"}), {"candidates": []}]),
        json.dumps([event({"text": "!"}, finish="STOP")], indent=2).encode()[:-40],
    )
    whole = json.dumps(
        event({"text": "One moment."}, call("refund", {"n": 1}), finish="STOP")
    ).encode()

    def stops(self, reason: str) -> bytes:
        return events([event({"text": "Well"}, finish=reason)])

    def answer(self, *pieces: str) -> bytes:
        said = [event({"text": piece}) for piece in pieces]
        return events([*said, event({"text": ""}, finish="STOP", usageMetadata=USAGE)])

    def calls(self, *asked: tuple[str, dict[str, Any]]) -> bytes:
        said = [event(call(name, arguments)) for name, arguments in asked]
        return events([*said, event({"text": ""}, finish="STOP", usageMetadata=USAGE)])

    def breaks_off(self, piece: str) -> bytes:
        return events([event({"text": piece}, usageMetadata=USAGE)])

    def refuses(self, status: int, message: str) -> bytes:
        error = {"code": status, "message": message, "status": "INVALID_ARGUMENT"}
        return json.dumps({"error": error}).encode()

    def understands(self, url: str, headers: Mapping[str, str], body: bytes) -> ReadRequest:
        at = f"{self.base_url}/v1beta/models/gpt-test:streamGenerateContent?alt=sse"
        assert url == at
        assert headers["x-goog-api-key"] == KEY
        made = understood(body)
        parts = [part for content in made["contents"] for part in content["parts"]]
        results = [each["functionResponse"] for each in parts if "functionResponse" in each]
        calls = [each["functionCall"] for each in parts if "functionCall" in each]
        tools = made.get("tools", [{"functionDeclarations": []}])[0]["functionDeclarations"]
        return ReadRequest(
            instructions="".join(part["text"] for part in made["systemInstruction"]["parts"]),
            texts=[part["text"] for part in parts if "text" in part],
            pictures=[part["inlineData"]["data"] for part in parts if "inlineData" in part],
            calls=[(each["name"], each["args"]) for each in calls],
            results=[_result(each) for each in results],
            tools=[tool["name"] for tool in tools],
            choice=_choice(made.get("toolConfig")),
            output=made["generationConfig"].get("responseJsonSchema"),
        )


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


def _result(result: Part) -> Result:
    [(key, text)] = result["response"].items()
    return Result(result["name"], text, marked={"output": False, "error": True}[key])


def _choice(config: dict[str, Any] | None) -> str | None:
    if config is None:
        return None
    calling = config["functionCallingConfig"]
    [name] = calling.get("allowedFunctionNames", [_MODES[calling["mode"]]])
    return str(name)
