"""`GET /runs/{run}/events`: a run as server-sent events, in the frames of `remote.frames`.

    id: 12.1.340.5f2a9c01
    event: token
    data: {"type": "token", "turn": 3, "attempt": 1, "offset": 340, "text": "…"}

What a stream has told stands in its last id alone. So whoever reads can leave, be cut off, or lose
the inbox itself, and goes on with `Last-Event-ID`, here or there. Nothing is kept for a reader: the
next frame is made when the one before has gone out.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from typing import Any, Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from inbox.api.asked import Asked
from inbox.problems import Problem, problem_of
from remote.deltas import Frame
from remote.errors import CommandError
from remote.frames import Remark, frames
from remote.position import Position
from remote.text import as_json, one_line

MAX_STREAMS: Final = 200
KEEP_ALIVE_SECONDS: Final = 15.0
# Whoever reads nothing for so long has gone.
STALLED_SECONDS: Final = 60.0
RETRY_MILLISECONDS: Final = 2_000
_REMARK_CHARS: Final = 500
_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

logger = logging.getLogger("holdfast")


class Streams:
    """The streams of one process."""

    def __init__(self) -> None:
        self._open = 0

    async def answer(self, asked: Asked) -> Response:
        """The events of a run, from where the reader is."""
        position = _position(asked)
        run = asked.parts.run(asked.run_id)
        await run.describe()
        if position.ended:
            return Response(status_code=204)  # by which a browser knows that nothing more comes
        if asked.request.method == "HEAD":
            return Response(media_type="text/event-stream", headers=_HEADERS)
        if self._open >= MAX_STREAMS:
            raise Problem("too_many_streams", "Too many streams are open here; try again.")
        return EventStream(self, frames(run, position))

    @contextmanager
    def one(self) -> Iterator[None]:
        """The time in which a stream is open."""
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1


class EventStream(Response):
    """Frames, written as they come, to whoever reads them."""

    media_type = "text/event-stream"

    def __init__(self, streams: Streams, told: AsyncGenerator[Frame | Remark, None]) -> None:
        super().__init__(headers=_HEADERS)
        del self.headers["content-length"]
        self._streams = streams
        self._told = told

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Tell what there is to tell, until it is over or the reader has gone."""
        with self._streams.one():
            telling = asyncio.ensure_future(self._tell(send))
            leaving = asyncio.ensure_future(_left(receive))
            try:
                await asyncio.wait({telling, leaving}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                await _stop(telling, leaving)
        if not telling.cancelled() and (error := telling.exception()) is not None:
            logger.warning("a stream of events broke off", exc_info=error)

    async def _tell(self, send: Send) -> None:
        head = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(head)
        async with aclosing(_written(self._told)) as pieces:
            async for piece in pieces:
                async with asyncio.timeout(STALLED_SECONDS):
                    body = piece.encode()
                    await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def _written(told: AsyncGenerator[Frame | Remark, None]) -> AsyncGenerator[str, None]:
    """Frames as text, and a sign of life where none comes."""
    yield f"retry: {RETRY_MILLISECONDS}\n\n"
    async with aclosing(told):
        following = asyncio.ensure_future(anext(told, None))
        try:
            while True:
                await asyncio.wait({following}, timeout=KEEP_ALIVE_SECONDS)
                if not following.done():
                    yield ": still there\n\n"
                    continue
                if (each := following.result()) is None:
                    return
                yield _text(each)
                following = asyncio.ensure_future(anext(told, None))
        except CommandError as error:
            # It is asked for again, and then told as a problem.
            yield _text(Remark(problem_of(error).detail))
        finally:
            await _stop(following)


def _text(each: Frame | Remark) -> str:
    if isinstance(each, Remark):
        return f": {one_line(each.text, _REMARK_CHARS)}\n\n"
    return f"id: {each.position}\nevent: {each.type}\ndata: {as_json(each.data)}\n\n"


def _position(asked: Asked) -> Position:
    """Where the reader is: what their last frame says, or the address.

    Raises:
        Problem: there is no such place.
    """
    headers, query = asked.request.headers, asked.request.query_params
    said = headers.get("last-event-id") or query.get("after") or "0"
    try:
        return Position.read(said)
    except ValueError as error:
        raise Problem("bad_request", f"`Last-Event-ID`: {error}.") from None


async def _left(receive: Receive) -> None:
    """Return when the reader has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _stop(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
