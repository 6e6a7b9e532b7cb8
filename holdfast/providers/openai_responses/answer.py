"""A response of the Responses API: events of a stream, or one whole response.

A response is a list of items: messages, calls, and the model's reasoning. The pieces of an item are
between its events `added` and `done`; some servers send only one of the two, or only the whole
response. Unknown events, and items of tools that OpenAI runs itself, are ignored.
"""

from typing import Any

from holdfast.providers.answer_reader import (
    AnswerReader,
    read_count,
    read_object,
    read_objects,
    read_text,
)
from holdfast.providers.base import ProviderRefused
from holdfast.providers.openai.answer import read_usage
from holdfast.providers.part_order import Part
from holdfast.providers.streamed_answer import CallDraft, StreamedAnswer, well_formed
from holdfast.providers.transport.error_response import error_in_event
from holdfast.schemas.internal.solution import Solution

# Two messages of one answer are one text.
BETWEEN_MESSAGES = "\n\n"

_ENDS = ("response.completed", "response.incomplete", "response.failed")
_FAILED = "the provider failed to answer, and reported no reason"


class OpenAIResponsesAnswerReader(AnswerReader):
    """One response, as it arrives."""

    format_name = "response of the Responses API"
    marker = '"type"'

    def __init__(self, answer: StreamedAnswer) -> None:
        super().__init__(answer)
        # By `output_index`, or by id where a server sends none.
        self._parts: dict[Any, Part] = {}
        self._calls: dict[Any, CallDraft] = {}
        self._has_text = False

    def read_event(self, value: dict[str, Any]) -> bool:
        """Read an event, or a whole response.

        Raises:
            ProviderRefused, ContextOverflow: the response failed.
        """
        match value:
            case {"object": "response", "output": list()}:
                self._read_end(value)
            case {"type": str(kind), "response": dict(response)} if kind in _ENDS:
                self._read_end({**response, "status": kind.removeprefix("response.")})
            case {"type": "response.output_item.added", "item": dict(item)}:
                self._read_item(_key(value, item.get("id")), item, is_done=False)
            case {"type": "response.output_item.done", "item": dict(whole)}:
                self._read_item(_key(value, whole.get("id")), whole, is_done=True)
            case {
                "type": "response.output_text.delta" | "response.refusal.delta",
                "delta": str(piece),
            }:
                key = _key(value, value.get("item_id"))
                if key not in self._parts:
                    self._read_item(key, {"type": "message"}, is_done=False)
                self._add_text(self._parts[key], piece)
            case {"type": "response.function_call_arguments.delta", "delta": str(piece)}:
                call = self._calls.get(_key(value, value.get("item_id")))
                if call is not None:
                    self.answer.add_arguments(call, piece)
            case _:
                return str(value.get("type")).startswith("response.")
        return True

    def solution(self) -> Solution:
        """Return the whole answer, with its reasoning beside it."""
        parts = [part for part in self.order.items() if part != {"type": "reasoning"}]
        is_reasoned = any(part["type"] == "reasoning" for part in parts)
        if not is_reasoned:
            parts = [{name: part[name] for name in part if name != "id"} for part in parts]
        if is_reasoned or any("phase" in part for part in parts):
            self.answer.provider_data = parts
        return super().solution()

    def _read_item(self, key: Any, value: dict[str, Any], *, is_done: bool) -> None:
        """Read an item at its begin or its end, or both at once."""
        is_new = key not in self._parts
        match value.get("type"):
            case "message":
                if is_new:
                    named = _texts(value, "id", "phase")
                    self._parts[key] = self.order.add("text", characters=0, **named)
                has_text = bool(self._parts[key].get("characters"))
                for part in () if has_text else read_objects(value.get("content")):
                    text = read_text(part.get("text")) or read_text(part.get("refusal"))
                    self._add_text(self._parts[key], text)
            case "function_call":
                if is_new:
                    self._calls[key] = self.add_call(value.get("name"), value.get("call_id"))
                    self._parts[key] = self.order.add("call", **_texts(value, "id"))
                call = self._calls.get(key)
                if is_done and call is not None and not call.arguments.bytes:
                    self.add_arguments(call, value.get("arguments"))
            case "reasoning":
                if is_new:
                    self._parts[key] = self.order.add("reasoning")
                if is_done:
                    self._parts[key].update(_reasoning(value))

    def _add_text(self, part: Part, piece: str) -> None:
        if part["type"] != "text" or not piece:
            return
        if self._has_text and not part["characters"]:
            piece = BETWEEN_MESSAGES + piece
        self._has_text = True
        part["characters"] += len(well_formed(piece))
        self.answer.add_text(piece)

    def _read_end(self, response: dict[str, Any]) -> None:
        status = response.get("status")
        if status == "failed":
            error = error_in_event({"error": response.get("error")})
            raise error or ProviderRefused(500, _FAILED)
        if not self._parts:
            for index, item in enumerate(read_objects(response.get("output"))):
                self._read_item(index, item, is_done=True)
        self.answer.model = read_text(response.get("model")) or self.answer.model
        self.answer.usage = read_usage(read_object(response.get("usage")), "input", "output")
        # Any other status is that of a response without its end.
        self.is_finished = self.is_done = status in ("completed", "incomplete")
        if status == "incomplete":
            self.read_stop(read_object(response.get("incomplete_details")).get("reason"))
            self.stop_reason = self.stop_reason or "length"


def _key(event: dict[str, Any], item_id: Any) -> Any:
    index = read_count(event.get("output_index"))
    return read_text(item_id) if index is None else index


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
