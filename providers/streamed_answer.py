"""An answer while a model is saying it: gathered, kept within bounds, told to whoever watches.

A model may say anything, and any amount of it. What comes out is a `Solution` that fits into a
run's history; what had to be left out is said in it.
"""

import json
import math
from typing import Any

from holdfast.providers.answer_limits import MAX_PROVIDER_DATA_BYTES, fit_solution, size_bytes
from holdfast.providers.base import AnswerSink, ToolNames
from holdfast.schemas.internal.solution import Solution, StopReason, Usage, WrittenCall

MAX_TEXT_BYTES = 512 * 1024
MAX_ARGUMENTS_BYTES = 256 * 1024
MAX_CALLS_BYTES = 1024 * 1024
MAX_NAME_CHARACTERS = 256
MAX_MODEL_CHARACTERS = 200
# Readers of JSON give up at different depths; the shallowest that we know of does at 200.
MAX_ARGUMENTS_DEPTH = 100


class BoundedText:
    """Text that arrives in pieces, kept up to `limit_bytes` of UTF-8."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._pieces: list[str] = []
        self.bytes = 0

    def add(self, piece: str) -> None:
        """Append a piece, or what there is still room for of it."""
        said = piece.encode("utf-8", "surrogatepass")
        room = max(self._limit_bytes - self.bytes, 0)
        if len(said) > room:
            piece = said[:room].decode("utf-8", "ignore")
        self._pieces.append(piece)
        self.bytes += len(said)

    def ends_with(self, end: str) -> bool:
        """Whether the last words are these, spaces aside."""
        last = next((piece for piece in reversed(self._pieces) if piece.strip()), "")
        return last.rstrip().endswith(end)

    @property
    def is_over(self) -> bool:
        """Whether there was more than is kept."""
        return self.bytes > self._limit_bytes

    def __str__(self) -> str:
        return well_formed("".join(self._pieces))


class CallDraft:
    """A call that a model is making. `index` is its place in the answer, from 0."""

    def __init__(self, index: int, name: str, provider_id: str | None) -> None:
        self.index = index
        self.name = name[:MAX_NAME_CHARACTERS]
        self.provider_id = provider_id
        self.arguments = BoundedText(MAX_ARGUMENTS_BYTES)

    @property
    def has_whole_arguments(self) -> bool:
        """Whether the arguments so far are a whole object."""
        # Seldom so, and reading them after each piece takes long.
        return self.arguments.ends_with("}") and isinstance(
            parse_arguments(str(self.arguments)), dict
        )

    def written(self, tool: str) -> WrittenCall:
        """The call, of `tool`, as the model wrote it."""
        call = WrittenCall(
            provider_id=well_formed(self.provider_id) if self.provider_id else None,
            tool=well_formed(tool),
        )
        if self.arguments.is_over:
            return call.model_copy(update={"oversize_bytes": self.arguments.bytes})
        return call.model_copy(update={"arguments": parse_arguments(str(self.arguments))})


class StreamedAnswer:
    """One answer of a model, piece by piece."""

    def __init__(self, sink: AnswerSink, names: ToolNames) -> None:
        self._sink = sink
        self._names = names
        self._text = BoundedText(MAX_TEXT_BYTES)
        self.calls: list[CallDraft] = []
        self._calls_bytes = 0
        self._dropped = 0
        # What goes beyond this is never sent back: a solution keeps no longer data than that.
        self._thoughts = BoundedText(MAX_PROVIDER_DATA_BYTES)
        self.has_reasoning = False
        self.notices: list[str] = []
        self.usage = Usage()
        self.model: str | None = None
        self.provider_data: Any = None

    def add_text(self, piece: str) -> None:
        """More of the text."""
        if not piece:
            return
        self._text.add(piece)
        self._sink.text(well_formed(piece))

    def add_reasoning(self, piece: str) -> None:
        """More of the thoughts that lead to the answer. They are no part of it, and told to nobody;
        a provider may want them back."""
        self._thoughts.add(piece)
        self.has_reasoning = True

    @property
    def reasoning(self) -> str:
        """The thoughts so far."""
        return str(self._thoughts)

    def add_call(self, name: str, provider_id: str | None) -> CallDraft:
        """One more call. One too many is counted, and what is said of it is not kept."""
        if provider_id is not None and len(provider_id) > MAX_NAME_CHARACTERS:
            provider_id = None
        draft = CallDraft(len(self.calls), name, provider_id)
        self._calls_bytes += size_bytes({"tool": draft.name, "providerId": provider_id})
        if self._calls_bytes > MAX_CALLS_BYTES:
            self._dropped += 1
        else:
            self.calls.append(draft)
        self.add_arguments(draft, "")
        return draft

    def add_arguments(self, draft: CallDraft, piece: str) -> None:
        """More of a call's arguments."""
        draft.arguments.add(piece)
        if draft.index < len(self.calls) and self.calls[draft.index] is draft:
            self._sink.call(draft.index, self._names.from_provider(draft.name), well_formed(piece))

    def solution(self, stop: StopReason | None) -> Solution:
        """The answer, within its bounds. `stop` is what the model said of why it stopped."""
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
    """The object that a text of arguments is, or the text where it is none that JSON knows."""
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
        plain = json.dumps(value, ensure_ascii=False)
        if plain != well_formed(plain):
            value = json.loads(well_formed(plain))
    except (ValueError, RecursionError):
        return text
    fits = isinstance(value, dict) and _depth(value) <= MAX_ARGUMENTS_DEPTH
    return value if fits else text


def well_formed(text: str) -> str:
    """The text with the halves of characters joined, and without those that have no other half."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse(text)


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while level:
        depth += 1
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return depth
