"""A run as it happens, for one reader: a page, a terminal, or a program.

    async for each in RunFeed(run, StreamCursor.read(last_id)).frames():
        ...  # a `Frame`, or a text with the reason of a pause, which ends by itself

Frames begin after any cursor and end with exactly one `done` or `error`. The cursor of the last
frame covers everything that was sent: a reader that reconnects continues from there, with this
process or another. A `tool_call_delta` or a `tool_update` replaces the one before for the same
answer or call.

The run is queried only when a look at it (`run_watch`) shows progress. While no worker answers, the
feed stays open.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Final

from holdfast.client.errors import UNREACHABLE, HoldfastError
from holdfast.client.remote_run import RemoteRun
from holdfast.client.stream.heartbeats import CallProgress
from holdfast.client.stream.run_watch import RunDescription
from holdfast.client.stream.text_reader import StreamCursor, TextDelta, TextReader
from holdfast.schemas import names
from holdfast.schemas.log_entry import (
    EVENTS,
    LAST_ENTRIES,
    MessageEntry,
    TurnStartEntry,
    read_record,
)
from holdfast.schemas.run import RunReport

MAX_TOKEN_CHARS: Final = 16_000
BETWEEN_EVENTS: Final = ("token", "tool_call_delta", "tool_update")
"""The types of the frames that are no events."""
# The events that may come between the start of a turn and its answer.
_WITHIN_ANSWERS: Final = frozenset(("remark", "notice"))


@dataclass(frozen=True)
class Frame:
    """A frame of a stream: an event, or a part of an answer; `position` is the place after it."""

    position: StreamCursor
    data: dict[str, Any]

    @property
    def type(self) -> str:
        return str(self.data["type"])


class RunFeed:
    """What happens in a run, as far as a reader has not received it; `answer` has its cursor."""

    def __init__(
        self, run: RemoteRun, cursor: StreamCursor | None = None, most_lost: float = inf
    ) -> None:
        self.answer = TextReader(cursor)
        self._run, self._most_lost = run, most_lost
        self._read_at: object = None
        self._notice = ""
        self._updates: Sequence[CallProgress] = ()
        # The turn whose answer is next.
        self._turn: int | None = None
        # Whether the event that the cursor begins with was read.
        self._is_placed = not self.answer.cursor.after
        self._is_over = self.answer.cursor.ended
        # The entry up to which the log was searched for answers.
        self._searched = 0

    async def reports(
        self, status: Callable[[], Awaitable[RunReport]]
    ) -> AsyncGenerator[tuple[RunDescription, RunReport | None] | str, None]:
        """Yield each look, with the status of the run after each of its steps; or why it pauses."""
        async with aclosing(self._run.looks(self._most_lost)) as looks:
            async for look in looks:
                try:
                    if isinstance(look, HoldfastError):
                        raise look
                    report = await status() if self.has_moved(look) else None
                    self.has_read(look)
                except HoldfastError as error:
                    if notice := self.notice(error):
                        yield notice
                else:
                    yield look, report

    async def moves(self) -> AsyncGenerator[RunDescription, None]:
        """Yield a look after each step of the run, and again until it was read."""
        async with aclosing(self._run.looks(self._most_lost)) as looks:
            async for look in looks:
                if isinstance(look, RunDescription) and self.has_moved(look):
                    yield look

    def has_moved(self, look: RunDescription) -> bool:
        """Report whether the log of the run may have more than was read."""
        return look.position != self._read_at

    def has_read(self, look: RunDescription) -> None:
        self._read_at, self._notice = look.position, ""

    def notice(self, error: HoldfastError) -> str:
        """Return the reason of a pause, if it is new; raise what does not end by itself."""
        if error.exit_code != UNREACHABLE:
            raise error
        before, self._notice = self._notice, str(error)
        return "" if before == self._notice else self._notice

    def new_updates(self, look: RunDescription) -> list[CallProgress]:
        """Return the progress of calls that the reader has not received."""
        before, self._updates = self._updates, look.updates
        return [one for one in look.updates if one not in before]

    async def frames(self) -> AsyncGenerator[Frame | str, None]:
        """Yield everything after the cursor, to the end of the run.

        Raises:
            HoldfastError: the run does not exist, its data cannot be read here, or Temporal did not
                answer `most_lost` times in a row.
        """
        async with aclosing(self._run.looks(self._most_lost)) as looks:
            while not self._is_over:
                look, has_events = await anext(looks), False
                try:
                    if isinstance(look, HoldfastError):
                        raise look
                    async for frame in self._news(look):
                        has_events = True
                        yield frame
                    # If there are new events, the progress may already be part of them.
                    for frame in () if has_events else self._progress(look):
                        yield frame
                    self.has_read(look)
                except HoldfastError as error:
                    if notice := self.notice(error):
                        yield notice

    async def _news(self, look: RunDescription) -> AsyncIterator[Frame]:
        """Yield the events since the last look; the end, where the run could not write it."""
        if self.has_moved(look):
            start = await self._start_of_news(self.answer.cursor.after)
            async for event in self._run.entries(names.EVENTS, start):
                async for frame in self._frames_of(event):
                    yield frame
            if self._is_over:
                return
            self._is_placed = True
        if look.closed:
            ending = await self._run.ending(unread="not read here")
            self._is_over = True
            yield Frame(replace(self.answer.cursor, ended=True), ending.event())

    def _progress(self, look: RunDescription) -> Iterator[Frame]:
        """Yield the progress of the answer and the calls that are not in the log yet."""
        answering = look.streaming
        if self._turn is not None and answering is not None and answering.is_of_turn(self._turn):
            yield from self._text(self.answer.read(answering))
        for one in self.new_updates(look):
            data = {"turn": one.turn, "callId": one.call_id, "attempt": one.attempt}
            details = {"type": "tool_update", **data, "details": one.details}
            yield Frame(self.answer.cursor, details)

    def _text(self, part: TextDelta | None) -> Iterator[Frame]:
        if part is None:
            return
        at = part.at
        for start in range(0, max(len(part.text), part.is_void), MAX_TOKEN_CHARS):
            piece = part.text[start : start + MAX_TOKEN_CHARS]
            data = {"turn": self._turn, "attempt": at.attempt, "offset": at.sent_chars}
            at = at.advanced(piece)
            yield Frame(at, {"type": "token", **data, "text": piece})
        if part.calls:
            delta = {"turn": self._turn, "attempt": at.attempt, "calls": part.calls}
            yield Frame(at, {"type": "tool_call_delta", **delta})

    async def _start_of_news(self, after: int) -> int:
        """Return the number before the first event to read: first, of one outside of answers."""
        if self._is_placed:
            return after
        while after > 1:
            [event] = await self._run.page(names.EVENTS, after - 1, 1)
            if event["type"] not in _WITHIN_ANSWERS:
                break
            after -= 1
        return after - 1

    async def _frames_of(self, event: dict[str, Any]) -> AsyncIterator[Frame]:
        """Yield an event if it is new, after the rest of the answer that precedes it."""
        number, cursor = event["n"], self.answer.cursor
        is_new = number > cursor.after
        if event["type"] in _WITHIN_ANSWERS:
            cursor = self.answer.cursor = replace(cursor, after=max(number, cursor.after))
        else:
            self._is_placed = True
            self._is_over = event["type"] in LAST_ENTRIES
            if is_new:
                for frame in self._text(await self._rest_of_answer()):
                    yield frame
                cursor = StreamCursor(number, ended=self._is_over)
            # An answer follows the start of a turn, but for those within it.
            self.answer = TextReader(cursor)
            self._turn = event["turn"] if event["type"] == "turn_start" else None
        if is_new:
            yield Frame(cursor, event)

    async def _rest_of_answer(self) -> TextDelta | None:
        """Return the rest of the answer that precedes an event.

        The answer is the model's last text in the turn before the next event.
        """
        if self._turn is None:
            return None
        text, read, is_in_turn = None, self._searched, False
        async for record in self._run.entries(names.CONTEXT, self._searched):
            if is_in_turn and record["type"] in EVENTS - _WITHIN_ANSWERS:
                self._searched = read
                break
            read = record["n"]
            match read_record(record).entry:
                case TurnStartEntry(turn=turn) if turn == self._turn:
                    is_in_turn = True
                case MessageEntry(message=message) if is_in_turn and message.role == "assistant":
                    # A text that is too large to be read in full is not sent.
                    is_whole = isinstance(message.content, str) and "cut" not in record
                    text = str(message.content) if is_whole else None
        return None if text is None else self.answer.finish(text)
