"""A run as a stream of frames: its events, and the progress between them.

    async for each in frames(Run(client, run_id), StreamCursor.read(last_id)):
        ...  # a `Frame`, or a text with the reason of a pause, which ends by itself

A stream begins after any position and ends with exactly one `done` or `error`. The position of the
last frame covers everything that was sent: a reader that reconnects continues from there, with this
process or another.

The stream queries the run only when a look at it (`run_watch`) shows progress. While no worker
answers, the stream stays open.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing
from dataclasses import replace
from math import inf
from typing import Any, Final

from holdfast.client.errors import UNREACHABLE, HoldfastError
from holdfast.client.remote_run import RemoteRun
from holdfast.client.stream.deltas import AnswerStream, CallUpdates, Frame, StreamCursor
from holdfast.client.stream.run_watch import RunDescription
from holdfast.schemas import names
from holdfast.schemas.log_entry import EVENTS, MessageEntry, TurnStartEntry, read_record
from holdfast.schemas.run import RunReport

# The events that may come between the start of a turn and its answer.
_WITHIN_ANSWERS: Final = frozenset(("remark", "notice"))


async def frames(
    run: RemoteRun,
    position: StreamCursor,
    most_lost: float = inf,
    report: Callable[[], Awaitable[RunReport]] | None = None,
) -> AsyncGenerator[Frame | str, None]:
    """Yield everything after a position, to the end of the run.

    With `report`, a frame `status` follows the events of each step of the run that is not its end.

    Raises:
        HoldfastError: the run does not exist, its data cannot be read here, or Temporal did not
            answer `most_lost` times in a row.
    """
    reader, last_notice, reported = _Reader(run, position), "", None
    async with aclosing(run.looks(most_lost)) as looks:
        while not reader.is_over:
            look, moved = await anext(looks), False
            try:
                if isinstance(look, HoldfastError):
                    raise look
                async for frame in reader.news(look):
                    moved = True
                    yield frame
                # If there are new events, the progress may already be part of them.
                for frame in () if moved else reader.progress(look):
                    yield frame
                if report is not None and look.position != reported and not reader.is_over:
                    yield Frame(position, {"type": "status", "report": await report()})
                    reported = look.position
                last_notice = ""
            except HoldfastError as error:
                if error.exit_code != UNREACHABLE:
                    raise
                if (notice := str(error)) != last_notice:
                    last_notice = notice
                    yield notice


class _Reader:
    def __init__(self, run: RemoteRun, position: StreamCursor) -> None:
        self.is_over = position.ended
        self._run = run
        self._position = position
        # Whether the stream has read the event that the position begins with.
        self._is_placed = not position.after
        self._seen: tuple[object, ...] = ()
        self._answering: AnswerStream | None = None
        self._updates = CallUpdates()
        # The entry up to which the log was searched for answers.
        self._searched = 0

    async def news(self, look: RunDescription) -> AsyncIterator[Frame]:
        """Yield the events since the last poll; the end, where the run could not write it."""
        if look.position != self._seen:
            start = await self._start_of_news(self._position.after)
            async for event in self._run.entries(names.EVENTS, start):
                async for frame in self._frames_of(event):
                    yield frame
                if self.is_over:
                    return
            self._is_placed = True
            self._seen = look.position
        if look.closed:
            ending = await self._run.ending(unread="not read here")
            self.is_over = True
            yield Frame(replace(self._position, ended=True), ending.event())

    def progress(self, look: RunDescription) -> Iterator[Frame]:
        """Yield the progress of the answer and the calls that are not in the log yet."""
        if self._answering is not None and look.streaming is not None:
            yield from self._answering.update(look.streaming)
        position = self._position if self._answering is None else self._answering.position
        for one in self._updates.new(look.updates):
            data = {"turn": one.turn, "callId": one.call_id, "attempt": one.attempt}
            yield Frame(position, {"type": "tool_update", **data, "details": one.details})

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
        is_new = event["n"] > self._position.after
        if event["type"] in _WITHIN_ANSWERS:
            if is_new:
                if self._answering is None:
                    self._position = replace(self._position, after=event["n"])
                else:  # it continues there
                    self._position = replace(self._answering.position, after=event["n"])
                    self._answering.position = self._position
                yield Frame(self._position, event)
            return
        self._is_placed = True
        self.is_over = event["type"] in ("done", "error")
        if is_new:
            async for frame in self._rest_of_answer():
                yield frame
            self._position = StreamCursor(event["n"], ended=self.is_over)
        # An answer follows the start of a turn, but for those within it.
        self._answering = None
        if event["type"] == "turn_start":
            self._answering = AnswerStream(event["turn"], self._position)
        if is_new:
            yield Frame(self._position, event)

    async def _rest_of_answer(self) -> AsyncIterator[Frame]:
        """Yield the rest of the answer that precedes an event.

        The answer is the model's last text in the turn before the next event.
        """
        if self._answering is None:
            return
        text, read, is_in_turn = None, self._searched, False
        async for record in self._run.entries(names.CONTEXT, self._searched):
            if is_in_turn and record["type"] in EVENTS - _WITHIN_ANSWERS:
                self._searched = read
                break
            read = record["n"]
            match read_record(record).entry:
                case TurnStartEntry(turn=turn) if turn == self._answering.turn:
                    is_in_turn = True
                case MessageEntry(message=message) if is_in_turn and message.role == "assistant":
                    # A text that is too large to be read in full is not sent.
                    is_whole = isinstance(message.content, str) and "cut" not in record
                    text = str(message.content) if is_whole else None
        if text is not None:
            for frame in self._answering.finish(text):
                yield frame
