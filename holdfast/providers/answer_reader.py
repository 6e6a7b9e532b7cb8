"""Reading an answer of any format, as it arrives.

A format's own reader interprets one event. Events of another form are ignored, as long as any event
was recognised: servers extend the formats in many ways.
"""

import json
from abc import ABC, abstractmethod
from typing import Any

from holdfast.providers.base import TruncatedAnswer, UnreadableAnswer
from holdfast.providers.part_order import PartOrder
from holdfast.providers.streamed_answer import CallDraft, StreamedAnswer
from holdfast.providers.transport.error_response import error_in_event, shortened
from holdfast.schemas.internal.solution import Solution, StopReason

_MAX_QUOTED_CHARACTERS = 200
# The reasons of all formats, in lower case; after any other, the answer is whole.
_LENGTH = ("length", "max_tokens", "model_length", "model_context_window_exceeded", "pause_turn")
_FILTERED = (
    *("content_filter", "refusal", "guardrail_intervened", "content_filtered"),
    # Of Gemini.
    *("safety", "recitation", "language", "blocklist", "prohibited_content", "spii", "escalation"),
    *("image_safety", "image_prohibited_content", "image_recitation", "pup_limited_disabled"),
    "model_armor",
)
_NOTHING: dict[str, Any] = {"text": "", "calls": [], "provider_data": None, "stop_reason": "stop"}


class AnswerReader(ABC):
    """One answer, as it arrives.

    `format_name` is what the format calls an answer; `marker` is in every event of it, so that a
    truncated event can be distinguished from a foreign text. `is_finished`: the model has given the
    reason why it stopped. `is_done`: nothing more will come. `is_broken`: the provider could not
    read what the model wrote, so none of it is used: the run reports an empty answer to the model.
    """

    format_name: str
    marker: str

    def __init__(self, answer: StreamedAnswer) -> None:
        self.answer = answer
        self.order = PartOrder()
        self.stop_reason: StopReason | None = None
        self.is_finished = False
        self.is_done = False
        self.is_broken = False
        self._recognised = False
        self._foreign = ""

    @abstractmethod
    def read_event(self, value: dict[str, Any]) -> bool:
        """Read one event, or a whole answer; return false if it is not of the format."""

    def read(self, data: str) -> None:
        """Read the text of one event, of a whole answer, or of a list of events.

        Raises:
            ProviderRefused, ContextOverflow: it is an error.
            UnreadableAnswer: it is not JSON.
        """
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            raise UnreadableAnswer(self._quoted(data)) from None
        for event in value if isinstance(value, list) and value else [value]:
            error = error_in_event(event)
            if error is not None:
                raise error
            if isinstance(event, dict) and self.read_event(event):
                self._recognised = True
            else:
                self._foreign = self._foreign or data

    def add_text(self, piece: str, **signature: str) -> None:
        """Add a piece of the text, of which the order of the parts is kept."""
        self.answer.add_text(piece)
        self.order.add_text(piece, **signature)

    def add_call(self, name: Any, provider_id: Any) -> CallDraft:
        """Add a call by its name, and its id if it has one."""
        return self.answer.add_call(read_text(name), read_text(provider_id))

    def add_arguments(self, call: CallDraft, arguments: Any) -> None:
        """Add a call's arguments, which some formats and servers send as an object."""
        self.answer.add_arguments(call, arguments_text(arguments))

    def read_stop(self, reason: Any) -> None:
        """Read the reason why the model stopped, if it is one."""
        if isinstance(reason, str) and reason:
            self.is_finished = True
            is_cut, is_filtered = reason.lower() in _LENGTH, reason.lower() in _FILTERED
            self.stop_reason = "length" if is_cut else "filtered" if is_filtered else None

    def finish(self, rest: str, stray: str) -> None:
        """Read `rest`, the text after the last whole event, which may be truncated.

        `stray` is the text that was no part of any event.
        """
        try:
            if rest:
                self.read(rest)
        except UnreadableAnswer:
            is_truncated = rest.startswith(("{", "[")) and self.marker in rest
            self._foreign = self._foreign or ("" if is_truncated else rest)
        self._foreign = self._foreign or stray

    def stop_reading(self, why: str) -> None:
        """End an answer that is too large: what came so far is all of it.

        Raises:
            UnreadableAnswer: nothing in it was of the format.
        """
        if not self._recognised:
            raise UnreadableAnswer(f"no {self.format_name} was in its answer: {why}")
        self.answer.notices.append(why)
        self.stop_reason = "length"
        self.is_finished = self.is_done = True

    def solution(self) -> Solution:
        """Return the whole answer.

        Raises:
            TruncatedAnswer: it has no end.
            UnreadableAnswer: nothing in it was of the format.
        """
        if not self.is_finished and self._foreign and not self._recognised:
            raise UnreadableAnswer(self._quoted(self._foreign))
        if not self.is_finished:
            raise TruncatedAnswer("the answer is incomplete")
        solution = self.answer.solution(self.stop_reason)
        return solution.model_copy(update=_NOTHING) if self.is_broken else solution

    def _quoted(self, data: str) -> str:
        beginning = shortened(data, _MAX_QUOTED_CHARACTERS)
        return f"the answer is no {self.format_name}; it begins: {beginning}"


def read_count(value: Any) -> int | None:
    """Return the count, such as a number of tokens, if the value is one."""
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if is_count else None


def read_counts(value: Any) -> dict[str, int]:
    """Return the counts in an object, by their names."""
    counts = {name: read_count(each) for name, each in read_object(value).items()}
    return {name: count for name, count in counts.items() if count is not None}


def arguments_text(arguments: Any) -> str:
    """Return the text of a call's arguments."""
    if isinstance(arguments, str):
        return arguments
    return json.dumps({} if arguments is None else arguments, ensure_ascii=False)


def read_text(value: Any) -> str:
    """Return the text, if the value is one."""
    return value if isinstance(value, str) else ""


def read_object(value: Any) -> dict[str, Any]:
    """Return the object, if the value is one."""
    return value if isinstance(value, dict) else {}


def read_objects(value: Any) -> list[dict[str, Any]]:
    """Return the objects in a list, if the value is one."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
