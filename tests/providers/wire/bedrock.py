"""Converse and ConverseStream, from the server's side: by the service model that botocore ships.

A request is what botocore's own serializer makes of the same parameters, whose shapes it checks; so
are the events of an answer checked. Only the encoder of the event stream is written here: botocore
has none.
"""

import base64
import json
from binascii import crc32
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.serialize import create_serializer
from botocore.validate import ParamValidator

from holdfast.providers.bedrock.format import BedrockFormat
from holdfast.schemas.internal.solution import Usage
from tests.providers.fakes import KEY
from tests.providers.wire.base import ReadRequest, Result, Wire

Event = dict[str, Any]
USAGE = {
    "inputTokens": 5,
    "outputTokens": 3,
    "totalTokens": 15,
    "cacheReadInputTokens": 4,
    "cacheWriteInputTokens": 3,
}


@cache
def model() -> ServiceModel:
    return ServiceModel(Loader().load_service_model("bedrock-runtime", "service-2"))


def frame(payload: bytes, **headers: str) -> bytes:
    """One message of the event stream; each header's name begins with a colon."""
    encoded = b""
    for name, value in headers.items():
        key = f":{name.replace('_', '-')}".encode()
        encoded += bytes([len(key)]) + key + b"\x07" + len(value).to_bytes(2) + value.encode()
    total = 12 + len(encoded) + len(payload) + 4
    prelude = total.to_bytes(4) + len(encoded).to_bytes(4)
    prelude += crc32(prelude).to_bytes(4)
    message = prelude + encoded + payload
    return message + crc32(message).to_bytes(4)


def _blobs_decoded(value: Event) -> Event:
    """An object as botocore takes it: it encodes bytes itself."""
    blobs = {key: value[key] for key in ("bytes", "redactedContent") if key in value}
    return value | {key: base64.b64decode(each) for key, each in blobs.items()}


def vouched(event: Event) -> Event:
    """The event, which fits its shape in the service model."""
    [(name, value)] = event.items()
    members = model().shape_for("ConverseStreamOutput").members
    checked = json.loads(json.dumps(value), object_hook=_blobs_decoded)
    report = ParamValidator().validate(checked, members[name])
    assert not report.has_errors(), report.generate_report()
    return event


def events(said: Iterable[Any]) -> bytes:
    """Events as a stream; one that is no object of one key is sent as the payload of another."""
    stream = b""
    for each in said:
        match each:
            case {"exception": str(kind), **payload}:
                headers = {"exception_type": kind, "message_type": "exception"}
            case {"error": str(code), "message": str(text)}:
                payload = None
                headers = {"error_code": code, "error_message": text, "message_type": "error"}
            case dict() if len(each) == 1:
                [(name, payload)] = each.items()
                headers = {"event_type": name, "message_type": "event"}
            case payload:
                headers = {"event_type": "tomorrow", "message_type": "event"}
        stream += frame(json.dumps(payload).encode(), **headers)
    return stream


def delta(index: int, **piece: Any) -> Event:
    return vouched({"contentBlockDelta": {"delta": piece, "contentBlockIndex": index}})


def text(index: int, *pieces: str) -> Iterator[Event]:
    yield from (delta(index, text=piece) for piece in pieces)
    yield vouched({"contentBlockStop": {"contentBlockIndex": index}})


def call(index: int, name: str, *pieces: str) -> Iterator[Event]:
    start = {"toolUse": {"toolUseId": f"tooluse_{index}", "name": name}}
    yield vouched({"contentBlockStart": {"start": start, "contentBlockIndex": index}})
    yield from (delta(index, toolUse={"input": piece}) for piece in ("", *pieces))
    yield vouched({"contentBlockStop": {"contentBlockIndex": index}})


STARTED = vouched({"messageStart": {"role": "assistant"}})


def stopped(reason: str) -> tuple[Event, Event]:
    told = {"usage": USAGE, "metrics": {"latencyMs": 7}}
    return vouched({"messageStop": {"stopReason": reason}}), vouched({"metadata": told})


class BedrockWire(Wire):
    format = BedrockFormat()
    base_url = "https://bedrock-runtime.eu-central-1.amazonaws.com"
    usage = Usage(input_tokens=12, output_tokens=3, cached_tokens=4, written_tokens=3)
    partial = True
    choices: Mapping[str, tuple[list[str], str | None]] = {
        "auto": (["rag_query", "refund"], None),
        "none": ([], None),
        "required": (["rag_query", "refund"], "required"),
        "refund": (["rag_query", "refund"], "refund"),
    }
    lacks_tools = (400, b'{"message":"This model doesn\'t support tool use."}')

    hi = ([STARTED, *text(0, "Hi")], stopped("end_turn"))
    stop_reasons = {
        "end_turn": ("stop", 0),
        "stop_sequence": ("stop", 0),
        "max_tokens": ("length", 0),
        "model_context_window_exceeded": ("length", 0),
        "guardrail_intervened": ("filtered", 1),
        "content_filtered": ("filtered", 1),
        "bored": ("stop", 1),
    }
    ignored: Sequence[Any] = (
        {"contentBlockDelta": {"contentBlockIndex": [], "delta": {"reasoningContent": {}}}},
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": None}},
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"citation": {"title": "A"}}}},
        {"contentBlockStart": {"contentBlockIndex": 1, "start": {"image": {"format": "png"}}}},
        {
            "contentBlockStart": {
                "contentBlockIndex": 1,
                "start": {"toolUse": {"name": "web", "toolUseId": "x", "type": "server_tool_use"}},
            }
        },
        {"contentBlockStart": "text"},
        {"messageStop": {}},
        {"metadata": {"usage": []}},
        *({"tomorrow": 1}, {}, [], None, 7),
    )
    stream_errors = (
        *(
            ({"exception": f"{kind}Exception", "message": "Sorry"}, status, "Sorry")
            for kind, status in {
                "throttling": 429,
                "serviceUnavailable": 503,
                "validation": 400,
                "internalServer": 500,
                "modelStreamError": 500,
            }.items()
        ),
        ({"error": "InternalFailure", "message": "Sorry"}, 500, "Sorry"),
    )
    foreign = (
        b'data: {"choices": [{"delta": {"content": "Hi"}}]}\n\n',
        b'{"choices": [{"message": {"content": "Hi"}}]}',
        b"<html>Welcome</html>",
        b"\x00\x00\x00\x20" + bytes(28),
    )
    uncounted = (*text(0, "Hi"), {"messageStop": {"stopReason": "end_turn"}})

    truncated = (
        events([STARTED]),
        events([STARTED, *list(call(0, "refund", '{"a"'))[:-1]]),
        events([STARTED, *text(0, "Hi"), *stopped("end_turn")])[:-250],
        events([STARTED, *text(0, "Hi")]) + events(stopped("end_turn")).replace(b"end", b"and"),
    )
    whole = json.dumps(
        {
            "metrics": {"latencyMs": 7},
            "output": {
                "message": {
                    "role": "assistant",
                    "content": [
                        {"text": "One moment."},
                        {"toolUse": {"toolUseId": "1", "name": "refund", "input": {"n": 1}}},
                    ],
                }
            },
            "stopReason": "tool_use",
            "usage": USAGE,
        }
    ).encode()

    def events(self, *events_: Any) -> bytes:
        return events(events_)

    def stops(self, reason: str) -> bytes:
        stop = {"messageStop": {"stopReason": reason}}
        return events([STARTED, *text(0, "Well"), stop, {"metadata": {}}])

    def answer(self, *pieces: str) -> bytes:
        return events([STARTED, *text(0, *pieces), *stopped("end_turn")])

    def calls(self, *asked: tuple[str, dict[str, Any]]) -> bytes:
        blocks: list[Event] = []
        for index, (name, arguments) in enumerate(asked):
            written = json.dumps(arguments)
            half = len(written) // 2
            blocks += call(index, name, written[:half], written[half:])
        return events([STARTED, *blocks, *stopped("tool_use")])

    def breaks_off(self, piece: str) -> bytes:
        return events([STARTED, delta(0, text=piece)])

    def refuses(self, status: int, message: str) -> bytes:
        return json.dumps({"message": message}).encode()

    def understands(self, url: str, headers: Mapping[str, str], body: bytes) -> ReadRequest:
        assert headers["authorization"] == f"Bearer {KEY}"
        assert "application/vnd.amazon.eventstream" in headers["accept"]
        made = taken(url.removeprefix(self.base_url), body)
        blocks = [block for each in made["messages"] for block in each["content"]]
        asked = [each["toolUse"] for each in blocks if "toolUse" in each]
        results = [each["toolResult"] for each in blocks if "toolResult" in each]
        config = made.get("toolConfig", {"tools": []})
        output = made.get("outputConfig", {}).get("textFormat", {}).get("structure")
        return ReadRequest(
            instructions=made["system"][0]["text"].partition("\n\nAnswer with JSON")[0],
            texts=[each["text"] for each in blocks if "text" in each],
            pictures=[each["image"]["source"]["bytes"] for each in blocks if "image" in each],
            calls=[(each["name"], each["input"]) for each in asked],
            results=[
                Result(asking["name"], "".join(part["text"] for part in each["content"]))
                for asking, each in zip(asked, results, strict=True)
            ],
            tools=[tool["toolSpec"]["name"] for tool in config["tools"]],
            choice=_choice(config.get("toolChoice")),
            output=_opened(json.loads(output["jsonSchema"]["schema"])) if output else None,
        )


def taken(path: str, body: bytes) -> Event:
    """A request's body, which is what botocore would send for it, at the same path."""
    made: Event = json.loads(body)
    name, operation = path.removeprefix("/model/").split("/")
    method = {"converse": "Converse", "converse-stream": "ConverseStream"}[operation]
    unquoted = urlsplit(name).path.replace("%3A", ":").replace("%2F", "/")
    parameters = json.loads(body, object_hook=_blobs_decoded) | {"modelId": unquoted}
    serializer = create_serializer("rest-json", include_validation=True)
    request = serializer.serialize_to_request(parameters, model().operation_model(method))
    assert (request["url_path"], json.loads(request["body"])) == (path, made)
    _check_turns(made["messages"], has_tools="toolConfig" in made)
    return made


def _check_turns(messages: list[Event], *, has_tools: bool) -> None:
    """Roles take turns, the user first; no message and no text is empty; the results of a turn
    stand first behind its calls; and there are tools where there were calls."""
    roles = [each["role"] for each in messages]
    assert roles[0] == "user"
    assert all(one != other for one, other in pairwise(roles))
    assert all(each["content"] for each in messages)
    for before, each in pairwise([{"content": []}, *messages]):
        asked = [block["toolUse"]["toolUseId"] for block in before["content"] if "toolUse" in block]
        answered = [block.get("toolResult", {}).get("toolUseId") for block in each["content"]]
        assert answered[: len(asked)] == asked
        assert not any(answered[len(asked) :])
        assert has_tools or not asked
        assert all(block.get("text", "x").strip() for block in each["content"])


def _choice(choice: Event | None) -> str | None:
    if choice is None:
        return None
    [(kind, value)] = choice.items()
    return str(value["name"]) if kind == "tool" else {"any": "required"}.get(kind, kind)


def _opened(schema: Event) -> Event:
    """The schema without what is asked for in every object."""
    assert schema.pop("additionalProperties") is False
    return schema
