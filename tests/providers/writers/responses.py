"""The Responses API: events of a stream, or one whole response."""

import json
from typing import Any

from tests.providers.writers.abstract_answer import AbstractAnswer, Call, Choices, Event, Thought
from tests.providers.writers.framing import document, server_sent

Item = dict[str, Any]
USAGE = {
    "input_tokens": 12,
    "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 3},
    "output_tokens": 30,
    "output_tokens_details": {"reasoning_tokens": 27},
    "total_tokens": 42,
}
_UNKNOWN: tuple[Item, ...] = (
    {"type": "keepalive", "sequence_number": 1},
    {"type": "response.web_search_call.searching", "output_index": 9, "item_id": "ws_1"},
    {"type": "response.output_item.added", "output_index": 9, "item": {"type": "mcp_call"}},
)


def write(answer: AbstractAnswer, choices: Choices) -> bytes:
    """The bytes of an answer."""
    if choices.one("stream", "document") == "document":
        return document(response(items(answer), "completed"), choices)
    return server_sent(choices.kept(events(answer, choices)), choices, has_names=True)


def events(answer: AbstractAnswer, choices: Choices) -> list[Event]:
    """The events of an answer; the last one has the whole response, or an empty one."""
    return _Writer(answer, choices).events()


def items(answer: AbstractAnswer) -> list[Item]:
    """The whole items of an answer."""
    return [_item(number, part) for number, part in enumerate(answer.parts)]


def response(output: list[Item], status: str, **more: Any) -> Item:
    """A response, as every event of its own has it."""
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": "gpt-test",
        "output": output,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": USAGE if status == "completed" else None,
        **more,
    }


class _Writer:
    """Writes one answer; `style` is how an event is marked as one of its item."""

    def __init__(self, answer: AbstractAnswer, choices: Choices) -> None:
        self._answer, self._choices = answer, choices
        self._items = items(answer)
        styles = ["both", "ids", "index", "ids change", "texts"]
        self._style = choices.one(*styles, *([] if choices.is_lossy else ["zero", "order"]))
        self._output = self._items if choices.is_lossy else choices.one(self._items, [])
        # All texts of an answer, or none, come only with the whole response.
        self._has_texts = not self._output or choices.one(True, False)
        self._events = 0

    def events(self) -> list[Event]:
        rows = [self._events_of(index, item) for index, item in enumerate(self._items)]
        told = self._choices.in_turn(self._answer, rows, is_mixed=self._style != "order")
        first = response([], "in_progress")
        begin = [
            Event({"type": f"response.{kind}", "response": first})
            for kind in ("created", "in_progress")
        ]
        last = {"type": "response.completed", "response": response(self._output, "completed")}
        numbers = frozenset(call.number for call in self._answer.calls if self._output)
        return [*self._choices.one(begin, []), *told, Event(last, wholes=numbers)]

    def _events_of(self, index: int, item: Item) -> list[Event]:
        """The events of one item: its begin, its pieces, its end; some servers leave out some."""
        told: list[Event] = []
        match item["type"]:
            case "function_call":
                told = self._call(index, item)
            case "message":
                told = self._message(index, item)
            case "reasoning":
                blank = {**item, "summary": [], "encrypted_content": "gA"}
                told = [
                    *self._choices.one([self._added(index, blank)], []),
                    self._done(index, item),
                ]
        return [*told, *self._choices.one([], [Event(self._choices.one(*_UNKNOWN))])]

    def _message(self, index: int, item: Item) -> list[Event]:
        choices, text = self._choices, item["content"][0]["text"]
        blank = {**item, "content": [], "status": "in_progress"}
        if not self._has_texts:
            return [self._added(index, blank)]
        inner: Item = {"content_index": 0, **self._mark(index, item)}
        deltas = [
            {"type": "response.output_text.delta", "delta": piece, "logprobs": [], **inner}
            for piece in choices.cut(text)
        ]
        end = {"type": "response.output_text.done", "text": text, "logprobs": [], **inner}
        done = [self._done(index, item)]
        begin = [self._added(index, blank)]
        told = [Event(event) for event in choices.one([*deltas, end], deltas, [end], [])]
        if not told:
            return choices.one(done, [self._added(index, item)])
        return [*begin, *told, *choices.one(done, [])]

    def _call(self, index: int, item: Item) -> list[Event]:
        choices, text = self._choices, item["arguments"]
        calls = frozenset({int(item["call_id"].removeprefix("call_"))})
        whole = {**item, "arguments": choices.one(text, json.loads(text))}
        blank = {**item, "status": "in_progress", "arguments": choices.one("", None, "{}")}
        added = self._added(index, blank, pieces=calls)
        kind = "response.function_call_arguments"
        deltas = [
            Event({"type": f"{kind}.delta", "delta": piece, **self._mark(index, item)}, calls)
            for piece in choices.cut(text)
        ]
        end = {"type": f"{kind}.done", "arguments": text, **self._mark(index, item)}
        ends = [Event(end, wholes=calls)]
        done = [self._done(index, whole, wholes=calls)]
        opened = [self._added(index, whole, pieces=calls, wholes=calls)]
        # Each of these has all of the arguments, and so may the whole response.
        told = choices.one(
            [added, *deltas, *ends, *done],
            [added, *deltas],
            [added, *ends],
            [added, *done],
            done,
            # An empty object at the begin of a call is no statement.
            [*opened, *choices.one(deltas, done, deltas if text == "{}" else [])],
            [added, *ends, self._done(index, {**item, "arguments": ""})],
        )
        return choices.one(told, [added]) if self._output else told

    def _added(self, index: int, item: Item, **calls: frozenset[int]) -> Event:
        return self._whole("added", index, item, **calls)

    def _done(self, index: int, item: Item, **calls: frozenset[int]) -> Event:
        return self._whole("done", index, item, **calls)

    def _whole(self, kind: str, index: int, item: Item, **calls: frozenset[int]) -> Event:
        mark = self._mark(index, item)
        own = {"id": mark.pop("item_id")} if "item_id" in mark else {}
        shown = {**{name: item[name] for name in item if name != "id"}, **own}
        return Event({"type": f"response.output_item.{kind}", **mark, "item": shown}, **calls)

    def _mark(self, index: int, item: Item) -> Item:
        """The index, and the id of the item."""
        self._events += 1
        place = {"zero": 0, "texts": str(index)}.get(self._style, index)
        own = f"x_{self._events}" if self._style == "ids change" else item["id"]
        shown = {} if self._style in ("ids", "order") else {"output_index": place}
        return shown if self._style in ("index", "order") else {**shown, "item_id": own}


def _item(number: int, part: str | Thought | Call) -> Item:
    """A whole item."""
    match part:
        case Call():
            own = {"type": "function_call", "id": f"fc_{number}", "call_id": part.id}
            own |= {"name": part.name, "arguments": json.dumps(part.arguments)}
        case Thought(text):
            own = {"type": "reasoning", "id": f"rs_{number}", "encrypted_content": "gAAAA"}
            return {**own, "summary": [{"type": "summary_text", "text": text}]}
        case text:
            content = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
            own = {"type": "message", "id": f"msg_{number}", "role": "assistant"}
            return {**own, "content": [content], "status": "completed"}
    return {**own, "status": "completed"}
