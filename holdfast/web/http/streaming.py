"""Server-sent events: their format, the number of open streams, and the end of each.

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
from typing import Final, NamedTuple

from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from holdfast.validation.text_safety import normalized_person

MEDIA_TYPE: Final = "text/event-stream"
HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
KEEP_ALIVE_SECONDS: Final = 15.0
# A reader that receives nothing for this time is disconnected.
STALLED_SECONDS: Final = 60.0
# The life of a page's stream; the page opens another. It bounds streams of closed pages.
MAX_PAGE_SECONDS: Final = 900.0
RETRY_MILLISECONDS: Final = 2_000
# Of one person, of each kind: more than a browser opens, and less than all that there are.
MAX_STREAMS_OF_ONE: Final = 25
_FULL: Final = "Too many pages are connected now; this page tries again by itself."

logger = logging.getLogger("holdfast")


def frame(event: str, data: str, id_: str = "") -> str:
    """Return one event; `data` may have several lines."""
    named = f"id: {id_}\n" if id_ else ""
    lines = "".join(f"data: {line}\n" for line in data.split("\n"))
    return f"{named}event: {event}\n{lines}\n"


def comment(text: str) -> str:
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


class SessionEnd(NamedTuple):
    """The ends of every stream of a session: the time that is left, and the end of the server."""

    seconds_left: float
    stopping: asyncio.Event


class EventStream(StreamingResponse):
    """A response of frames to the person `viewer`, for a limited time.

    It ends with the session of the viewer, and when the server stops.
    """

    media_type = MEDIA_TYPE

    def __init__(
        self,
        room: StreamLimit,
        viewer: str,
        frames: AsyncGenerator[str, None],
        life_seconds: float = math.inf,
    ) -> None:
        super().__init__(frames, headers=HEADERS)
        self._room, self._viewer = room, viewer
        self._frames = frames
        self._life_seconds = life_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the frames until they end or the reader disconnects."""

        async def send_in_time(message: Message) -> None:
            try:
                async with asyncio.timeout(STALLED_SECONDS):
                    await send(message)
            except TimeoutError:
                raise ClientDisconnect from None

        pieces = self._pieces(scope["state"]["session"], receive)
        self.body_iterator = pieces
        with self._room.open_stream(self._viewer), suppress(ClientDisconnect):
            async with aclosing(pieces):
                await self.stream_response(send_in_time)

    async def _pieces(self, session: SessionEnd, receive: Receive) -> AsyncGenerator[str, None]:
        """Yield the frames, and a keep-alive comment when there is none."""
        ends = (session.stopping.wait(), self.listen_for_disconnect(receive))
        ending = [asyncio.ensure_future(end) for end in ends]
        following = asyncio.ensure_future(anext(self._frames, None))
        try:
            yield f"retry: {RETRY_MILLISECONDS}\n\n"
            until = monotonic() + min(self._life_seconds, session.seconds_left)
            while (left_seconds := until - monotonic()) > 0:
                done, _ = await asyncio.wait(
                    {following, *ending},
                    timeout=min(left_seconds, KEEP_ALIVE_SECONDS),
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if not done.isdisjoint(ending):
                    return
                if following not in done:
                    yield comment("still there")
                    continue
                if (each := following.result()) is None:
                    return
                yield each
                following = asyncio.ensure_future(anext(self._frames, None))
        except Exception:
            logger.warning("a stream of events failed", exc_info=True)
        finally:
            for task in (following, *ending):
                task.cancel()
            await asyncio.gather(following, *ending, return_exceptions=True)
            await self._frames.aclose()


def page_stream(
    room: StreamLimit,
    viewer: str,
    frames: AsyncGenerator[str, None],
    life_seconds: float = MAX_PAGE_SECONDS,
) -> Response:
    """Return the stream of a page, or a refusal where too many are open."""
    if room.is_full(viewer):
        return PlainTextResponse(_FULL, 503, {"Retry-After": str(RETRY_MILLISECONDS // 1000)})
    return EventStream(room, viewer, frames, life_seconds)
