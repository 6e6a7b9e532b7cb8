"""Server-sent events: their format, the number of open streams, and the end of each.

    frames ─► `SseDecoder` ─► reader

The last id alone is the position of a reader. So a reader can leave, be disconnected, or lose the
inbox itself, and continue from there. Nothing is stored for a reader: the next frame is made when
the one before has been sent.
"""

import asyncio
import logging
import math
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager, suppress
from time import monotonic
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.validation.text_safety import normalized_person

# The wait at the end for a reader that does not receive.
END_SECONDS: Final = 5.0
MEDIA_TYPE: Final = "text/event-stream"
HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
KEEP_ALIVE_SECONDS: Final = 15.0
# A reader that receives nothing for this time has gone.
STALLED_SECONDS: Final = 60.0
# The life of a page's stream; the page opens another. It bounds streams of pages that have gone.
MAX_PAGE_SECONDS: Final = 900.0
RETRY_MILLISECONDS: Final = 2_000
# Of one person, of each kind: more than a browser opens, and less than all that there are.
MAX_STREAMS_OF_ONE: Final = 25
_FULL: Final = "Too many pages listen here just now; this one tries again by itself."

logger = logging.getLogger("holdfast")


def frame(event: str, data: str, id_: str = "") -> str:
    """Return one event; `data` may have several lines."""
    named = f"id: {id_}\n" if id_ else ""
    lines = "".join(f"data: {line}\n" for line in data.split("\n"))
    return f"{named}event: {event}\n{lines}\n"


def comment(text: str) -> str:
    """Return a comment line of a stream."""
    return f": {text}\n\n"


class StreamLimit:
    """A limit for the open streams of one kind in this process, and for those of one person."""

    def __init__(self, most: int, most_of_one: int = MAX_STREAMS_OF_ONE) -> None:
        self._most, self._most_of_one = most, most_of_one
        self._open: Counter[str | None] = Counter()

    def is_full(self, name: str) -> bool:
        """Report whether the limit is reached, or that of the person of this name."""
        own = self._open[normalized_person(name)]
        return own >= self._most_of_one or self._open.total() >= self._most

    @contextmanager
    def open_stream(self, name: str) -> Iterator[None]:
        """Count a stream of a person for the time of the block."""
        person = normalized_person(name)
        self._open[person] += 1
        try:
            yield
        finally:
            self._open[person] -= 1
            self._open += Counter()  # drops those that are zero


def too_many_streams() -> Response:
    """Return the response to a page where too many streams are open."""
    return PlainTextResponse(_FULL, 503, {"Retry-After": str(RETRY_MILLISECONDS // 1000)})


class EventStream(Response):
    """A response of frames to the person `viewer`, for a limited time."""

    media_type = MEDIA_TYPE

    def __init__(
        self,
        room: StreamLimit,
        viewer: str,
        frames: AsyncGenerator[str, None],
        life_seconds: float = math.inf,
    ) -> None:
        super().__init__(headers=HEADERS)
        del self.headers["content-length"]
        self._room, self._viewer = room, viewer
        self._frames = frames
        self._life_seconds = life_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the frames until they end or the reader has gone."""

        async def tell() -> None:
            head = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
            await send(head)
            with suppress(_GoneError):
                async with aclosing(_alive(self._frames, self._life_seconds)) as pieces:
                    async for piece in pieces:
                        await _put(send, piece, more=True)
                await _put(send, "", more=False)

        async def wait_until_gone() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        with self._room.open_stream(self._viewer):
            telling = asyncio.ensure_future(tell())
            leaving = asyncio.ensure_future(wait_until_gone())
            try:
                await asyncio.wait({telling, leaving}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                await _stop(telling, leaving)
        if not telling.cancelled() and (error := telling.exception()) is not None:
            logger.warning("a stream of events broke off", exc_info=error)


class _GoneError(Exception):
    """The reader received nothing for too long."""


async def _put(send: Send, text: str, *, more: bool) -> None:
    try:
        async with asyncio.timeout(STALLED_SECONDS):
            await send({"type": "http.response.body", "body": text.encode(), "more_body": more})
    except TimeoutError:
        raise _GoneError from None


async def _alive(
    frames: AsyncGenerator[str, None], life_seconds: float
) -> AsyncGenerator[str, None]:
    """Yield the frames, and a keep-alive comment when there is none."""
    yield f"retry: {RETRY_MILLISECONDS}\n\n"
    until = monotonic() + life_seconds
    async with aclosing(frames):
        following = asyncio.ensure_future(anext(frames, None))
        try:
            while (left_seconds := until - monotonic()) > 0:
                await asyncio.wait({following}, timeout=min(left_seconds, KEEP_ALIVE_SECONDS))
                if not following.done():
                    yield comment("still there")
                    continue
                if (each := following.result()) is None:
                    return
                yield each
                following = asyncio.ensure_future(anext(frames, None))
        finally:
            await _stop(following)


async def _stop(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class SessionStreams:
    """An application whose streams end with the session or the server; others are unchanged."""

    def __init__(self, app: ASGIApp, stopping: asyncio.Event, left_seconds: float | None) -> None:
        self._app, self._stopping, self._left_seconds = app, stopping, left_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        streaming, is_over = asyncio.Event(), False

        async def sent(message: Message) -> None:
            nonlocal is_over
            if message["type"] == "http.response.start":
                kind = Headers(raw=message["headers"]).get("content-type", "")
                if kind.startswith(MEDIA_TYPE):
                    streaming.set()
            elif not message.get("more_body", False):
                is_over = True
            await send(message)

        async def must_end() -> None:
            await streaming.wait()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), self._left_seconds)

        async def received() -> Message:
            """Return the client's message; for a stream that must end, a disconnect."""
            hearing = asyncio.ensure_future(receive())
            ending = asyncio.ensure_future(must_end())
            try:
                await asyncio.wait({hearing, ending}, return_when=asyncio.FIRST_COMPLETED)
                return hearing.result() if hearing.done() else {"type": "http.disconnect"}
            finally:
                hearing.cancel()
                ending.cancel()

        await self._app(scope, received, sent)
        if streaming.is_set() and not is_over:
            with suppress(TimeoutError):
                async with asyncio.timeout(END_SECONDS):
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
