"""Reading an answer of any format, as it arrives.

A format's own reader interprets one event. Events of another form are ignored, as long as any event
was recognised: servers extend the formats in many ways. Which of them are of one call is decided by
`call_matching`; what pieces and wholes of a call make, by `call_draft`. Of the reason of an
answer's end, each format lists the words of a whole answer; those of the other endings are the same
everywhere, since gateways pass them from format to format:

    whole, cut off, filtered   the answer
    failed                     `FailedAnswer`: nothing of it is used, and it is requested again
    unreadable, refused        an empty answer: the run reports that to the model
    unknown                    the answer, if each of its calls is whole; else as failed
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from enum import Enum, auto
from typing import Any, ClassVar

from holdfast.providers.answer.call_draft import CallDraft
from holdfast.providers.answer.call_matching import WholeCall, are_repeated, join_halves
from holdfast.providers.answer.part_order import PartOrder
from holdfast.providers.answer.streamed_answer import StreamedAnswer
from holdfast.providers.base import FailedAnswer, Rejection, TruncatedAnswer, UnreadableAnswer
from holdfast.providers.json_fields import read_counts, read_text
from holdfast.providers.transport.error_response import error_in_event, shortened
from holdfast.schemas.internal.solution import Solution, StopReason, Usage

CountNames = str | tuple[str, ...]
UsageCounts = Mapping[str, tuple[CountNames, ...]]
_MAX_QUOTED_CHARACTERS = 200
_SERVER_ERROR = 500
_UNCERTAIN = "the server sent arguments that belong to no certain call"


class Ending(Enum):
    """How an answer ended."""

    WHOLE = auto()
    CUT_OFF = auto()
    FILTERED = auto()
    # The server failed in the middle: the answer is requested again.
    FAILED = auto()
    # The provider could not read what the model wrote: the model receives that it was empty.
    UNREADABLE = auto()
    # The provider does not accept the request, or what the model did: it receives that once.
    REFUSED = auto()
    UNKNOWN = auto()


NOTICES = {
    Ending.FILTERED: "the provider's filters ended the answer",
    Ending.FAILED: "the server failed within the answer",
    Ending.UNREADABLE: "the provider could not read what the model wrote",
    Ending.REFUSED: "the provider ended the answer without one",
    Ending.UNKNOWN: "the server ended the answer with an unknown reason",
}
STOP_REASONS: dict[Ending | None, StopReason] = {
    Ending.CUT_OFF: "length",
    Ending.FILTERED: "filtered",
}

_WORDS = {
    Ending.CUT_OFF: (
        *("length", "max_tokens", "max_output_tokens", "model_length"),
        *("model_context_window_exceeded", "pause_turn"),
    ),
    # Of Gemini; of Bedrock.
    Ending.UNREADABLE: (
        *("malformed_function_call", "unexpected_tool_call", "malformed_response"),
        *("malformed_tool_use", "malformed_model_output"),
    ),
}
_PARTS_OF_WORDS = {
    # Z.AI's filter is `sensitive`; the last ones are Gemini's.
    Ending.FILTERED: (
        *("filter", "refusal", "guardrail", "sensitive", "safety", "policy", "moderation"),
        *("recitation", "language", "blocklist", "prohibited", "spii", "escalation"),
        *("model_armor", "pup_limited_disabled"),
    ),
    # OpenRouter: `error`; vLLM, MiniMax: `abort`; DeepSeek: `insufficient_system_resource`; Z.AI:
    # `network_error`; and the likely words of others.
    Ending.FAILED: (
        *("error", "abort", "cancel", "timeout", "timed_out", "insufficient", "fail", "interrupt"),
        *("unavailable", "overload", "disconnect", "exception"),
    ),
}


def ending_of(reason: str, whole: Collection[str], refused: Collection[str] = ()) -> Ending:
    """Return the ending for a reason; the format's words are `whole`, and `refused` ones."""
    word = reason.lower()
    for ending, words in {Ending.WHOLE: whole, **_WORDS, Ending.REFUSED: refused}.items():
        if word in words:
            return ending
    for ending, parts in _PARTS_OF_WORDS.items():
        if any(part in word for part in parts):
            return ending
    return Ending.UNKNOWN


class AnswerReader(ABC):
    """One answer, as it arrives.

    `format_name` is what the format calls an answer; `marker` is in every event of it, so that a
    truncated event can be distinguished from a foreign text; `whole_endings` are its reasons of a
    whole answer, `refused_endings` those of none. `counts` has for each field of a usage its names,
    of which the first count that is not zero is read; several names in one place are a sum.
    `is_finished`: the model has given the reason why it stopped. `is_done`: nothing more will come.
    """

    format_name: ClassVar[str]
    marker: ClassVar[str]
    whole_endings: ClassVar[tuple[str, ...]]
    refused_endings: ClassVar[tuple[str, ...]] = ()
    counts: ClassVar[UsageCounts]

    def __init__(self, answer: StreamedAnswer) -> None:
        self.answer = answer
        self.order = PartOrder()
        self.is_finished = False
        self.is_done = False
        self._ending: Ending | None = None
        self._reason = ""
        self._counts: dict[str, int] = {}
        self._recognised = False
        self._foreign = ""

    def restart(self) -> None:
        """Forget the answer so far: the server started it again."""
        self.answer.clear()
        self.order = PartOrder()
        self._counts = {}
        self.is_finished, self._ending, self._reason = False, None, ""

    @abstractmethod
    def read_event(self, value: dict[str, Any]) -> bool:
        """Read one event, or a whole answer; return false if it is not of the format."""

    def read(self, data: str) -> None:
        """Read the text of one event, of a whole answer, or of a list of events.

        Raises:
            ProviderRefused, ContextOverflow: it is an error.
            FailedAnswer: it is an error of the server beside an ending of the answer.
            UnreadableAnswer: it is not JSON.
        """
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            if self.is_finished:  # such as the word that ends streams of another format
                return
            raise UnreadableAnswer(self._quoted(data)) from None
        for event in value if isinstance(value, list) and value else [value]:
            error = error_in_event(event)
            try:
                is_known = isinstance(event, dict) and self.read_event(event)
                if error is not None:
                    # OpenRouter's, whose usage the event may have: what has arrived failed.
                    is_within = error.status >= _SERVER_ERROR and self._has_output
                    if self._ending is Ending.FAILED and is_within:
                        raise FailedAnswer(f"{NOTICES[self._ending]}: {error.message}", self.usage)
                    raise error
            except Rejection as rejection:
                rejection.is_within_answer = self._has_output
                raise
            self._recognised |= is_known
            if not is_known:
                self._foreign = self._foreign or data

    @property
    def _has_output(self) -> bool:
        has_data = self.data_beside([]) is not None
        return has_data or not self.answer.is_empty or any(self._counts.values())

    def read_usage(self, *values: Any) -> None:
        """Read counts: each is the sum so far; one that is zero or absent changes nothing."""
        for value in values:
            for name, count in read_counts(value).items():
                if count or name not in self._counts:
                    self._counts[name] = count

    @property
    def usage(self) -> Usage:
        found: dict[str, Any] = {}
        for field, alternatives in self.counts.items():
            for names in alternatives:
                names = (names,) if isinstance(names, str) else names
                known = [self._counts[name] for name in names if name in self._counts]
                if known and not found.get(field):
                    found[field] = sum(known)
        return Usage(**found)

    def add_text(self, piece: str, **signature: str) -> None:
        """Add a piece of the text, of which the order of the parts is kept."""
        self.answer.add_text(piece)
        self.order.add_text(piece, **signature)

    def add_call(self, name: Any, provider_id: Any) -> CallDraft:
        return self.answer.add_call(read_text(name), read_text(provider_id))

    def add_whole_calls(
        self, calls: list[WholeCall], *, is_closing: bool
    ) -> list[CallDraft | None]:
        """Add the whole calls of one event; return the draft of each, or None if it came before.

        `is_closing`: the event has the reason why the model stopped.
        """
        known = self.answer.kept_calls if is_closing and calls else []
        drafts: list[CallDraft | None] = []
        for call, is_repeated in zip(calls, are_repeated(known, calls), strict=True):
            draft = None if is_repeated else self.add_call(call.name, call.provider_id)
            if draft is not None:
                self.answer.add_whole_arguments(draft, call.arguments)
            drafts.append(draft)
        return drafts

    def data_beside(self, calls: list[CallDraft]) -> Any:
        """Return what the provider requires back with an answer that has these calls."""
        return None

    def read_stop(self, reason: Any, message: str = "") -> None:
        """Read the reason why the model stopped, if it is one, with the server's explanation."""
        if not (isinstance(reason, str) and reason):
            return
        self.is_finished = True
        self._ending = ending_of(reason, self.whole_endings, self.refused_endings)
        self._reason = ""
        if notice := NOTICES.get(self._ending):
            why = f"{notice} (`{reason}`)"
            self._reason = shortened(f"{why}: {message}" if message else why)

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
            raise UnreadableAnswer(f"it holds no {self.format_name}: {why}")
        self.answer.notices.append(why)
        self._ending = Ending.CUT_OFF
        self.is_finished = self.is_done = True

    def solution(self) -> Solution:
        """Return the whole answer.

        Raises:
            TruncatedAnswer: it has no end.
            UnreadableAnswer: nothing in it was of the format.
            FailedAnswer: it ended in a failure, or contradicts itself.
        """
        if not self.is_finished and self._foreign and not self._recognised:
            raise UnreadableAnswer(self._quoted(self._foreign))
        if not self.is_finished:
            raise TruncatedAnswer("the answer is incomplete")
        if not join_halves(self.answer.calls):
            raise FailedAnswer(_UNCERTAIN, self.usage)
        ending = self._ending
        is_whole = all(each.is_whole for each in self.answer.kept_calls)
        if ending is Ending.FAILED or (ending is Ending.UNKNOWN and not is_whole):
            raise FailedAnswer(self._reason, self.usage)
        if self._reason:
            self.answer.notices.append(self._reason)
        self.answer.usage = self.usage
        self.answer.provider_data = self.data_beside(self.answer.kept_calls)
        solution = self.answer.solution(STOP_REASONS.get(ending))
        if ending not in (Ending.UNREADABLE, Ending.REFUSED):
            return solution
        refused = self._reason if ending is Ending.REFUSED else None
        return Solution(
            refused=refused, usage=solution.usage, model=solution.model, notices=solution.notices
        )

    def _quoted(self, data: str) -> str:
        beginning = shortened(data, _MAX_QUOTED_CHARACTERS)
        return f"the answer is no {self.format_name}; it begins: {beginning}"
