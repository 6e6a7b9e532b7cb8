"""Converse, which has the events and the blocks of the Messages API in other words."""

from typing import Any

from tests.providers.writers import messages
from tests.providers.writers.abstract_answer import AbstractAnswer, Choices, Event
from tests.providers.writers.framing import document, event_stream
from tests.providers.writers.messages import Block

USAGE = {
    "inputTokens": 5,
    "outputTokens": 3,
    "totalTokens": 15,
    "cacheReadInputTokens": 4,
    "cacheWriteInputTokens": 3,
}


def write(answer: AbstractAnswer, choices: Choices) -> bytes:
    """The bytes of an answer."""
    if choices.one("stream", "document") == "document":
        content = [_block(messages.block(part, choices)) for part in answer.parts]
        output = {"message": {"role": "assistant", "content": content}}
        return document({"output": output, **_stop(answer), "usage": USAGE}, choices)
    return event_stream(event.value for event in choices.kept(events(answer, choices)))


def events(answer: AbstractAnswer, choices: Choices) -> list[Event]:
    """The events of an answer."""
    end = {"metadata": {"usage": USAGE, "metrics": {"latencyMs": 7}}}
    return [
        Event({"messageStart": {"role": "assistant"}}),
        *(
            Event(value, event.pieces, event.wholes)
            for event in messages.block_events(answer, choices)
            if (value := _translated(event.value)) is not None
        ),
        Event({"messageStop": _stop(answer)}),
        Event(end),
    ]


def _stop(answer: AbstractAnswer) -> Block:
    return {"stopReason": "tool_use" if answer.calls else "end_turn"}


def _translated(event: Block) -> Any:
    """The event of Converse; only calls have one for their start."""
    mark = {"contentBlockIndex": event["index"]} if "index" in event else {}
    match event:
        case {"type": "content_block_start", "content_block": {"type": "tool_use"} as block}:
            start = _block(block)
            if not block["input"]:
                del start["toolUse"]["input"]
            return {"contentBlockStart": {"start": start, **mark}}
        case {"type": "content_block_start"}:
            return None
        case {"type": "content_block_delta", "delta": delta}:
            return {"contentBlockDelta": {"delta": _delta(delta), **mark}}
        case {"type": "content_block_stop"}:
            return {"contentBlockStop": mark}
    return {"tomorrow": 1}


def _block(block: Block) -> Block:
    match block:
        case {"type": "tool_use", "id": own, "name": name, "input": given}:
            return {"toolUse": {"toolUseId": own, "name": name, "input": given}}
        case {"type": "thinking", "thinking": text, "signature": signature}:
            return {"reasoningContent": {"reasoningText": {"text": text, "signature": signature}}}
    return {"text": block["text"]}


def _delta(delta: Block) -> Block:
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
