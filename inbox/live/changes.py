"""`GET /run/{run}/changes`: that a run has moved on, and what its model is saying, as it happens.

    changed   the run has moved on; `answered`: what was being said is over, and stands in the log
    token     more of an answer: {key, attempt, text, calls}; `gap`: some is missing before it;
              `whole`: all of it so far, told anew
    trouble   the run cannot be looked at now: {text}
    over      nothing more comes: the run has ended

`id` is the place that the run has come to; who comes back says it, and misses nothing. Nobody is
left waiting for ever, or counted as there who has gone: a stream ends by itself after a while, and
the page opens it anew.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from inbox.live.known import place
from inbox.parts import Parts
from remote.errors import UNREACHABLE, CommandError
from remote.pace import Pace
from remote.run import Look, RemoteRun, Streaming
from remote.saying import said, written
from remote.text import clean
from remote.tokens import Tokens

MAX_STREAMS: Final = 100
MAX_STREAM_SECONDS: Final = 900.0
KEEP_ALIVE_SECONDS: Final = 15.0
RETRY_MILLISECONDS: Final = 2_000
_FULL: Final = "Too many people watch runs here just now; the page is tried again by itself."


class Changes:
    """The streams of one process."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._open = 0

    async def answer(self, request: Request) -> Response:
        """A stream, where there is room for one more."""
        run = self._parts.run(request.path_params["run"])
        await run.describe()  # there is such a run
        if self._open >= MAX_STREAMS:
            retry = {"Retry-After": str(RETRY_MILLISECONDS // 1000)}
            return PlainTextResponse(_FULL, 503, retry)
        seen = request.headers.get("last-event-id") or request.query_params.get("seen", "")
        return StreamingResponse(
            self._counted(Watch(run, seen)),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )

    async def _counted(self, watch: "Watch") -> AsyncIterator[str]:
        self._open += 1
        try:
            async for frame in watch.frames():
                yield frame
        finally:
            self._open -= 1


@dataclass
class Watch:
    """One run, watched. `seen` is the place that the page has come to."""

    run: RemoteRun
    seen: str
    life_seconds: float = MAX_STREAM_SECONDS
    _pace: Pace = field(default_factory=Pace)
    _saying: "Saying" = field(default_factory=lambda: Saying())
    _troubled: bool = False

    async def frames(self) -> AsyncIterator[str]:
        """What there is to tell, until the run is over or it has been long enough."""
        yield f"retry: {RETRY_MILLISECONDS}\n\n"
        heard = monotonic()
        until = heard + self.life_seconds
        while monotonic() < until:
            look = await self._look()
            frames = [*(self._news(look) if isinstance(look, Look) else self._trouble(look))]
            moved = bool(frames)
            if not moved and monotonic() - heard > KEEP_ALIVE_SECONDS:
                frames.append(": still there\n\n")
            for frame in frames:
                heard = monotonic()
                yield frame
            if _is_last(look):
                yield _frame("over", {})
                return
            busy = isinstance(look, Look) and look.busy
            await asyncio.sleep(self._pace.next(moved=moved, busy=busy))

    async def _look(self) -> Look | CommandError:
        try:
            return await self.run.look()
        except CommandError as error:
            return error

    def _news(self, look: Look) -> Iterator[str]:
        self._troubled = False
        here = place(*look.place, look.attempts)
        answered = self._saying.is_over(look.streaming)
        if here != self.seen or answered:
            self.seen = here
            yield _frame("changed", {"answered": answered}, here)
        if look.streaming is not None and (more := self._saying.more(look.streaming)):
            yield _frame("token", more)

    def _trouble(self, error: CommandError) -> Iterator[str]:
        if not self._troubled:
            self._troubled = True
            yield _frame("trouble", {"text": clean(str(error))})


class Saying:
    """What is told of an answer while it is being given: all of it once."""

    def __init__(self) -> None:
        self._tokens = Tokens()
        self._key = ""
        self._end = 0
        self._whole = ""

    def is_over(self, streaming: Streaming | None) -> bool:
        """Whether an answer was being given, and this is another one or none."""
        over = self._key not in ("", streaming.key if streaming is not None else "")
        if streaming is None or streaming.key != self._key:
            self._key, self._end, self._whole = "" if streaming is None else streaming.key, 0, ""
        return over

    def more(self, streaming: Streaming) -> dict[str, Any]:
        """What is new in it; empty where nothing is. In composed calling, it is told anew."""
        start, text = self._tokens.new(streaming)
        new: dict[str, Any] = {}
        if streaming.composed:
            whole, before = said(streaming), self._whole
            self._whole = whole
            new = {"whole": clean(whole)} if whole != before else {}
        elif text:
            new = {"text": clean(text), "gap": start > self._end}
            self._end = start + len(text)
        if self._tokens.new_calls(streaming):
            new["calls"] = written(streaming)
        return {"key": streaming.key, "attempt": streaming.attempt, **new} if new else {}


def _is_last(look: Look | CommandError) -> bool:
    """Whether nothing more is to come: what cannot be reached just now may be there again."""
    return look.closed if isinstance(look, Look) else look.code != UNREACHABLE


def _frame(event: str, data: dict[str, Any], id_: str | None = None) -> str:
    named = "" if id_ is None else f"id: {id_}\n"
    return f"{named}event: {event}\ndata: {json.dumps(data)}\n\n"
