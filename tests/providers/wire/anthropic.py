"""The Messages API, from the server's side: by the types of the package `anthropic`."""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from anthropic.types import RawMessageStreamEvent
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from pydantic import TypeAdapter

from holdfast.providers.anthropic.format import AnthropicFormat
from holdfast.schemas.internal.solution import Usage
from tests.providers.fakes import KEY, stream
from tests.providers.wire.base import ReadRequest, Result, Wire

_PARAMS: TypeAdapter[Any] = TypeAdapter(MessageCreateParamsStreaming)
_EVENT: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
# Models until Claude Opus 4.6 take them; the newest types know them no more.
_OLDER_SETTINGS = {"temperature", "top_k", "top_p"}

Event = dict[str, Any]
# It has no type: a stream holds any number of it ("Streaming Messages", "Ping events").
PING: Event = {"type": "ping"}


def events(*said: Event) -> bytes:
    """Events as a stream, each with its name; the package's types vouch for them."""
    for each in said:
        if each is not PING:
            _EVENT.validate_python(each, strict=True)
    return b"".join(
        f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode() for each in said
    )


def started(**usage: Any) -> Event:
    counts = {"input_tokens": 5, "output_tokens": 1, **usage}
    message: Event = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-test-2026",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": counts,
    }
    return {"type": "message_start", "message": message}


def block(index: int, opening: Event, *deltas: Event) -> Iterator[Event]:
    yield {"type": "content_block_start", "index": index, "content_block": opening}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def text(index: int, *pieces: str) -> Iterator[Event]:
    deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
    return block(index, {"type": "text", "text": "", "citations": None}, *deltas)


def call(index: int, name: str, *pieces: str, provider_id: str = "") -> Iterator[Event]:
    own = provider_id or f"toolu_{index}"
    opening = {"type": "tool_use", "id": own, "name": name, "input": {}}
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ("", *pieces)]
    return block(index, opening, *deltas)


def stopped(reason: str, **more: Any) -> tuple[Event, Event]:
    delta = {"stop_reason": reason, "stop_sequence": None, **more}
    last = {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 3}}
    return last, {"type": "message_stop"}


class AnthropicWire(Wire):
    format = AnthropicFormat()
    base_url = "https://api.anthropic.com"
    usage = Usage(input_tokens=12, output_tokens=3, cached_tokens=4, written_tokens=3)
    marks_errors = True
    partial = True
    lacks_tools = (
        400,
        b'{"type": "error", "error": {"type": "invalid_request_error", "message":'
        b' "registry.ollama.ai/library/tiny:latest does not support tools"}}',
    )
    _cached = {"cache_read_input_tokens": 4, "cache_creation_input_tokens": 3}

    hi = ([started(), *text(0, "Hi")], stopped("end_turn"))
    stop_reasons = {
        "end_turn": ("stop", 0),
        "stop_sequence": ("stop", 0),
        "max_tokens": ("length", 0),
        "model_context_window_exceeded": ("length", 0),
        "pause_turn": ("length", 1),
        "refusal": ("filtered", 1),
        "bored": ("stop", 1),
    }
    ignored: Sequence[Any] = (
        {"type": "content_block_delta", "index": 7, "delta": {"type": "input_json_delta"}},
        {"type": "content_block_delta", "index": [], "delta": {"type": "thinking_delta"}},
        {"type": "content_block_delta", "index": 0, "delta": None},
        {"type": "content_block_start", "index": {}, "content_block": {"type": "server_tool_use"}},
        {"type": "content_block_start", "index": 1, "content_block": "text"},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "citations_delta"}},
        {"type": "content_block_stop"},
        {"type": "message_delta", "delta": {"stop_reason": None}, "usage": {"output_tokens": -1}},
        *({"type": "tomorrow's event"}, {"type": None}, {}, [], None, 7),
    )
    stream_errors = tuple(
        ({"type": "error", "error": {"type": kind, "message": "Sorry"}}, status, "Sorry")
        for kind, status in {
            "overloaded_error": 503,
            "api_error": 500,
            "rate_limit_error": 429,
            "timeout_error": 500,
            "invalid_request_error": 400,
            "authentication_error": 401,
            "permission_error": 403,
            "billing_error": 402,
            "not_found_error": 404,
        }.items()
    )
    foreign = (b'data: {"choices": [{"delta": {"content": "Hi"}}]}\n\n', b"<html>Welcome</html>")
    uncounted = (*text(0, "Hi"), {"type": "message_stop"})

    truncated = (
        stream([started(), PING], end=""),
        stream([started(), *list(call(0, "refund", '{"a"'))[:-1]], end=""),
        stream([started(), *text(0, "Hi")], end='event: message_delta\ndata: {"type": "message_de'),
    )
    whole = json.dumps(
        {
            **started()["message"],
            "content": [
                {"type": "text", "text": "One moment."},
                {"type": "tool_use", "id": "1", "name": "refund", "input": {"n": 1}},
            ],
            "stop_reason": "tool_use",
        }
    ).encode()

    def stops(self, reason: str) -> bytes:
        end = {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {}}
        return self.events(started(), *text(0, "Well"), end, {"type": "message_stop"})

    def answer(self, *pieces: str) -> bytes:
        return events(started(**self._cached), PING, *text(0, *pieces), *stopped("end_turn"))

    def calls(self, *asked: tuple[str, dict[str, Any]]) -> bytes:
        blocks: list[Event] = []
        for index, (name, arguments) in enumerate(asked):
            written = json.dumps(arguments)
            half = len(written) // 2
            blocks += call(index, name, written[:half], written[half:])
        return events(started(**self._cached), *blocks, *stopped("tool_use"))

    def breaks_off(self, piece: str) -> bytes:
        *whole, _ = text(0, piece)
        return events(started(), *whole)

    def refuses(self, status: int, message: str) -> bytes:
        error = {"type": "invalid_request_error", "message": message}
        return json.dumps({"type": "error", "error": error, "request_id": "req_1"}).encode()

    def understands(self, url: str, headers: Mapping[str, str], body: bytes) -> ReadRequest:
        assert url == f"{self.base_url}/v1/messages"
        assert headers["x-api-key"] == KEY
        assert headers["anthropic-version"] == "2023-06-01"
        made: dict[str, Any] = json.loads(body)
        taken = _whole(_PARAMS.validate_json(body))
        assert taken == {name: made[name] for name in made if name not in _OLDER_SETTINGS}
        _check_turns(made["messages"])
        blocks = [block for each in made["messages"] for block in each["content"]]
        asked = [each for each in blocks if each["type"] == "tool_use"]
        results = [each for each in blocks if each["type"] == "tool_result"]
        assert [each["tool_use_id"] for each in results] == [each["id"] for each in asked]
        shown = [inner for each in blocks for inner in (each, *each.get("content", ()))]
        return ReadRequest(
            instructions="".join(each["text"] for each in made["system"]),
            texts=[each["text"] for each in blocks if each["type"] == "text"],
            pictures=[_url(each["source"]) for each in shown if each["type"] == "image"],
            calls=[(each["name"], each["input"]) for each in asked],
            results=[
                Result(asking["name"], _text(each), each.get("is_error", False))
                for asking, each in zip(asked, results, strict=True)
            ],
            tools=[tool["name"] for tool in made.get("tools", ())],
            choice=_choice(made.get("tool_choice")),
            output=_opened(made.get("output_config", {}).get("format", {}).get("schema")),
        )


def _whole(value: Any) -> Any:
    """The value with what is only read when it is asked for, so that all of it is checked."""
    if isinstance(value, dict):
        return {key: _whole(each) for key, each in value.items()}
    if isinstance(value, str | int | float | None):
        return value
    return [_whole(each) for each in value]


def _check_turns(messages: list[dict[str, Any]]) -> None:
    """Roles take turns, the user first; the results of a turn are what stands first behind its
    calls."""
    roles = [each["role"] for each in messages]
    assert roles[0] == "user"
    assert all(one != other for one, other in pairwise(roles))
    for before, each in pairwise([{"content": []}, *messages]):
        asked = [block["id"] for block in before["content"] if block["type"] == "tool_use"]
        answered = [block.get("tool_use_id") for block in each["content"]]
        assert answered[: len(asked)] == asked
        assert not any(answered[len(asked) :])


def _text(result: dict[str, Any]) -> str:
    return "".join(each["text"] for each in result["content"] if each["type"] == "text")


def _url(source: dict[str, Any]) -> str:
    return str(source["url"] if source["type"] == "url" else source["data"])


def _choice(choice: dict[str, Any] | None) -> str | None:
    if choice is None:
        return None
    kind: str = choice["type"]
    return {"tool": choice.get("name"), "any": "required"}.get(kind, kind)


def _opened(schema: dict[str, Any] | None) -> dict[str, Any] | None:
    """The schema without what Anthropic asks for in every object."""
    if schema is None:
        return None
    assert schema.pop("additionalProperties") is False
    return schema
