"""Reading an answer of any format: what is JSON, what is an error, what is cut, what is foreign.

A format's own reading says what one event means. Whatever does not have its form is passed over,
as long as anything has: formats are what servers make of them.
"""

import json
from abc import ABC, abstractmethod
from typing import Any

from holdfast.providers.base import TruncatedAnswer, UnreadableAnswer
from holdfast.providers.streamed_answer import StreamedAnswer
from holdfast.providers.transport.error_response import error_in_event, shortened
from holdfast.schemas.internal.solution import Solution, StopReason

_MAX_QUOTED_CHARACTERS = 200


class AnswerReader(ABC):
    """One answer, as it arrives.

    `called` is what the format calls an answer; `mark` stands in every event of it, so that one
    which is cut off can be told from a foreign text.
    """

    format_name: str
    marker: str

    def __init__(self, answer: StreamedAnswer) -> None:
        self.answer = answer
        self.stop_reason: StopReason | None = None
        self.is_finished = False
        self.is_done = False
        self._recognised = False
        self._foreign = ""

    @abstractmethod
    def read_event(self, value: dict[str, Any]) -> bool:
        """Take in one event, or a whole answer; whether it is of the format."""

    def read(self, data: str) -> None:
        """The text of one event, or a whole answer; or of a list of events.

        Raises:
            Refused: it is an error.
            Unreadable: it is not JSON.
        """
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            raise UnreadableAnswer(self._quoted(data)) from None
        for each in value if isinstance(value, list) and value else [value]:
            self._take(each, data)

    def _take(self, value: Any, data: str) -> None:
        refusal = error_in_event(value)
        if refusal is not None:
            raise refusal
        if isinstance(value, dict) and self.read_event(value):
            self._recognised = True
        else:
            self._foreign = self._foreign or data

    def finish(self, rest: str, stray: str) -> None:
        """No more comes. `rest` stood after the last whole event, and may be cut off; `stray` is
        what stood where no event can."""
        try:
            if rest:
                self.read(rest)
        except UnreadableAnswer:
            is_begun = rest.startswith(("{", "[")) and self.marker in rest
            self._foreign = self._foreign or ("" if is_begun else rest)
        self._foreign = self._foreign or stray

    def stop_reading(self, why: str) -> None:
        """The answer is too large: what came so far is all of it.

        Raises:
            Unreadable: nothing in it was of the format.
        """
        if not self._recognised:
            raise UnreadableAnswer(f"no {self.format_name} stood in what it sent: {why}")
        self.answer.notices.append(why)
        self.stop_reason = "length"
        self.is_finished = self.is_done = True

    def solution(self) -> Solution:
        """The whole answer.

        Raises:
            CutOff: it is not whole.
            Unreadable: nothing in it was of the format.
        """
        if not self.is_finished and self._foreign and not self._recognised:
            raise UnreadableAnswer(self._quoted(self._foreign))
        if not self.is_finished:
            raise TruncatedAnswer("the answer broke off before its end")
        return self.answer.solution(self.stop_reason)

    def _quoted(self, data: str) -> str:
        begin = shortened(data, _MAX_QUOTED_CHARACTERS)
        return f"the answer is no {self.format_name}; it begins: {begin}"


def read_count(value: Any) -> int | None:
    """A number of tokens, where it is one."""
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if is_count else None


def arguments_text(arguments: Any) -> str:
    """The text of a call's arguments, which some formats and servers give as an object."""
    if isinstance(arguments, str):
        return arguments
    return json.dumps({} if arguments is None else arguments, ensure_ascii=False)


def read_text(value: Any) -> str:
    """A text, where it is one."""
    return value if isinstance(value, str) else ""
