"""What a model is saying, as far as it has got, as a person reads it."""

from collections.abc import Mapping
from typing import Any, Final

from remote.composing import told
from remote.run import Streaming
from remote.text import one_line

_CALL_CHARS: Final = 2_000


def said(streaming: Streaming) -> str:
    """What the model says besides the calls that it is writing."""
    return told(streaming.text, streaming.offset) if streaming.composed else streaming.text


def written(streaming: Streaming) -> list[str]:
    """The calls that the model is writing, a line each."""
    return [_line(call) for call in streaming.calls]


def _line(call: Any) -> str:
    if not isinstance(call, Mapping):
        return ""
    return one_line(f"{call.get('tool', '')} {call.get('arguments', '')}", _CALL_CHARS)
