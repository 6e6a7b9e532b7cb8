"""A run as a stream of frames: its events as they are, and between them what is on its way.

    async for each in frames(RemoteRun(client, run_id), Position.read(last_id)):
        ...  # a `Frame`, or a `StreamNotice` on why nothing comes

A stream begins after any position and ends with exactly one `done` or `error`. What it has told is
in the position of its last frame: a reader that reconnects continues from there, with
this process or another.

Temporal is looked at as often as `client.stream.polling` says; the run is asked only when it has
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
    """The reason for a pause in the stream, which goes on by itself."""

    text: str


async def frames(
    run: RunHandle, position: StreamCursor
) -> AsyncGenerator[Frame | StreamNotice, None]:
    """Yield everything after a position, to the end of the run.

    Raises:
        CommandError: there is no such run, or what it says cannot be read here.
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
            # Where there was news, what was being said may be part of it.
            for frame in () if moved else telling.on_its_way(look):
                yield frame
            moving = moved or look.streaming is not None
            await asyncio.sleep(pace.next(moved=moving, busy=look.busy))


class _Telling:
    """The position of one reader, and the frames that come next."""

    def __init__(self, run: RunHandle, position: StreamCursor) -> None:
        self._over = position.ended
        self._run = run
        self._position = position
        # Whether the event that the position begins with has been looked at.
        self._placed = not position.after
        self._seen: tuple[object, ...] = ()
        self._answering: AnswerStream | None = None
        self._updating = UpdateStream()
        # The entry up to which the log was searched for answers.
        self._searched = 0
        self._remark = ""

    async def news(self, look: RunDescription) -> AsyncIterator[Frame]:
        """What was written since the last time; the end, where the run could not write it."""
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
        """The events that were not told yet."""
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
        """After the begin of a turn, its answer comes; after any other event, none does."""
        self._answering = None
        if event["type"] == "turn_start":
            self._answering = AnswerStream(event["turn"], position)

    async def _before(self, event: Entry) -> AsyncIterator[Frame]:
        """What is left of the answer that an event comes after."""
        if self._answering is None:
            return
        said = await self._answer(self._answering.turn)
        if said is not None:
            for frame in self._answering.finish(said):
                yield frame
        self._answering = None

    async def _answer(self, turn: int) -> str | None:
        """What the model said in a turn: the last that it said before the next event."""
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
    """The text of an answer; none where it is too large to be had whole."""
    content = entry["message"].get("content", "")
    return content if isinstance(content, str) and "cut" not in entry else None


@dataclass
class PollInterval:
    """How long to wait before the next look."""

    seconds: float = FASTEST_SECONDS

    def next(self, *, moved: bool, busy: bool) -> float:
        """Fast after something moved, then slower; not so slow while an activity runs."""
        slower = min(self.seconds * _SLOWER_BY, BUSY_SECONDS if busy else SLOWEST_SECONDS)
        self.seconds = FASTEST_SECONDS if moved else slower
        return self.seconds
