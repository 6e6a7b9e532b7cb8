"""A response of the Responses API: events of a stream, or one whole response.

A response is a list of items: messages, calls, and the model's reasoning. The pieces of an item are
between its events `added` and `done`; some servers send only one of the two, or only the whole
response at the end. Items are distinguished by their type and id, and by the `output_index` where
they have no id: some servers give all of them the index 0. Unknown events, and items of tools that
OpenAI runs itself, are ignored.
"""

from collections.abc import Callable
from typing import Any

from holdfast.providers.answer.answer_reader import AnswerReader, Ending, ending_of
from holdfast.providers.answer.bounded_text import well_formed
from holdfast.providers.answer.call_draft import CallDraft
from holdfast.providers.answer.call_matching import matched
from holdfast.providers.answer.part_order import Part
from holdfast.providers.answer.streamed_answer import StreamedAnswer
from holdfast.providers.base import ProviderRefused
from holdfast.providers.json_fields import read_object, read_objects, read_place, read_text
from holdfast.providers.openai.answer import COUNTS, DETAILS_OF_USAGE
from holdfast.providers.transport.error_response import error_in_event

# Two messages of one answer are one text.
BETWEEN_MESSAGES = "\n\n"

_ENDS = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
_FAILED = "the provider failed to answer, and reported no reason"
_ITEMS = {"message": "text", "function_call": "call", "reasoning": "reasoning"}


class _Item:
    """One item of a response: its part in the order, with the call's draft or the text so far.

    `ids` are its own, by the names of their fields; `has_own_id` if an event named one of them.
    """

    def __init__(self, kind: str, place: str | None, part: Part) -> None:
        self.kind, self.place, self.part = kind, place, part
        self.call: CallDraft | None = part.get("call")
        self.ids: dict[str, str] = {}
        self.pieces: list[str] = []
        self.is_begun = self.is_done = self.has_own_id = False

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def has_id(self, value: dict[str, Any]) -> bool:
        return bool(self.ids.items() & _texts(value, "id", "call_id").items())

    def can_be(self, value: dict[str, Any], *, exactly: bool = False) -> bool:
        """Report whether a whole item may be this one, or is `exactly` the same."""
        if value.get("type") != self.kind:
            return False
        if self.call is None:
            text = _whole_text(value)
            return text == self.text if exactly else text.startswith(self.text)
        test = self.call.equals if exactly else self.call.can_equal
        return test(read_text(value.get("name")), value.get("arguments"))


class OpenAIResponsesAnswerReader(AnswerReader):
    """One response, as it arrives."""

    format_name = "response of the Responses API"
    marker = '"type"'
    whole_endings = ()  # a status has them
    counts = COUNTS

    def __init__(self, answer: StreamedAnswer) -> None:
        super().__init__(answer)
        self._items: list[_Item] = []
        # By kind, field and id, the item that an event named last.
        self._by_id: dict[tuple[str, str, str], _Item] = {}
        self._has_text = False

    def read_event(self, value: dict[str, Any]) -> bool:
        """Read an event, or a whole response.

        Raises:
            ProviderRefused, ContextOverflow: the response failed.
            FailedAnswer: arguments belong to no certain call.
        """
        match value:
            case {"object": "response", "output": list()}:
                self._read_end(value)
                return True
            case {"type": str(kind), "response": dict(response)} if kind in _ENDS:
                self._read_end({**response, "status": kind.removeprefix("response.")})
            case {
                "type": "response.output_item.added" | "response.output_item.done" as kind,
                "item": dict(item),
            }:
                self._read_item(item, value, is_done=kind.endswith(".done"))
            case {
                "type": "response.output_text.delta" | "response.refusal.delta",
                "delta": str(piece),
            }:
                self._add_text(self._piece_of("message", value), piece)
            case {"type": "response.output_text.done", "text": str(whole)}:
                self._add_whole_text(self._piece_of("message", value), whole)
            case {"type": "response.function_call_arguments.delta", "delta": str(piece)}:
                call = self._piece_of("function_call", value).part["call"]
                self.answer.add_arguments(call, piece)
            case {"type": "response.function_call_arguments.done"}:
                call = self._piece_of("function_call", value).part["call"]
                self.answer.add_whole_arguments(call, value.get("arguments"))
        return str(value.get("type")).startswith("response.")

    def data_beside(self, calls: list[CallDraft]) -> Any:
        """Return the items of the answer, if there is reasoning among them."""
        parts = [part for part in self.order.items(calls) if part != {"type": "reasoning"}]
        if any(part["type"] == "reasoning" for part in parts):
            return parts
        parts = [{name: part[name] for name in part if name != "id"} for part in parts]
        return parts if any("phase" in part for part in parts) else None

    def _item_of(self, value: Part, event: Part, accepts: Callable[[_Item, bool], bool]) -> _Item:
        """Return the item with one of the ids of a value, an open one at its place, or a new one.

        `accepts` takes an open item, and whether it has another id.
        """
        ids, place = _texts(value, "id", "call_id"), read_place(event.get("output_index"))
        for name, id in ids.items():
            found = self._by_id.get((value["type"], name, id))
            if found is not None and found.ids[name] == id:
                return found
        for item in reversed(self._items):
            if (
                item.kind == value["type"]
                and item.place == place
                and not item.is_done
                and "call_id" not in (known := item.ids.keys() & ids.keys())
                and accepts(item, "id" in known)
            ):
                return item
        return self._add(value, place)

    def _piece_of(self, kind: str, event: Part) -> _Item:
        """Return the item that an event has a piece of."""
        value = {"type": kind, "id": event.get("item_id")}

        # Some servers give an item another id in each event.
        def accepts(item: _Item, is_other: bool) -> bool:
            return not is_other or (item.place is not None and not item.has_own_id)

        item = self._item_of(value, event, accepts)
        item.has_own_id |= value["id"] in item.ids.values()
        return item

    def _add(self, value: Part, place: str | None) -> _Item:
        kind = value["type"]
        fields: Part = {"characters": 0} if kind == "message" else {}
        if kind == "function_call":
            fields["call"] = self.add_call(value.get("name"), value.get("call_id"))
        item = _Item(kind, place, self.order.add(_ITEMS[kind], **fields))
        self._identify(item, value)
        self._items.append(item)
        return item

    def _identify(self, item: _Item, value: dict[str, Any]) -> None:
        for name, id in _texts(value, "id", "call_id").items():
            item.ids[name] = id
            self._by_id[item.kind, name, id] = item

    def _read_item(self, value: Part, event: Part, *, is_done: bool) -> None:
        """Read the item of an event, at its begin or its end, or both at once."""

        def accepts(item: _Item, is_other: bool) -> bool:
            if is_done:
                return item.can_be(value) and (not is_other or item.place is not None)
            return not (is_other or item.is_begun)

        if read_text(value.get("type")) in _ITEMS:
            self._update(self._item_of(value, event, accepts), value, is_done=is_done)

    def _update(self, item: _Item, value: dict[str, Any], *, is_done: bool) -> None:
        self._identify(item, value)
        item.is_done |= is_done
        item.is_begun = True
        if item.kind == "message":
            item.part.update(_texts(value, "id", "phase"))
            self._add_whole_text(item, _whole_text(value))
        elif item.call is not None:
            item.part.update(_texts(value, "id"))
            item.call.identify(read_text(value.get("call_id")), read_text(value.get("name")))
            arguments = value.get("arguments")
            self.answer.add_whole_arguments(item.call, arguments, is_begin=not is_done)
        elif is_done:
            item.part.update(_reasoning(value))

    def _add_whole_text(self, item: _Item, whole: str) -> None:
        if whole.startswith(text := item.text):
            self._add_text(item, whole[len(text) :])

    def _add_text(self, item: _Item, piece: str) -> None:
        if not piece:
            return
        item.pieces.append(piece)
        if self._has_text and not item.part["characters"]:
            piece = BETWEEN_MESSAGES + piece
        self._has_text = True
        item.part["characters"] += len(well_formed(piece))
        self.answer.add_text(piece)

    def _read_end(self, response: dict[str, Any]) -> None:
        status = response.get("status")
        if status == "failed":
            error = error_in_event({"error": response.get("error")})
            raise error or ProviderRefused(500, _FAILED)
        output = read_objects(response.get("output"))
        values = [each for each in output if read_text(each.get("type")) in _ITEMS]
        # Items that events had before are the same.
        found = matched(
            self._items,
            values,
            lambda item, value: item.has_id(value) and item.can_be(value),
            lambda item, value: item.can_be(value, exactly=True),
            _Item.can_be,
            _Item.has_id,  # it contradicts
        )
        for item, value in zip(found, values, strict=True):
            self._update(item or self._add(value, None), value, is_done=True)
        self.answer.model = read_text(response.get("model")) or self.answer.model
        usage = read_object(response.get("usage"))
        self.read_usage(usage, *map(usage.get, DETAILS_OF_USAGE))
        # Any other status is that of a response without its end.
        self.is_finished = self.is_done = status in ("completed", "incomplete", "cancelled")
        if status == "cancelled":
            self.read_stop(status)
        if status == "incomplete":
            reason = read_text(read_object(response.get("incomplete_details")).get("reason"))
            is_filtered = ending_of(reason, ()) is Ending.FILTERED
            self.read_stop(reason if is_filtered else "max_output_tokens")


def _whole_text(value: dict[str, Any]) -> str:
    parts = read_objects(value.get("content"))
    return "".join(read_text(part.get("text")) or read_text(part.get("refusal")) for part in parts)


def _texts(value: dict[str, Any], *names: str) -> dict[str, str]:
    return {name: well_formed(text) for name in names if (text := read_text(value.get(name)))}


def _reasoning(value: dict[str, Any]) -> Part:
    """Return the fields of a reasoning item that is accepted back.

    One that a server neither encrypts nor shows is stored by it alone.
    """
    lists = {
        name: [{"type": kind, **_texts(part, "text")} for part in read_objects(value.get(name))]
        for name, kind in (("summary", "summary_text"), ("content", "reasoning_text"))
    }
    shown = {"content": lists["content"]} if lists["content"] else {}
    named = _texts(value, "id", "encrypted_content")
    is_whole = "encrypted_content" in named or shown
    return {"summary": lists["summary"], **shown, **named} if is_whole else {}
