"""An answer while it is streamed: collected, bounded, passed to a sink.

A model may send any amount of anything. The result is a `Solution` that fits into a run's history,
where a payload of 2 MB is the end of the run; its notices describe what was left out. Sizes are
those of JSON as Temporal's default converter writes it, in ASCII.
"""

import json
from typing import Any

from holdfast.providers.base import AnswerSink, ToolNames
from holdfast.schemas.base import is_deeper, parsed_or_none
from holdfast.schemas.internal.solution import Solution, StopReason, Usage, WrittenCall
from holdfast.validation.lenient_json import unique_keys

MAX_SOLUTION_BYTES = 1024 * 1024
MAX_FITTED_TEXT_BYTES = 512 * 1024
MAX_PROVIDER_DATA_BYTES = 256 * 1024
MAX_TEXT_BYTES = 512 * 1024
MAX_ARGUMENTS_BYTES = 256 * 1024
# Of the names and ids of all calls, with what each takes beside them.
MAX_CALLS_BYTES = 240 * 1024
_CALL_BYTES = 64
MAX_NAME_CHARACTERS = 256
MAX_MODEL_CHARACTERS = 200
# JSON parsers have different limits of depth; the lowest that we know is 200.
MAX_ARGUMENTS_DEPTH = 100


class BoundedText:
    """Text that arrives in pieces, of which the first `limit_bytes` of UTF-8 are stored."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self.pieces: list[str] = []
        self.bytes = 0

    def add(self, piece: str) -> None:
        """Append a piece, or as much of it as there is room for."""
        encoded = piece.encode("utf-8", "surrogatepass")
        room = max(self._limit_bytes - self.bytes, 0)
        if len(encoded) > room:
            piece = encoded[:room].decode("utf-8", "ignore")
        self.pieces.append(piece)
        self.bytes += len(encoded)

    @property
    def is_over(self) -> bool:
        """Report whether there was more than is stored."""
        return self.bytes > self._limit_bytes

    def as_json(self) -> str:
        """Return the text of JSON, in which half of a surrogate pair is escaped."""
        joined = "".join(self.pieces).encode("utf-16-le", "surrogatepass")
        text = joined.decode("utf-16-le", "surrogatepass")
        return text.encode(errors="backslashreplace").decode()

    def __str__(self) -> str:
        return well_formed("".join(self.pieces))


class CallDraft:
    """A call while it is streamed. `index` is its position in the answer, from 0."""

    def __init__(self, index: int, name: str, provider_id: str | None) -> None:
        self.index = index
        self.name = name[:MAX_NAME_CHARACTERS]
        self.provider_id = provider_id
        self.arguments = BoundedText(MAX_ARGUMENTS_BYTES)

    @property
    def has_whole_arguments(self) -> bool:
        """Report whether the arguments so far are a whole object."""
        pieces = reversed(self.arguments.pieces)
        last = next((piece for piece in pieces if piece.strip()), "")
        if not last.rstrip().endswith("}"):
            return False  # they rarely are, and parsing them after each piece takes long
        return isinstance(parsed_or_none(str(self.arguments)), dict)

    def written(self, tool: str) -> WrittenCall:
        """Return the call, of `tool`, as the model wrote it."""
        call = WrittenCall(
            provider_id=well_formed(self.provider_id) if self.provider_id else None,
            tool=well_formed(tool),
        )
        if self.arguments.is_over:
            return call.model_copy(update={"oversize_bytes": self.arguments.bytes})
        return call.model_copy(update={"arguments": parse_arguments(self.arguments.as_json())})


class StreamedAnswer:
    """One answer of a model, piece by piece."""

    def __init__(self, sink: AnswerSink, names: ToolNames) -> None:
        self._sink = sink
        self._names = names
        self._text = BoundedText(MAX_TEXT_BYTES)
        self.calls: list[CallDraft] = []
        self._calls_bytes = 0
        self._dropped = 0
        # No part of the answer, and not streamed; a provider may require it back. A solution stores
        # no longer data than that.
        self.reasoning = BoundedText(MAX_PROVIDER_DATA_BYTES)
        self.notices: list[str] = []
        self.usage = Usage()
        self.model: str | None = None
        self.provider_data: Any = None

    def add_text(self, piece: str) -> None:
        """Add a piece of the text."""
        if not piece:
            return
        self._text.add(piece)
        self._sink.text(well_formed(piece))

    def add_call(self, name: str, provider_id: str | None) -> CallDraft:
        """Add a call; one too many is counted, and its arguments are not stored."""
        if not provider_id or len(provider_id) > MAX_NAME_CHARACTERS:
            provider_id = None
        draft = CallDraft(len(self.calls), name, provider_id)
        tool = self._names.from_provider(draft.name)
        self._calls_bytes += _CALL_BYTES + size_bytes([tool, provider_id])
        if self._calls_bytes > MAX_CALLS_BYTES:
            self._dropped += 1
        else:
            self.calls.append(draft)
        self.add_arguments(draft, "")
        return draft

    def add_arguments(self, draft: CallDraft, piece: str) -> None:
        """Add a piece of a call's arguments."""
        draft.arguments.add(piece)
        if draft.index < len(self.calls) and self.calls[draft.index] is draft:
            tool = self._names.from_provider(draft.name)
            self._sink.call(draft.index, tool, well_formed(piece))

    def solution(self, stop: StopReason | None) -> Solution:
        """Return the answer, within its bounds; `stop` is the reason that the model gave."""
        if self._dropped:
            self.notices.append(f"{self._dropped} calls were left out: there were too many")
        if self._text.is_over:
            self.notices.append(f"the text was cut after {MAX_TEXT_BYTES} bytes")
            stop = "length"
        calls = [draft.written(self._names.from_provider(draft.name)) for draft in self.calls]
        if stop in (None, "stop", "calls"):
            stop = "calls" if calls else "stop"
        return fit_solution(
            Solution(
                text=str(self._text),
                calls=calls,
                provider_data=self.provider_data,
                stop_reason=stop,
                usage=self.usage,
                model=well_formed(self.model[:MAX_MODEL_CHARACTERS]) if self.model else None,
                notices=self.notices,
            )
        )


def parse_arguments(text: str) -> dict[str, Any] | str:
    """Return the object that a text of arguments is.

    A text that is no JSON object, or that parsing would change, is returned: the run reads it.
    """
    try:
        value = json.loads(text, parse_float=_as_written, object_pairs_hook=unique_keys)
        # A number such as NaN or 1e999 is an error, and so is half of a surrogate pair.
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        return text
    fits = isinstance(value, dict) and not is_deeper(value, MAX_ARGUMENTS_DEPTH)
    return value if fits else text


def _as_written(digits: str) -> float:
    if repr(number := float(digits)) != digits:
        raise ValueError(f"{digits} would become {number}")
    return number


def well_formed(text: str) -> str:
    """Return the text with surrogate pairs joined, and lone surrogates replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def size_bytes(value: Any) -> int:
    """Return the bytes that the value takes in history."""
    return len(json.dumps(value, separators=(",", ":")))


def fit_solution(solution: Solution) -> Solution:
    """Return the solution within its bound, with a notice of each part left out.

    First the provider's own data is left out if it is over its own bound, then the text is cut,
    then the largest arguments are left out. The rest has bounds of its own, which fit.
    """
    data_bytes = size_bytes(solution.provider_data)
    if data_bytes > MAX_PROVIDER_DATA_BYTES:
        # As a whole: a part of it is of no use to the provider.
        notice = "the provider's own data, such as the model's thoughts, was left out:"
        notices = [*solution.notices, f"{notice} {data_bytes} bytes"]
        solution = solution.model_copy(update={"provider_data": None, "notices": notices})
    if size_bytes(solution.to_json()) <= MAX_SOLUTION_BYTES:
        return solution
    text = solution.text
    while (size := size_bytes(text)) > MAX_FITTED_TEXT_BYTES:
        text = text[: min(len(text) * MAX_FITTED_TEXT_BYTES // size, len(text) * 9 // 10)]
    if text != solution.text:
        notice = f"the text was cut from {len(solution.text)} to {len(text)} characters"
        changes = {"text": text, "stop_reason": "length", "notices": [*solution.notices, notice]}
        solution = solution.model_copy(update=changes)
    calls = list(solution.calls)
    excess_bytes = size_bytes(solution.to_json()) - MAX_SOLUTION_BYTES
    sizes = [(size_bytes(call.arguments), index) for index, call in enumerate(calls)]
    for _, index in sorted(sizes, reverse=True):
        if excess_bytes <= 0:
            break
        call = calls[index]
        arguments = call.arguments
        written = arguments if isinstance(arguments, str) else json.dumps(arguments)
        blank = {"arguments": "", "oversize_bytes": len(written.encode())}
        calls[index] = call.model_copy(update=blank)
        excess_bytes -= size_bytes(call.to_json()) - size_bytes(calls[index].to_json())
    return solution.model_copy(update={"calls": calls})
