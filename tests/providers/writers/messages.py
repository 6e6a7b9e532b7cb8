"""The Messages API: events of a stream, or one whole message."""

import json
from typing import Any

from tests.providers.writers.abstract_answer import AbstractAnswer, Call, Choices, Event, Thought
from tests.providers.writers.framing import document, server_sent

Block = dict[str, Any]
USAGE = {
    "input_tokens": 5,
    "output_tokens": 1,
    "cache_read_input_tokens": 4,
    "cache_creation_input_tokens": 3,
}
_MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-test",
    "stop_reason": None,
    "stop_sequence": None,
    "usage": USAGE,
}
_UNKNOWN: tuple[Block, ...] = (
    {"type": "ping"},
    {"type": "content_block_delta", "index": 9, "delta": {"type": "citations_delta"}},
    {"type": "tomorrow"},
)


def write(answer: AbstractAnswer, choices: Choices) -> bytes:
    """The bytes of an answer."""
    if choices.one("stream", "document") == "document":
        blocks = [block(part, choices) for part in answer.parts]
        return document({**_MESSAGE, "content": blocks, **_stop(answer)}, choices)
    return server_sent(choices.kept(events(answer, choices)), choices, has_names=True)


def events(answer: AbstractAnswer, choices: Choices) -> list[Event]:
    """The events of an answer, perhaps behind those of one that is void."""
    started = Event({"type": "message_start", "message": {**_MESSAGE, "content": []}})
    void: list[Event] = []
    if choices.one(False, True) and not choices.is_lossy:
        void = [
            started,
            *block_events(AbstractAnswer(["Void", Call(0, "void", {"a": 1})]), choices),
        ]
    delta = {**_stop(answer), "stop_sequence": None}
    last = {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 3}}
    end = [Event(last), Event({"type": "message_stop"})]
    return [*void, started, *block_events(answer, choices), *end]


def block(part: str | Thought | Call, choices: Choices) -> Block:
    """A whole block."""
    match part:
        case Call():
            given = choices.one(part.arguments, json.dumps(part.arguments))
            return {"type": "tool_use", "id": part.id, "name": part.name, "input": given}
        case Thought(text):
            return {"type": "thinking", "thinking": text, "signature": "c2ln"}
    return {"type": "text", "text": part, "citations": None}


def block_events(answer: AbstractAnswer, choices: Choices) -> list[Event]:
    """The events of the blocks, which may be mixed where they have an index."""
    in_order = () if choices.is_lossy else ("none", "zero")
    style = choices.one("index", "texts", *in_order)
    rows = []
    for number, part in enumerate(answer.parts):
        index: Any = {"texts": str(number), "zero": 0}.get(style, number)
        rows.append(_events_of(part, {} if style == "none" else {"index": index}, choices))
    told = choices.in_turn(answer, rows, is_mixed=style not in in_order)
    for call in answer.calls if choices.one(False, True) else ():
        # Some proxies send the calls again, with their ids.
        mark = {} if style == "none" else {"index": len(rows) + call.number}
        again = {"type": "content_block_start", **mark, "content_block": block(call, choices)}
        told.append(Event(again))
    return told


def _stop(answer: AbstractAnswer) -> Block:
    return {"stop_reason": "tool_use" if answer.calls else "end_turn"}


def _events_of(part: str | Thought | Call, mark: Block, choices: Choices) -> list[Event]:
    """The events of one block; a call's input is in its start, in pieces, or both."""
    opened, calls, is_whole = block(part, choices), frozenset[int](), False
    pieces: list[Block]
    match part:
        case Call(number, _, arguments):
            calls = frozenset({number})
            style = choices.one("pieces", "start", "both") if arguments else "pieces"
            is_whole = style != "pieces"
            texts = choices.cut(json.dumps(arguments)) if style != "start" else []
            if not choices.is_lossy:
                # Without arguments, a piece of no length is their only trace.
                texts = choices.one(["", *texts], texts, *([] if arguments else [[""]]))
            opened["input"] = opened["input"] if is_whole else choices.one({}, None, "")
            pieces = [{"type": "input_json_delta", "partial_json": each} for each in texts]
        case Thought(text):
            opened |= {"thinking": "", "signature": ""}
            pieces = [{"type": "thinking_delta", "thinking": each} for each in choices.cut(text)]
            pieces.append({"type": "signature_delta", "signature": "c2ln"})
        case text:
            opened["text"] = ""
            pieces = [{"type": "text_delta", "text": each} for each in choices.cut(text)]
    start = {"type": "content_block_start", **mark, "content_block": opened}
    told = [Event(start, pieces=calls, wholes=calls if is_whole else frozenset())]
    for piece in pieces:
        told += choices.one([], [Event(choices.one(*_UNKNOWN))])
        told.append(Event({"type": "content_block_delta", **mark, "delta": piece}, pieces=calls))
    return [*told, Event({"type": "content_block_stop", **mark})]
