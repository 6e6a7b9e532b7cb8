"""Chat completions: chunks of a stream, or one whole completion."""

import json
from typing import Any

from tests.providers.writers.abstract_answer import AbstractAnswer, Call, Choices, Event, Thought
from tests.providers.writers.framing import document, server_sent

Fields = dict[str, Any]
USAGE = {
    "prompt_tokens": 12,
    "completion_tokens": 3,
    "total_tokens": 15,
    "prompt_tokens_details": {"cached_tokens": 4},
}
_TOP = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-test"}
_UNKNOWN: tuple[Any, ...] = (
    {**_TOP, "choices": []},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": None, "content_filter_results": {}}]},
    {"choices": [{"index": 1, "delta": {"content": "other"}}]},
)


def write(answer: AbstractAnswer, choices: Choices) -> bytes:
    """The bytes of an answer."""
    if choices.one("stream", "document") == "document":
        return document(completion(answer, choices), choices)
    return server_sent(choices.kept(events(answer, choices)), choices)


def events(answer: AbstractAnswer, choices: Choices) -> list[Event]:
    """The chunks of an answer, and the word that ends the stream."""
    return _Writer(answer, choices).chunks()


def completion(answer: AbstractAnswer, choices: Choices) -> Fields:
    """A whole completion."""
    return _Writer(answer, choices).completion()


class _Writer:
    """Writes one answer; `style` is how a piece is marked as one of its call."""

    def __init__(self, answer: AbstractAnswer, choices: Choices) -> None:
        self._answer, self._choices = answer, choices
        calls = answer.calls
        told = {(call.name, json.dumps(call.arguments)) for call in calls}
        has_empty = not all(call.arguments for call in calls)
        in_order = ("order", "zero, in order", *(() if has_empty else ("apart",)))
        in_order = () if choices.is_lossy or len(told) < len(calls) else in_order
        marked = ("index", "ids", "gaps", "texts", *(() if choices.is_lossy else ("zero",)))
        self._style = choices.one(*marked, *in_order)
        self._is_mixed = self._style not in in_order
        needs_ids = self._style in ("ids", "zero") or (
            self._style == "zero, in order" and has_empty
        )
        self._has_ids = needs_ids or choices.one(True, False)
        self._reason = "tool_calls" if calls else "stop"
        # What the last chunk repeats: its delta the calls, or a message beside it everything.
        repeats = ("", "calls", "message") if calls else ("", "message")
        self._repeat = choices.one(*repeats)

    def completion(self) -> Fields:
        message = {"role": "assistant", "refusal": None, **self._message()}
        choice = {"index": 0, "message": message, "finish_reason": self._reason, "logprobs": None}
        return {**_TOP, "object": "chat.completion", "choices": [choice], "usage": USAGE}

    def chunks(self) -> list[Event]:
        choices = self._choices
        rows = [self._part(part) for part in self._answer.parts]
        first = _chunk({"content": choices.one("", None), "role": "assistant"})
        told = [first, *choices.in_turn(self._answer, rows, is_mixed=self._is_mixed)]
        if choices.one(False, True):
            _add_messages(told)
        last = _chunk(self._last_delta(), choices.one(self._reason, "stop")).value
        if self._repeat == "message":
            last["choices"][0]["message"] = self._message()
        numbers = frozenset(call.number for call in self._answer.calls if self._repeat)
        told.append(Event(last, wholes=numbers))
        told += choices.one([Event({**_TOP, "choices": [], "usage": USAGE})], [])
        return [*told, *choices.one([Event("[DONE]")], [])]

    def _last_delta(self) -> Fields:
        if self._repeat == "calls":
            return {"tool_calls": [self._whole_call(call) for call in self._answer.calls]}
        phantom = {"index": 99, "id": "", "type": "function"}
        none = self._choices.one({"name": "", "arguments": ""}, {"name": None, "arguments": "{}"})
        return self._choices.one({}, {"tool_calls": [{**phantom, "function": none}]})

    def _message(self) -> Fields:
        parts = self._answer.parts
        message: Fields = {"content": "".join(self._answer.texts) or None}
        if thoughts := [part.text for part in parts if isinstance(part, Thought)]:
            message["reasoning_content"] = "".join(thoughts)
        if self._answer.calls:
            message["tool_calls"] = [self._whole_call(call) for call in self._answer.calls]
        return message

    def _whole_call(self, call: Call) -> Fields:
        arguments = self._choices.one(json.dumps(call.arguments), call.arguments)
        function = {"name": call.name, "arguments": arguments}
        return {"type": "function", "function": function, **self._mark(call, is_first=True)}

    def _part(self, part: str | Thought | Call) -> list[Event]:
        choices = self._choices
        noise = choices.one([], [Event(choices.one(*_UNKNOWN))])
        match part:
            case Call():
                return [*self._call(part), *noise]
            case Thought(text):
                name = choices.one("reasoning_content", "reasoning")
                return [*(_chunk({name: piece}) for piece in choices.cut(text)), *noise]
        contents = [
            choices.one(piece, [{"type": "text", "text": piece}]) for piece in choices.cut(part)
        ]
        return [*(_chunk({"content": each}, choices.one(None, "")) for each in contents), *noise]

    def _call(self, call: Call) -> list[Event]:
        """The chunks of one call: its name first, its arguments in pieces, whole, or only later."""
        choices = self._choices
        number, text = frozenset({call.number}), json.dumps(call.arguments)
        firsts: list[Fields] = [{"arguments": None}, {}]
        wholes: list[Fields] = [{"arguments": text}, {"arguments": call.arguments}]
        is_later = self._repeat == "message" or (self._repeat == "calls" and self._is_mixed)
        pieces = choices.one(choices.cut(text), [] if is_later else [text])
        if not choices.is_lossy:
            wholes += [] if call.arguments else [{"arguments": ""}]
            firsts = [{"arguments": ""}, *firsts, *([{"arguments": "{}"}] if pieces else [])]
        if self._style == "zero, in order" and not self._has_ids:
            # A name that comes again is all that begins a call.
            firsts, wholes = [], wholes[:2]
        if self._style == "apart":
            firsts, wholes = firsts[:1], []
        begin = choices.one(*firsts, *wholes)
        function = {"name": call.name, **begin}
        told = [_piece({**self._mark(call, is_first=True), "type": "function"}, function, number)]
        for piece in pieces if begin in firsts else ():
            function = {**self._name_again(call), "arguments": piece}
            told.append(_piece(self._mark(call, is_first=False), function, number))
        return told

    def _mark(self, call: Call, *, is_first: bool) -> Fields:
        """The index and the id of a piece."""
        number = call.number
        indexes: dict[str, Fields] = {
            "index": {"index": number},
            "gaps": {"index": 2 * number + 1},
            "texts": {"index": str(number)},
            "zero": {"index": 0},
            "zero, in order": {"index": 0},
            "apart": {"index": 2 * number + is_first},
        }
        again = self._style in ("ids", "zero")
        again = again or (self._style != "apart" and self._choices.one(False, True))
        own = {"id": call.id} if self._has_ids and (is_first or again) else {}
        return {**indexes.get(self._style, {}), **(own or self._choices.one({}, {"id": ""}))}

    def _name_again(self, call: Call) -> Fields:
        is_marked = self._has_ids and self._style not in ("order", "apart")
        again = [{"name": call.name}] if is_marked else []
        return self._choices.one({}, {"name": None}, {"name": ""}, *again)


def _add_messages(chunks: list[Event]) -> None:
    """Put the whole message so far beside each piece of text."""
    text = ""
    for chunk in chunks:
        for choice in chunk.value["choices"]:
            if isinstance(piece := choice["delta"].get("content"), str) and choice["index"] == 0:
                text += piece
                choice["message"] = {"role": "assistant", "content": text}


def _piece(mark: Fields, function: Fields, number: frozenset[int]) -> Event:
    delta = {"tool_calls": [{**mark, "function": function}]}
    return Event(_chunk(delta).value, pieces=number)


def _chunk(delta: Fields, reason: str | None = None) -> Event:
    choice: Fields = {"index": 0, "delta": delta, "finish_reason": reason}
    return Event({**_TOP, "choices": [choice]})
