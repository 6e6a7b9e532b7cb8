"""The Responses API, from the server's side: by the types of the package `openai`."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from openai.types.responses import Response, ResponseStreamEvent
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import TypeAdapter

from holdfast.providers.openai_responses.format import OpenAIResponsesFormat
from holdfast.schemas.internal.solution import Usage
from tests.providers.fakes import KEY, stream
from tests.providers.wire.base import ReadRequest, Result, Wire

_PARAMS: TypeAdapter[Any] = TypeAdapter(ResponseCreateParamsStreaming)
_EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
_RESPONSE: TypeAdapter[Any] = TypeAdapter(Response)
_USAGE = {
    "input_tokens": 12,
    "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 3},
    "output_tokens": 30,
    "output_tokens_details": {"reasoning_tokens": 27},
    "total_tokens": 42,
}

Event = dict[str, Any]


def response(*output: Event, status: str = "completed", **more: Any) -> Event:
    """A response as OpenAI's own server sends it; its package's type vouches for that."""
    whole = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": "gpt-test-2026",
        "output": list(output),
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": _USAGE if status in ("completed", "incomplete") else None,
        **more,
    }
    _RESPONSE.validate_python(whole, strict=True)
    return whole


def message(*texts: Event, number: int = 1, **more: Any) -> Event:
    own = {"id": f"msg_{number}", "type": "message", "role": "assistant", "status": "completed"}
    return {**own, "content": list(texts), **more}


def text(value: str) -> Event:
    return {"type": "output_text", "text": value, "annotations": [], "logprobs": []}


def call(number: int, name: str, arguments: str) -> Event:
    own = {"id": f"fc_{number}", "type": "function_call", "status": "completed"}
    return {**own, "call_id": f"call_{number}", "name": name, "arguments": arguments}


def thought(number: int, encrypted: str | None = "gAAAA", *summary: str) -> Event:
    texts = [{"type": "summary_text", "text": each} for each in summary]
    own = {"id": f"rs_{number}", "type": "reasoning", "summary": texts}
    return {**own, "encrypted_content": encrypted}


def opening(*pieces: Iterator[Event]) -> list[Event]:
    """The events of a response until its end, which is another one."""
    first = response(status="in_progress")
    opening = [
        {"type": f"response.{kind}", "response": first} for kind in ("created", "in_progress")
    ]
    return [*opening, *(event for each in pieces for event in each)]


def piecemeal(index: int, item: Event, *pieces: str) -> Iterator[Event]:
    """The events of an item at its index, its text or its arguments in these pieces."""
    at = {"output_index": index, "item_id": item["id"]}
    # None of these is whole before the end.
    blank: Event = {"content": [], "arguments": "", "encrypted_content": "gA"}
    started = {**item, **{name: blank[name] for name in blank if item.get(name)}}
    started |= {"status": "in_progress"} if "status" in item else {}
    yield {"type": "response.output_item.added", "output_index": index, "item": started}
    if item["type"] == "message":
        inner = {**at, "content_index": 0}
        part = {"type": "response.content_part.added", "part": text("")}
        yield {**inner, **part}
        for piece in pieces:
            kind = "refusal" if item["content"][0]["type"] == "refusal" else "output_text"
            delta = {"type": f"response.{kind}.delta", "delta": piece}
            yield {**inner, **delta, **({"logprobs": []} if kind == "output_text" else {})}
        if item["content"][0]["type"] == "output_text":
            done = {"type": "response.output_text.done", "text": "".join(pieces), "logprobs": []}
            yield {**inner, **done}
        yield {**inner, "type": "response.content_part.done", "part": item["content"][0]}
    if item["type"] == "function_call":
        for piece in pieces:
            yield {**at, "type": "response.function_call_arguments.delta", "delta": piece}
        done = {"type": "response.function_call_arguments.done", "arguments": item["arguments"]}
        yield {**at, **done}
    if item["type"] == "reasoning":
        for number, part in enumerate(item["summary"]):
            inner = {**at, "summary_index": number}
            delta = {"type": "response.reasoning_summary_text.delta", "delta": part["text"]}
            yield {**inner, "type": "response.reasoning_summary_part.added", "part": part}
            yield {**inner, **delta}
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def text_output(index: int, *pieces: str, **more: Any) -> Iterator[Event]:
    return piecemeal(index, message(text("".join(pieces)), number=index, **more), *pieces)


def ended(kind: str = "completed", **more: Any) -> Event:
    return {"type": f"response.{kind}", "response": response(status=kind, **more)}


def events(*said: Event) -> bytes:
    """Events as a stream, numbered and with their names; the package's types vouch for them."""
    sent = b""
    for number, each in enumerate(said):
        event = {**each, "sequence_number": number}
        _EVENT.validate_python(event, strict=True)
        sent += f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
    return sent


def understood(body: bytes) -> dict[str, Any]:
    """The body of a request, once the package's types have taken it."""
    made: dict[str, Any] = json.loads(body)
    checked = _PARAMS.validate_json(body)
    assert set(checked) == set(made), "there are fields that the format does not have"
    # Pydantic reads the lists of these types lazily: reading them is what checks them.
    for name in ("input", "tools"):
        assert len(list(checked.get(name, ()))) == len(made.get(name, ()))
    assert (made["stream"], made["store"]) == (True, False)
    return made


class OpenAIResponsesWire(Wire):
    format = OpenAIResponsesFormat()
    base_url = "https://api.openai.com/v1"
    usage = Usage(input_tokens=12, output_tokens=30, cached_tokens=4, written_tokens=3)
    partial = True
    lacks_tools = (400, b'{"error": {"message": "tools is not supported in this model."}}')

    hi = (opening(text_output(0, "Hi")), [ended()])
    stop_reasons = {
        "completed": ("stop", 0),
        "max_output_tokens": ("length", 0),
        "content_filter": ("filtered", 1),
        "max_messages": ("length", 0),
    }
    ignored: Sequence[Any] = (
        {"type": "response.web_search_call.searching", "output_index": 3, "item_id": "ws_1"},
        {"type": "response.output_item.added", "output_index": 4, "item": {"type": "mcp_call"}},
        {"type": "response.output_item.added", "output_index": 4, "item": None},
        {"type": "response.output_item.done", "output_index": 4, "item": {"type": "reasoning"}},
        {"type": "response.output_text.delta", "output_index": 0, "delta": None},
        {"type": "response.completed", "response": None},
        *({"type": "keepalive"}, {"type": "response.tomorrow"}, {"type": None}, {}, [], None, 7),
    )
    stream_errors = (
        ({"type": "error", "code": "rate_limit_exceeded", "message": "slow"}, 429, "slow"),
        ({"type": "error", "code": None, "message": "broken"}, 500, "broken"),
        ({"type": "error", "error": {"code": "503", "message": "busy"}}, 503, "busy"),
        *(
            (ended("failed", error={"code": code, "message": "no"}), status, "no")
            for code, status in (
                ("server_error", 500),
                ("rate_limit_exceeded", 429),
                ("invalid_prompt", 400),
                ("image_too_large", 400),
                ("bio_policy", 400),
            )
        ),
        (
            {"type": "response.failed", "response": {}},
            500,
            "the provider failed to answer, and reported no reason",
        ),
    )
    foreign = (
        b'data: {"choices": [{"delta": {"content": "Hi"}}]}\n\n',
        b'data: {"type": "message_start", "message": {}}\n\n',
        b"<html>Welcome</html>",
        b"garbage\n\n",
        b'{"ok": true}',
        b"[]",
    )
    truncated = (
        *(b"", b": still thinking\n\n", b'{"type": "response.cr'),
        stream(opening(text_output(0, "Hel")), end='data: {"type"'),
        stream(
            [*opening(text_output(0, "Hel")), ended() | {"type": "response.in_progress"}], end=""
        ),
        json.dumps(response(status="queued")).encode(),
    )
    whole = json.dumps(
        response(thought(1), message(text("One moment.")), call(1, "refund", '{"n": 1}')), indent=2
    ).encode()
    uncounted = (*opening(text_output(0, "x")), ended(usage=None))

    def stops(self, reason: str) -> bytes:
        told = opening(text_output(0, "Well"))
        if reason == "completed":
            return events(*told, ended())
        return events(*told, ended("incomplete", incomplete_details={"reason": reason}))

    def answer(self, *pieces: str) -> bytes:
        return events(*opening(text_output(0, *pieces)), ended())

    def calls(self, *asked: tuple[str, dict[str, Any]]) -> bytes:
        items = []
        for index, (name, arguments) in enumerate(asked):
            written = json.dumps(arguments)
            half = len(written) // 2
            item = call(index, name, written)
            items.append(piecemeal(index, item, written[:half], written[half:]))
        return events(*opening(*items), ended())

    def breaks_off(self, piece: str) -> bytes:
        return events(*opening(text_output(0, piece)))

    def refuses(self, status: int, message: str) -> bytes:
        error = {"message": message, "type": "invalid_request_error", "code": None, "param": None}
        return json.dumps({"error": error}).encode()

    def understands(self, url: str, headers: Mapping[str, str], body: bytes) -> ReadRequest:
        assert url == f"{self.base_url}/responses"
        assert headers["authorization"] == f"Bearer {KEY}"
        made = understood(body)
        asked = [each for each in made["input"] if each["type"] == "function_call"]
        results = [each for each in made["input"] if each["type"] == "function_call_output"]
        assert [each["call_id"] for each in results] == [each["call_id"] for each in asked]
        told = [each["content"] for each in made["input"] if each.get("role") == "user"]
        shown = [*told, *(each["output"] for each in results)]
        choice = made.get("tool_choice")
        return ReadRequest(
            instructions=made["instructions"],
            texts=[value for content in told for value in _values(content, "input_text", "text")],
            pictures=[
                url for content in shown for url in _values(content, "input_image", "image_url")
            ],
            calls=[(each["name"], json.loads(each["arguments"])) for each in asked],
            results=[
                Result(one["name"], "".join(_values(each["output"], "input_text", "text")))
                for one, each in zip(asked, results, strict=True)
            ],
            tools=[tool["name"] for tool in made.get("tools", ())],
            choice=choice["name"] if isinstance(choice, dict) else choice,
            output=made.get("text", {}).get("format", {}).get("schema"),
        )


def _values(content: Any, kind: str, name: str) -> list[str]:
    if isinstance(content, str):
        return [content] if kind == "input_text" else []
    return [part[name] for part in content if part["type"] == kind]
