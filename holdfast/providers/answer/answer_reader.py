"""Reading an answer of any format, as it arrives.

A format's own reader interprets one event. Events of another form are ignored, as long as any event
was recognised: servers extend the formats in many ways. What pieces and wholes of a call make is
decided by `call_draft`; what the reason of an answer's end means, by `answer_endings`:

    whole, cut off, filtered   the answer
    failed                     `FailedAnswer`: nothing of it is used, and it is requested again
    unreadable, refused        an empty answer: the run reports that to the model
    unknown                    the answer, if each of its calls is whole; else as failed
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar

from holdfast.providers.answer.answer_endings import Ending, ending_of
from holdfast.providers.answer.call_draft import CallDraft
from holdfast.providers.answer.part_order import PartOrder
from holdfast.providers.answer.streamed_answer import StreamedAnswer
from holdfast.providers.base import FailedAnswer, TruncatedAnswer, UnreadableAnswer
from holdfast.providers.json_fields import read_counts, read_text
from holdfast.providers.transport.error_response import error_in_event, shortened
from holdfast.schemas.internal.solution import Solution, StopReason, Usage

_Part = TypeVar("_Part")
_Whole = TypeVar("_Whole")
_MAX_QUOTED_CHARACTERS = 200
_STOP_REASONS: dict[Ending | None, StopReason] = {
    Ending.CUT_OFF: "length",
    Ending.FILTERED: "filtered",
}
_UNCERTAIN = "the server sent arguments that belong to no certain call"
_NOTICES = {
    Ending.FILTERED: "the provider's filters ended the answer",
    Ending.FAILED: "the server failed within the answer",
    Ending.UNREADABLE: "the provider could not read what the model wrote",
    Ending.REFUSED: "the provider ended the answer without one",
    Ending.UNKNOWN: "the server ended the answer with an unknown reason",
}


class WholeCall(NamedTuple):
    """A call that one event holds; its arguments are a text or an object, or None."""

    name: str
    provider_id: str
    arguments: Any


class AnswerReader(ABC):
    """One answer, as it arrives.

    `format_name` is what the format calls an answer; `marker` is in every event of it, so that a
    truncated event can be distinguished from a foreign text; `whole_endings` are its reasons of a
    whole answer, `refused_endings` those of none. `is_finished`: the model has given the reason why
    it stopped. `is_done`: nothing more will come.
    """

    format_name: ClassVar[str]
    marker: ClassVar[str]
    whole_endings: ClassVar[tuple[str, ...]]
    refused_endings: ClassVar[tuple[str, ...]] = ()

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

    @abstractmethod
    def usage(self, counts: dict[str, int]) -> Usage:
        """Return the usage that the format's counts are, by their names."""

    def read(self, data: str) -> None:
        """Read the text of one event, of a whole answer, or of a list of events.

        Raises:
            ProviderRefused, ContextOverflow: it is an error.
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
            if error is not None:
                raise error
            if isinstance(event, dict) and self.read_event(event):
                self._recognised = True
            else:
                self._foreign = self._foreign or data

    def read_usage(self, *values: Any) -> None:
        """Read counts: each is the sum so far; one that is zero or absent changes nothing."""
        for value in values:
            for name, count in read_counts(value).items():
                if count or name not in self._counts:
                    self._counts[name] = count
        self.answer.usage = self.usage(self._counts)

    def add_text(self, piece: str, **signature: str) -> None:
        """Add a piece of the text, of which the order of the parts is kept."""
        self.answer.add_text(piece)
        self.order.add_text(piece, **signature)

    def add_call(self, name: Any, provider_id: Any) -> CallDraft:
        """Add a call by its name, and its id if it has one."""
        return self.answer.add_call(read_text(name), read_text(provider_id))

    def add_whole_calls(
        self, calls: list[WholeCall], *, is_closing: bool
    ) -> list[CallDraft | None]:
        """Add the whole calls of one event; return the draft of each, or None if it came before."""
        drafts: list[CallDraft | None] = []
        for call, is_repeated in zip(calls, self.are_repeated(calls, is_closing), strict=True):
            draft = None if is_repeated else self.add_call(call.name, call.provider_id)
            if draft is not None:
                self.answer.add_whole_arguments(draft, call.arguments)
            drafts.append(draft)
        return drafts

    def are_repeated(self, calls: list[WholeCall], is_closing: bool) -> list[bool]:
        """Report for each whole call of one event whether it came before.

        Some proxies send the whole list of calls again in the `is_closing` event, which has the
        reason of the end: then all calls so far are in it.
        """
        drafts = self.answer.kept_calls if is_closing else []
        found = repeated(
            drafts,
            calls,
            lambda draft, call: draft.name == call.name and draft.says(call.name, call.arguments),
        )
        is_whole_list = all(each in found for each in drafts)
        return [is_whole_list and each is not None for each in found]

    def drafts_of(self, calls: list[WholeCall]) -> list[CallDraft]:
        """Return the draft of each call of a whole list, of which pieces may have come before."""
        drafts = [each for each in self.answer.kept_calls if each.name]
        found = repeated(
            drafts,
            calls,
            lambda draft, call: bool(call.provider_id) and draft.provider_id == call.provider_id,
            # A call that was opened without arguments may have any of these.
            lambda draft, call: draft.has_arguments and draft.says(call.name, call.arguments),
            lambda draft, call: draft.can_say(call.name, call.arguments),
        )
        pairs = [*zip(found, calls, strict=True)]
        drafts = [draft or self.add_call(call.name, call.provider_id) for draft, call in pairs]
        for draft, call in zip(drafts, calls, strict=True):
            draft.identify(call.provider_id, call.name)
        return drafts

    def join_halves(self) -> None:
        """Join each call without a name with its name, if that came at another place.

        Raises:
            FailedAnswer: it is not certain which arguments belong to which name.
        """
        calls = self.answer.calls
        for half in [each for each in calls if not (each.name or each.is_empty)]:
            named = [each for each in calls if each.name and each.may_have_id(half.provider_id)]
            open_ = [each for each in named if not each.has_arguments]
            match [each for each in open_ if each.index < half.index] or open_:
                case [name]:
                    name.take_arguments(half)
                    calls.remove(half)
                case [] if any(each.says(each.name, half.text) for each in named):
                    calls.remove(half)
                case [_, *_]:
                    raise FailedAnswer(_UNCERTAIN, self.answer.usage)
                case [] if named and not half.provider_id:
                    raise FailedAnswer(_UNCERTAIN, self.answer.usage)

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
        if notice := _NOTICES.get(self._ending):
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
        self.join_halves()
        ending = self._ending
        is_whole = all(each.is_whole for each in self.answer.kept_calls)
        if ending is Ending.FAILED or (ending is Ending.UNKNOWN and not is_whole):
            raise FailedAnswer(self._reason, self.answer.usage)
        if self._reason:
            self.answer.notices.append(self._reason)
        self.answer.provider_data = self.data_beside(self.answer.kept_calls)
        solution = self.answer.solution(_STOP_REASONS.get(ending))
        if ending not in (Ending.UNREADABLE, Ending.REFUSED):
            return solution
        refused = self._reason if ending is Ending.REFUSED else None
        return Solution(
            refused=refused, usage=solution.usage, model=solution.model, notices=solution.notices
        )

    def _quoted(self, data: str) -> str:
        beginning = shortened(data, _MAX_QUOTED_CHARACTERS)
        return f"the answer is no {self.format_name}; it begins: {beginning}"


def repeated(
    parts: Sequence[_Part], wholes: Sequence[_Whole], *tests: Callable[[_Part, _Whole], bool]
) -> list[_Part | None]:
    """Return for each item of a whole list the part of the answer so far that it repeats, if any.

    Both are the same by the first of the tests that is true of them.
    """
    found: list[_Part | None] = [None] * len(wholes)
    for is_same in tests:
        for place, whole in enumerate(wholes):
            left = (each for each in parts if each not in found)
            found[place] = found[place] or next(
                (each for each in left if is_same(each, whole)), None
            )
    return found
