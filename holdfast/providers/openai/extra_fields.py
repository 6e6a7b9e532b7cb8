"""Fields of chat completions that are no part of OpenAI's format, and that servers require back.

Gemini 3 signs a call in its `extra_content`, LiteLLM in `provider_specific_fields`; OpenRouter has
`reasoning_details`; DeepSeek's and Kimi's models reject a request that does not return an answer's
`reasoning_content` with it ("Thinking mode", "Tool calls" in DeepSeek's reference), an empty one
too, and other servers call it `reasoning`. They are stored beside the answer, and go back to the
endpoint that they came from; a field that a server refuses is left out (`parameter_fallback`).
"""

from typing import Any

from holdfast.providers.answer.bounded_text import BoundedText
from holdfast.providers.answer.call_draft import CallDraft
from holdfast.providers.answer.streamed_answer import MAX_PROVIDER_DATA_BYTES
from holdfast.providers.json_fields import read_object, read_objects
from holdfast.schemas.message import ChatMessage

# The thoughts in the field of most servers, which go back to every endpoint.
REASONING = "reasoning_content"
_TEXTS = (REASONING, "reasoning")
_DETAILS = "reasoning_details"
_OBJECTS = ("extra_content", "provider_specific_fields")
MESSAGE_FIELDS = (*_TEXTS, _DETAILS, *_OBJECTS)
# The fields of a call in the format; the names of the functions' fields are the format's as well.
_CALL_FIELDS = ("index", "id", "type", "function")
# The texts of a detail, which arrive in pieces.
_DETAIL_TEXTS = ("text", "summary", "data")


class ExtraFields:
    """The further fields of one answer, collected as it arrives."""

    def __init__(self) -> None:
        self._texts: dict[str, BoundedText] = {}
        self._fields: dict[str, Any] = {}
        self._calls: dict[CallDraft, dict[str, Any]] = {}

    def add(self, message: dict[str, Any]) -> None:
        """Add those of a piece of the message."""
        if message.keys().isdisjoint(MESSAGE_FIELDS):
            return
        for name in _TEXTS:
            if isinstance(piece := message.get(name), str):
                self._texts.setdefault(name, BoundedText(MAX_PROVIDER_DATA_BYTES)).add(piece)
        for name in _OBJECTS:
            if value := read_object(message.get(name)):
                self._fields[name] = self._fields.get(name, {}) | value
        for detail in read_objects(message.get(_DETAILS)):
            details = self._fields.setdefault(_DETAILS, [])
            last = details[-1] if details else {}
            kind = (detail.get("type"), detail.get("index"))
            if None in kind or kind != (last.get("type"), last.get("index")):
                details.append(dict(detail))
                continue
            # A further piece of the last one, which has the same type and index.
            for name, value in detail.items():
                is_piece = name in _DETAIL_TEXTS and isinstance(last.get(name), str)
                last[name] = last[name] + value if is_piece and isinstance(value, str) else value

    def add_missing(self, message: dict[str, Any]) -> None:
        """Add those of a whole message for which no piece has arrived."""
        known = {*self._texts, *self._fields}
        self.add({name: value for name, value in message.items() if name not in known})

    def add_call(self, draft: CallDraft, call: dict[str, Any]) -> None:
        """Add those of a call, or of a piece of it."""
        fields = {
            name: value
            for name, value in call.items()
            if name not in _CALL_FIELDS and value not in (None, "")
        }
        if fields:
            self._calls[draft] = self._calls.get(draft, {}) | fields

    def beside(self, calls: list[CallDraft]) -> dict[str, Any] | None:
        """Return what is stored beside an answer with these calls; None if there is nothing."""
        texts = {name: str(text) for name, text in self._texts.items()}
        of_calls = [self._calls.get(call, {}) for call in calls]
        found = {**texts, **self._fields, **({"calls": of_calls} if any(of_calls) else {})}
        return found or None


def with_extra_fields(encoded: dict[str, Any], message: ChatMessage) -> dict[str, Any]:
    """Return an answer as the server that gave it requires it back."""
    data = read_object(message.provider_data)
    fields = {name: data[name] for name in MESSAGE_FIELDS if name in data}
    calls = encoded.get("tool_calls")
    if calls and isinstance(extra := data.get("calls"), list) and len(extra) == len(calls):
        fields["tool_calls"] = [
            {**read_object(more), **call} for more, call in zip(extra, calls, strict=True)
        ]
    return {**encoded, **fields}
