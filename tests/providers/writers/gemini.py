"""Gemini: events that each have the form of a whole answer, a list of them, or one whole answer."""

import json
from collections.abc import Sequence
from typing import Any

from tests.providers.writers.abstract_answer import AbstractAnswer, Call, Choices, Event, Thought
from tests.providers.writers.framing import document, server_sent

Part = dict[str, Any]
USAGE = {
    "promptTokenCount": 10,
    "toolUsePromptTokenCount": 2,
    "cachedContentTokenCount": 4,
    "candidatesTokenCount": 1,
    "thoughtsTokenCount": 2,
    "totalTokenCount": 15,
}
_UNKNOWN: tuple[Any, ...] = (
    {"responseId": "x"},
    {"candidates": [{"index": 1, "content": {"parts": [{"text": "other"}]}}]},
    {"usageMetadata": {"promptTokenCount": 10}},
)


def write(answer: AbstractAnswer, choices: Choices) -> bytes:
    """The bytes of an answer."""
    told = choices.kept(events(answer, choices))
    match choices.one("stream", "list", "document"):
        case "list":
            return document([event.value for event in told], choices)
        case "document":
            has_ids = choices.one(False, True)
            parts = [_part(part, has_ids, choices) for part in answer.parts]
            return document(_event(parts, "STOP", usageMetadata=USAGE), choices)
    return server_sent(told, choices)


def events(answer: AbstractAnswer, choices: Choices) -> list[Event]:
    """The events of an answer; the last one may repeat its calls."""
    told, waiting, has_ids = list[Event](), list[Part](), choices.one(False, True)
    for part in answer.parts:
        for piece in _pieces(part, choices):
            waiting.append(_part(piece, has_ids, choices))
            if choices.one(True, False):
                told.append(Event(_event(waiting)))
                waiting = []
        told += choices.one([], [Event(choices.one(*_UNKNOWN))])
    if waiting:
        told.append(Event(_event(waiting)))
    calls = [_part(call, has_ids, choices) for call in answer.calls]
    last = choices.one([{"text": ""}], [], calls)
    return [*told, Event(_event(last, "STOP", usageMetadata=USAGE))]


def _pieces(part: str | Thought | Call, choices: Choices) -> Sequence[str | Thought | Call]:
    match part:
        case Call():
            return [part]
        case Thought(text):
            return [Thought(piece) for piece in choices.cut(text)]
    return choices.cut(part)


def _event(parts: list[Part], reason: str | None = None, **more: Any) -> Part:
    candidate: Part = {"content": {"role": "model", "parts": parts}, "index": 0}
    if reason:
        candidate["finishReason"] = reason
    return {"candidates": [candidate], "modelVersion": "gemini-test", **more}


def _part(part: str | Thought | Call, has_ids: bool, choices: Choices) -> Part:
    match part:
        case Call():
            own = {"id": part.id} if has_ids else {}
            given = [part.arguments, json.dumps(part.arguments)]
            absent: list[Part] = [] if part.arguments else [{}, {"args": None}]
            shown = choices.one(*({"args": each} for each in given), *absent)
            return {"functionCall": {"name": part.name, **shown, **own}}
        case Thought(text):
            return {"text": text, "thought": True}
    return {"text": part}
