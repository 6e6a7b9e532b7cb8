"""A run as a stream of frames: its events, and the progress between them.

    async for each in frames(RunHandle(client, run_id), StreamCursor.read(last_id)):
        ...  # a `Frame`, or a `StreamNotice` with the reason of a pause

A stream begins after any position and ends with exactly one `done` or `error`. The position of the
last frame covers everything that was sent: a reader that reconnects continues from there, with this
process or another.

`PollInterval` sets how often the stream polls Temporal; the stream queries the run only when it has
progressed. While no worker answers, the stream stays open.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from holdfast.client.command_errors import UNREACHABLE, CommandError
from holdfast.client.run_handle import Entry, RunDescription, RunHandle
from holdfast.client.stream.deltas import AnswerStream, Frame, StreamCursor, UpdateStream
from holdfast.schemas import names
from holdfast.schemas.log_entry import EVENTS

FASTEST_SECONDS: Final = 0.15
BUSY_SECONDS: Final = 0.5
SLOWEST_SECONDS: Final = 2.0
_SLOWER_BY: Final = 1.4


@dataclass(frozen=True)
class StreamNotice:
    """The reason for a pause in the stream, which continues by itself."""

    text: str


async def frames(
    run: RunHandle, position: StreamCursor
) -> AsyncGenerator[Frame | StreamNotice, None]:
    """Yield everything after a position, to the end of the run.

    Raises:
        CommandError: the run does not exist, or its data cannot be read here.
    """
    telling, pace = _Telling(run, position), PollInterval()
    while not telling.is_over():
        look, moved = None, False
        try:
            look = await run.observe()
            async for frame in telling.news(look):
                moved = True
                yield frame
        except CommandError as error:
            for remark in telling.silent(error):
                yield remark
        if look is None:
            await asyncio.sleep(SLOWEST_SECONDS)
        elif not telling.is_over():
            # If there are new events, the progress may already be part of them.
            for frame in () if moved else telling.on_its_way(look):
                yield frame
            moving = moved or look.streaming is not None
            await asyncio.sleep(pace.next(moved=moving, busy=look.busy))


class _Telling:
    """The position of one reader, and the next frames."""

    def __init__(self, run: RunHandle, position: StreamCursor) -> None:
        self._over = position.ended
        self._run = run
        self._position = position
        # Whether the stream has read the event that the position begins with.
        self._placed = not position.after
        self._seen: tuple[object, ...] = ()
        self._answering: AnswerStream | None = None
        self._updating = UpdateStream()
        # The entry up to which the log was searched for answers.
        self._searched = 0
        self._remark = ""

    async def news(self, look: RunDescription) -> AsyncIterator[Frame]:
        """Yield the events since the last poll; the end, where the run could not write it."""
        if look.position != self._seen:
            async for event in self._events():
                async for frame in self._before(event):
                    yield frame
                yield self._told(event)
                if self._over:
                    return
            self._seen, self._remark = look.position, ""
        if look.closed and not self._over:
            ending = await self._run.ending(whole=False)
            self._over = True
            yield Frame(replace(self._position, ended=True), ending.event())

    def on_its_way(self, look: RunDescription) -> Iterator[Frame]:
        """Yield the progress of the answer and the calls that are not in the log yet."""
        if (
            self._answering is not None
            and look.streaming is not None
            and look.position == self._seen
        ):
            yield from self._answering.update(look.streaming)
        position = self._position if self._answering is None else self._answering.position
        yield from self._updating.changes(look.updates, position)

    def is_over(self) -> bool:
        """Check whether the end was sent."""
        return self._over

    def silent(self, error: CommandError) -> Iterator[StreamNotice]:
        """Yield a notice that no worker answers, once for each reason.

        Raises:
            CommandError: the error is permanent.
        """
        if error.code != UNREACHABLE:
            raise error
        if (why := str(error)) != self._remark:
            self._remark = why
            yield StreamNotice(why)

    async def _events(self) -> AsyncIterator[Entry]:
        """Yield the events that were not sent yet."""
        after = self._position.after
        async for event in self._run.entries(names.EVENTS, after if self._placed else after - 1):
            if event["n"] > after:
                yield event
            else:
                self._place(event)
            if self._over:
                return
        self._placed = True

    def _place(self, event: Entry) -> None:
        """Find the last event that was sent before."""
        self._placed = True
        self._over = _is_last(event)
        begun = self._position if event["type"] == "turn_start" else StreamCursor(event["n"])
        self._position = StreamCursor(event["n"])
        self._follow(event, begun)

    def _told(self, event: Entry) -> Frame:
        self._placed = True
        self._over = _is_last(event)
        self._position = StreamCursor(event["n"], ended=self._over)
        self._follow(event, self._position)
        return Frame(self._position, event)

    def _follow(self, event: Entry, position: StreamCursor) -> None:
        """Expect an answer after the start of a turn, and none after any other event."""
        self._answering = None
        if event["type"] == "turn_start":
            self._answering = AnswerStream(event["turn"], position)

    async def _before(self, event: Entry) -> AsyncIterator[Frame]:
        """Yield the rest of the answer that precedes an event."""
        if self._answering is None:
            return
        said = await self._answer(self._answering.turn)
        if said is not None:
            for frame in self._answering.finish(said):
                yield frame
        self._answering = None

    async def _answer(self, turn: int) -> str | None:
        """Return the model's answer in a turn: its last text before the next event."""
        found, read, begun = None, self._searched, False
        async for entry in self._run.entries(names.CONTEXT, self._searched):
            if begun and entry["type"] in EVENTS:
                self._searched = read
                break
            read = entry["n"]
            if entry["type"] == "turn_start" and entry["turn"] == turn:
                begun = True
            elif begun and entry["type"] == "message":
                found = _said(entry) if entry["message"]["role"] == "assistant" else found
        return found


def _is_last(event: Mapping[str, Any]) -> bool:
    return event["type"] in ("done", "error")


def _said(entry: Entry) -> str | None:
    """Return the text of an answer; None if it is too large to be read in full."""
    content = entry["message"].get("content", "")
    return content if isinstance(content, str) and "cut" not in entry else None


@dataclass
class PollInterval:
    """The time until the next poll."""

    seconds: float = FASTEST_SECONDS

    def next(self, *, moved: bool, busy: bool) -> float:
        """Return the next interval in seconds: short after progress, then longer.

        It is shorter while an activity runs.
        """
        slower = min(self.seconds * _SLOWER_BY, BUSY_SECONDS if busy else SLOWEST_SECONDS)
        self.seconds = FASTEST_SECONDS if moved else slower
        return self.seconds
