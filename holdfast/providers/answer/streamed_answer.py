"""An answer while it is streamed: collected, bounded, passed to a sink.

A model may send any amount of anything. The result is a `Solution` that fits into a run's history,
where a payload of 2 MB is the end of the run; its notices describe what was left out. Sizes are
those of JSON as Temporal's default converter writes it, in ASCII.
"""

import json
import re
from typing import Any

from holdfast.providers.answer.bounded_text import BoundedText, well_formed
from holdfast.providers.answer.call_draft import CallDraft
from holdfast.providers.answer.call_matching import distinct_calls
from holdfast.providers.base import AnswerSink, FailedAnswer, ToolNames
from holdfast.schemas.internal.solution import Solution, StopReason, Usage

MAX_SOLUTION_BYTES = 1024 * 1024
MAX_FITTED_TEXT_BYTES = 512 * 1024
MAX_PROVIDER_DATA_BYTES = 256 * 1024
MAX_TEXT_BYTES = 512 * 1024
# Of the names and ids of all calls, with what each takes beside them.
MAX_CALLS_BYTES = 240 * 1024
_CALL_BYTES = 64
MAX_MODEL_CHARACTERS = 200

# The thoughts of models whose server leaves them in the text. Templates that open them in the
# prompt send only the end, on a line of its own.
_THOUGHTS = re.compile(
    r"\s*<think>.*?(?:</think>\s*|\Z)|.*?^[^\S\n]*</think>[^\S\n]*\n\s*", re.DOTALL | re.MULTILINE
)


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

    def clear(self) -> None:
        """Start again: what came so far is void, also for viewers."""
        self.__init__(self._sink, self._names)  # type: ignore[misc]
        self._sink.withdraw()

    def add_text(self, piece: str) -> None:
        """Add a piece of the text."""
        if not piece:
            return
        self._text.add(piece)
        self._sink.text(well_formed(piece))

    def add_whole_text(self, whole: str) -> None:
        """Add what the pieces of the text left out of the whole; another whole changes nothing."""
        so_far = str(self._text)
        if whole.startswith(so_far):
            self.add_text(whole[len(so_far) :])

    def add_call(self, name: str, provider_id: str | None) -> CallDraft:
        """Add a call; one too many is counted, and its arguments are not stored."""
        draft = CallDraft(len(self.calls), name, provider_id)
        tool = self._names.from_provider(draft.name)
        self._calls_bytes += _CALL_BYTES + size_bytes([tool, draft.provider_id])
        if self._calls_bytes > MAX_CALLS_BYTES:
            self._dropped += 1
        else:
            self.calls.append(draft)
        self._show(draft, "")
        return draft

    def add_arguments(self, draft: CallDraft, piece: str) -> None:
        draft.add_piece(piece)
        self._show(draft, piece)

    def add_whole_arguments(self, draft: CallDraft, whole: Any, *, is_begin: bool = False) -> None:
        """Add a call's whole arguments, a text or an object, which may have come in pieces, too."""
        self._show(draft, draft.add_whole(whole, is_begin=is_begin))

    def is_tool(self, name: str) -> bool:
        """Report whether the model was offered a tool of this name."""
        return self._names.is_known(name)

    @property
    def is_empty(self) -> bool:
        return not (self.calls or self._text.pieces)

    @property
    def kept_calls(self) -> list[CallDraft]:
        """The calls of the answer, each once."""
        return distinct_calls(self.calls)

    def _show(self, draft: CallDraft, piece: str) -> None:
        if draft.index < len(self.calls):
            tool = self._names.from_provider(draft.name)
            self._sink.call(draft.index, tool, well_formed(piece))

    def solution(self, stop: StopReason | None) -> Solution:
        """Return the answer, within its bounds; `stop` is the reason that the model gave.

        Raises:
            FailedAnswer: the arguments of a call contradict each other.
        """
        if self._dropped:
            self.notices.append(f"{self._dropped} calls were left out: there were too many")
        if self._text.is_over:
            self.notices.append(f"the text was cut after {MAX_TEXT_BYTES} bytes")
            stop = "length"
        text = str(self._text)
        # Formats with parts of their own have thoughts as such parts.
        if not isinstance(self.provider_data, list) and (thoughts := _THOUGHTS.match(text)):
            text = text[thoughts.end() :]
        calls = []
        for draft in self.kept_calls:
            tool = self._names.from_provider(draft.name)
            if (written := draft.written(tool, is_cut=stop in ("length", "filtered"))) is None:
                why = f"the arguments of a call of `{tool}` came twice, and differ"
                raise FailedAnswer(why, self.usage)
            calls.append(written)
        if stop in (None, "stop", "calls"):
            stop = "calls" if calls else "stop"
        return fit_solution(
            Solution(
                text=text,
                calls=calls,
                provider_data=self.provider_data,
                stop_reason=stop,
                usage=self.usage,
                model=well_formed(self.model[:MAX_MODEL_CHARACTERS]) if self.model else None,
                notices=self.notices,
            )
        )


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
