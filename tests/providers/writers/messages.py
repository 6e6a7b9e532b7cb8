"""The Messages API, and Converse, which has the same events and blocks in other words."""

import json
from typing import Any

from tests.providers.writers.abstract_answer import AbstractAnswer, Call, Choices, Event, Thought
from tests.providers.writers.framing import document, event_stream, server_sent

Block = dict[str, Any]
CONVERSE_USAGE = {
    "inputTokens": 5,
    "outputTokens": 3,
    "totalTokens": 15,
    "cacheReadInputTokens": 4,
    "cacheWriteInputTokens": 3,
}
_USAGE = {
    "input_tokens": 5,
    "output_tokens": 1,
    "cache_read_input_tokens": 4,
    "cache_creation_input_tokens": 3,
}
_MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-test"}
_UNKNOWN: tuple[Block, ...] = (
    {"type": "ping"},
    {"type": "content_block_delta", "index": 9, "delta": {"type": "citations_delta"}},
    {"type": "tomorrow"},
)


def write(answer: AbstractAnswer, choices: Choices) -> bytes:
    """The bytes of an answer of the Messages API."""
    if choices.one("stream", "document") == "document":
        blocks = [_whole(part, choices) for part in answer.parts]
        return document({**_MESSAGE, "content": blocks, **_stop(answer), "usage": _USAGE}, choices)
    return server_sent(choices.kept(events(answer, choices)), choices, has_names=True)


def write_converse(answer: AbstractAnswer, choices: Choices) -> bytes:
    """The bytes of an answer of Converse."""
    if choices.one("stream", "document") == "document":
        blocks = [_converse_block(_whole(part, choices)) for part in answer.parts]
        message = {"message": {"role": "assistant", "content": blocks}}
        stop = {"stopReason": _stop(answer)["stop_reason"]}
        return document({"output": message, **stop, "usage": CONVERSE_USAGE}, choices)
    return event_stream(event.value for event in choices.kept(converse_events(answer, choices)))


def events(answer: AbstractAnswer, choices: Choices) -> list[Event]:
    """The events of an answer."""
    usage = dict(_USAGE)
    started = Event(
        {"type": "message_start", "message": {**_MESSAGE, "content": [], "usage": usage}}
    )
    void: list[Event] = []
    if choices.one(False, True) and not choices.is_lossy:
        void = [started, *_blocks(AbstractAnswer(["Void", Call(0, "void", {"a": 1})]), choices)]
    delta = {**_stop(answer), "stop_sequence": None}
    last = {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 3}}
    end = [Event(last), Event({"type": "message_stop"})]
    return [*void, started, *_blocks(answer, choices), *end]


def converse_events(answer: AbstractAnswer, choices: Choices) -> list[Event]:
    """The events of an answer of Converse."""
    told = [Event({"messageStart": {"role": "assistant"}})]
    for event in _blocks(answer, choices):
        value = _converse(event.value)
        told.append(Event(value, event.pieces, event.wholes))
    told.append(Event({"messageStop": {"stopReason": _stop(answer)["stop_reason"]}}))
    return [*told, Event({"metadata": {"usage": CONVERSE_USAGE, "metrics": {"latencyMs": 7}}})]


def _stop(answer: AbstractAnswer) -> Block:
    return {"stop_reason": "tool_use" if answer.calls else "end_turn"}


def _whole(part: str | Thought | Call, choices: Choices) -> Block:
    match part:
        case Call():
            given = choices.one(part.arguments, json.dumps(part.arguments))
            return {"type": "tool_use", "id": part.id, "name": part.name, "input": given}
        case Thought(text):
            return {"type": "thinking", "thinking": text, "signature": "c2ln"}
    return {"type": "text", "text": part}


def _blocks(answer: AbstractAnswer, choices: Choices) -> list[Event]:
    """The events of the blocks, which may be mixed where they have an index."""
    ambiguous = () if choices.is_lossy else ("none", "zero")
    style = choices.one("index", "texts", *ambiguous)
    rows = []
    for number, part in enumerate(answer.parts):
        index: Any = {"index": number, "texts": str(number), "zero": 0}.get(style)
        mark: Block = {} if style == "none" else {"index": index}
        rows.append(_block(part, mark, choices))
    told = choices.in_turn(answer, rows, is_mixed=style not in ambiguous)
    for call in answer.calls if choices.one(False, True) else ():
        # Some proxies send the calls again, with their ids.
        mark = {} if style == "none" else {"index": len(rows) + call.number}
        again = {**mark, "content_block": _whole(call, choices)}
        wholes = frozenset({call.number})
        told.append(Event({"type": "content_block_start", **again}, wholes=wholes))
    return told


def _block(part: str | Thought | Call, mark: Block, choices: Choices) -> list[Event]:
    """The events of one block; a call's input is in its start, in pieces, or both."""
    block, calls = _whole(part, choices), frozenset[int]()
    is_whole, pieces = False, list[Block]()
    match part:
        case Call(number, _, arguments):
            calls = frozenset({number})
            style = choices.one("pieces", "start", "both") if arguments else "pieces"
            is_whole = style != "pieces"
            texts = choices.cut(json.dumps(arguments)) if style != "start" else []
            if not choices.is_lossy:
                # Without arguments, a piece of no length is the only sign of them.
                texts = choices.one(["", *texts], texts, *([] if arguments else [[""]]))
            if not is_whole:
                block["input"] = choices.one({}, None, "")
            pieces = [{"type": "input_json_delta", "partial_json": each} for each in texts]
        case Thought(text):
            block |= {"thinking": "", "signature": ""}
            pieces = [{"type": "thinking_delta", "thinking": each} for each in choices.cut(text)]
            pieces.append({"type": "signature_delta", "signature": "c2ln"})
        case text:
            pieces = [{"type": "text_delta", "text": each} for each in choices.cut(text)]
            block["text"] = ""
    start = {"type": "content_block_start", **mark, "content_block": block}
    told = [Event(start, pieces=calls, wholes=calls if is_whole else frozenset())]
    for piece in pieces:
        told += [Event(choices.one(*_UNKNOWN))] if choices.one(False, True) else []
        told.append(Event({"type": "content_block_delta", **mark, "delta": piece}, pieces=calls))
    return [*told, Event({"type": "content_block_stop", **mark})]


def _converse(event: Block) -> Any:
    mark = {"contentBlockIndex": event["index"]} if "index" in event else {}
    match event:
        case {"type": "content_block_start", "content_block": block}:
            start = _converse_block(block)
            if not block.get("input", True):
                del start["toolUse"]["input"]
            return {"contentBlockStart": {"start": start, **mark}}
        case {"type": "content_block_delta", "delta": delta}:
            return {"contentBlockDelta": {"delta": _converse_delta(delta), **mark}}
        case {"type": "content_block_stop"}:
            return {"contentBlockStop": mark}
    return {"tomorrow": 1}


def _converse_block(block: Block) -> Block:
    match block:
        case {"type": "tool_use", "id": number, "name": name, "input": given}:
            return {"toolUse": {"toolUseId": number, "name": name, "input": given}}
        case {"type": "thinking", "thinking": text, "signature": signature}:
            return {"reasoningContent": {"reasoningText": {"text": text, "signature": signature}}}
    return {"text": block["text"]}


def _converse_delta(delta: Block) -> Block:
    match delta:
        case {"type": "input_json_delta", "partial_json": piece}:
            return {"toolUse": {"input": piece}}
        case {"type": "thinking_delta", "thinking": piece}:
            return {"reasoningContent": {"text": piece}}
        case {"type": "signature_delta", "signature": piece}:
            return {"reasoningContent": {"signature": piece}}
        case {"type": "text_delta", "text": piece}:
            return {"text": piece}
    return {"citation": {"title": "A"}}
