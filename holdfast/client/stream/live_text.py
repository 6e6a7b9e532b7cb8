"""The partial answer of a model and the progress of calls, formatted for people."""

from collections.abc import Mapping
from typing import Final

from pydantic_core import from_json

from holdfast.client.stream.heartbeats import AnswerProgress, CallProgress
from holdfast.runtime.text_safety import arguments_line, as_json, one_line

_NAME_CHARS = 80
_CALL_CHARS: Final = 2_000
_UPDATE_CHARS: Final = 300


def answer_text(streaming: AnswerProgress) -> str:
    """Return the model's answer, or its end, without the calls that it is writing."""
    if streaming.composed:
        return composed_text(streaming.text, streaming.offset)
    return f"… {streaming.text}" if streaming.offset else streaming.text


def call_lines(streaming: AnswerProgress) -> list[str]:
    """Return the calls that the model is writing, one per line."""
    return [
        one_line(f"{call.get('tool', '')} {call.get('arguments', '')}", _CALL_CHARS)
        if isinstance(call, Mapping)
        else ""
        for call in streaming.calls
    ]


def progress_line(update: CallProgress) -> str:
    """Return the progress of a call in one line; of a partial text, the end."""
    match update.details:
        case str() as text:
            return one_line(text, _UPDATE_CHARS)
        case {"text": str() as text, "offset": int()}:
            return one_line(text[-_UPDATE_CHARS:], _UPDATE_CHARS)
    return one_line(as_json(update.details), _UPDATE_CHARS)


def composed_text(text: str, offset: int) -> str:
    """Return a composed answer for people; `text` is its end, after `offset` characters."""
    try:
        answer = None if offset else from_json(text, allow_partial="trailing-strings")
    except ValueError:
        answer = None
    if not isinstance(answer, dict) or answer.keys().isdisjoint(("calls", "output")):
        return f"(an answer of {offset + len(text):,} characters so far)" if text else ""
    calls, lines, name = answer.get("calls"), [], ""
    for call in calls if isinstance(calls, list) else ():
        arguments = call if isinstance(call, dict) else {}
        arguments = {name: value for name, value in arguments.items() if value is not None}
        name = one_line(str(arguments.pop("_tool", "")), _NAME_CHARS)
        lines.append(f"{name} {arguments_line(arguments)}".rstrip())
    output = answer.get("output")
    if "output" not in answer:
        # The last call may be incomplete.
        lines[-1:] = [f"{name} …"] if name else []
    elif output is not None:
        lines.append(output if isinstance(output, str) else as_json(output))
    return "\n".join(lines)
