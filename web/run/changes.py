"""`GET /run/{run}/changes`: an event stream of a run's progress and of the text of its model.

    changed   the run has progressed; `answered`: the streamed answer is in the log now
    token     more of an answer: {key, attempt, text, calls}; `gap`: some text is missing before it;
              `whole`: all of it so far
    update    the progress of a running call: {call, text}
    trouble   the run cannot be read now: {text}
    over      no more events: the run has ended

`id` is the run's position; a client that reconnects with it misses nothing.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from holdfast.client.command_errors import UNREACHABLE, CommandError
from holdfast.client.run_handle import AnswerProgress, RunDescription, RunHandle
from holdfast.client.stream.frames import PollInterval
from holdfast.client.stream.live_text import TokenText, answer_text, call_lines, progress_line
from holdfast.runtime.text_safety import clean
from holdfast.web.http.streaming import (
    MAX_PAGE_SECONDS,
    EventStream,
    StreamLimit,
    frame,
    too_many_streams,
)
from holdfast.web.run.snapshot import place
from holdfast.web.services import Services

MAX_STREAMS: Final = 100


class RunStreams:
    """The event streams of one process."""

    def __init__(self, parts: Services) -> None:
        self._parts = parts
        self._room = StreamLimit(MAX_STREAMS)

    async def answer(self, request: Request) -> Response:
        """Return a stream, or a refusal where there are too many."""
        run = self._parts.run(request.path_params["run"])
        await run.describe()  # raises if the run does not exist
        if self._room.is_full:
            return too_many_streams()
        seen = request.headers.get("last-event-id") or request.query_params.get("seen", "")
        return EventStream(self._room, RunStream(run, seen).frames(), MAX_PAGE_SECONDS)


@dataclass
class RunStream:
    """The stream of one run; `seen` is the position of the page."""

    run: RunHandle
    seen: str
    _pace: PollInterval = field(default_factory=PollInterval)
    _saying: "SentAnswer" = field(default_factory=lambda: SentAnswer())
    _updates: dict[str, str] = field(default_factory=dict)
    _troubled: bool = False

    async def frames(self) -> AsyncGenerator[str, None]:
        """Yield the frames until the run ends."""
        while True:
            look = await self._look()
            frames = [
                *(self._news(look) if isinstance(look, RunDescription) else self._trouble(look))
            ]
            for each in frames:
                yield each
            if _is_last(look):
                yield _frame("over", {})
                return
            busy = isinstance(look, RunDescription) and look.busy
            await asyncio.sleep(self._pace.next(moved=bool(frames), busy=busy))

    async def _look(self) -> RunDescription | CommandError:
        try:
            return await self.run.observe()
        except CommandError as error:
            return error

    def _news(self, look: RunDescription) -> Iterator[str]:
        self._troubled = False
        here = place(*look.position, look.attempts)
        answered = self._saying.is_over(look.streaming)
        if here != self.seen or answered:
            self.seen = here
            yield _frame("changed", {"answered": answered}, here)
        if look.streaming is not None and (more := self._saying.more(look.streaming)):
            yield _frame("token", more)
        before, self._updates = (
            self._updates,
            {one.call_id: progress_line(one) for one in look.updates},
        )
        for call, text in self._updates.items():
            if before.get(call) != text:
                yield _frame("update", {"call": call, "text": text})

    def _trouble(self, error: CommandError) -> Iterator[str]:
        if not self._troubled:
            self._troubled = True
            yield _frame("trouble", {"text": clean(str(error))})


class SentAnswer:
    """The part of a streamed answer that was sent."""

    def __init__(self) -> None:
        self._tokens = TokenText()
        self._key = ""
        self._end = 0
        self._whole = ""

    def is_over(self, streaming: AnswerProgress | None) -> bool:
        """Report whether the previous answer is complete: there is another one, or none."""
        over = self._key not in ("", streaming.key if streaming is not None else "")
        if streaming is None or streaming.key != self._key:
            self._key, self._end, self._whole = "" if streaming is None else streaming.key, 0, ""
        return over

    def more(self, streaming: AnswerProgress) -> dict[str, Any]:
        """Return the new part of an answer, or nothing; in composed calling, all of it."""
        start, text = self._tokens.new(streaming)
        new: dict[str, Any] = {}
        if streaming.composed:
            whole, before = answer_text(streaming), self._whole
            self._whole = whole
            new = {"whole": clean(whole)} if whole != before else {}
        elif text:
            new = {"text": clean(text), "gap": start > self._end}
            self._end = start + len(text)
        if self._tokens.new_calls(streaming):
            new["calls"] = call_lines(streaming)
        return {"key": streaming.key, "attempt": streaming.attempt, **new} if new else {}


def _is_last(look: RunDescription | CommandError) -> bool:
    return look.closed if isinstance(look, RunDescription) else look.code != UNREACHABLE


def _frame(event: str, data: dict[str, Any], id_: str = "") -> str:
    return frame(event, json.dumps(data), id_)
