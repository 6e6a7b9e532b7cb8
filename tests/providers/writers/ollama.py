"""Ollama's chats: JSON lines, each with a piece of one message, or the whole of it."""

import json
from typing import Any

from tests.providers.writers.abstract_answer import AbstractAnswer, Call, Choices, Event, Thought
from tests.providers.writers.framing import document, json_lines

Message = dict[str, Any]
COUNTS = {"prompt_eval_count": 12, "eval_count": 3, "total_duration": 5, "load_duration": 1}
_UNKNOWN: tuple[Any, ...] = ({"status": "loading"}, {"message": {"thinking": "Hm."}}, [])


def write(answer: AbstractAnswer, choices: Choices) -> bytes:
    """The bytes of an answer."""
    if choices.one("stream", "document") == "document":
        has_ids = choices.one(True, False)
        thoughts = "".join(part.text for part in answer.parts if isinstance(part, Thought))
        calls = [_call(call, has_ids, choices) for call in answer.calls]
        message = {"content": "".join(answer.texts), "thinking": thoughts, "tool_calls": calls}
        return document(_line(message, is_done=True), choices)
    return json_lines(choices.kept(events(answer, choices)))


def events(answer: AbstractAnswer, choices: Choices) -> list[Event]:
    """The lines of an answer; the last one may repeat its calls."""
    told: list[Event] = []
    has_ids = choices.one(True, False)
    waiting: list[Message] = []
    for part in [*answer.parts, ""]:
        if isinstance(part, Call):
            waiting.append(_call(part, has_ids, choices))
            if not choices.one(True, False):
                continue
        if waiting:
            told.append(Event(_line({"content": choices.one("", None), "tool_calls": waiting})))
            waiting = []
        if isinstance(part, Thought):
            told += [Event(_line({"thinking": piece})) for piece in choices.cut(part.text)]
        elif isinstance(part, str) and part:
            told += [Event(_line({"content": piece})) for piece in choices.cut(part)]
        told += [Event(choices.one(*_UNKNOWN))] if choices.one(False, True) else []
    calls = [_call(call, has_ids, choices) for call in answer.calls]
    last = choices.one({}, {"tool_calls": calls})
    return [*told, Event(_line(last, is_done=True))]


def _call(call: Call, has_ids: bool, choices: Choices) -> Message:
    given = choices.one(call.arguments, json.dumps(call.arguments))
    function: Message = {"name": call.name, "arguments": given}
    if choices.one(False, True):
        function["index"] = choices.one(call.number, 0)
    return {"function": function, **({"id": call.id} if has_ids else {})}


def _line(message: Message, *, is_done: bool = False) -> Message:
    said = {"role": "assistant", "content": "", **message}
    own = {"model": "tiny:latest", "created_at": "2026-08-21T18:48:22Z", "message": said}
    last = {"done_reason": "stop", **COUNTS} if is_done else {}
    return {**own, "done": is_done, **last}
