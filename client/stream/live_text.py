"""What a model is saying and what calls tell of themselves, so far, as a person reads it."""

from collections.abc import Mapping
from typing import Any, Final

from holdfast.client.run_handle import Streaming
from holdfast.client.stream.composed_stream import told
from holdfast.client.stream.heartbeats import Update
from holdfast.runtime.text_safety import as_json, one_line

_CALL_CHARS: Final = 2_000
_UPDATE_CHARS: Final = 300


def said(streaming: Streaming) -> str:
    """What the model says besides the calls that it is writing."""
    return told(streaming.text, streaming.offset) if streaming.composed else streaming.text


def written(streaming: Streaming) -> list[str]:
    """The calls that the model is writing, a line each."""
    return [_line(call) for call in streaming.calls]


def updated(update: Update) -> str:
    """What a call tells of itself, in a line; of a text on its way, the end."""
    match update.details:
        case str() as text:
            return one_line(text, _UPDATE_CHARS)
        case {"text": str() as text, "offset": int()}:
            return one_line(text[-_UPDATE_CHARS:], _UPDATE_CHARS)
    return one_line(as_json(update.details), _UPDATE_CHARS)


def _line(call: Any) -> str:
    if not isinstance(call, Mapping):
        return ""
    return one_line(f"{call.get('tool', '')} {call.get('arguments', '')}", _CALL_CHARS)
