"""Streams of events: ended when the inbox stops, and when the session that they are for is over.

Whoever reads one asks again, of this inbox or of another, and goes on where it stopped.
"""

import asyncio
from contextlib import suppress
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.web.http.streaming import MEDIA_TYPE

# Whoever reads nothing is not waited for.
END_SECONDS: Final = 5.0
_DISCONNECT: Message = {"type": "http.disconnect"}
_END: Message = {"type": "http.response.body", "body": b"", "more_body": False}


class Bounded:
    """An application whose streams end in time; any other answer is left to itself."""

    def __init__(self, app: ASGIApp, stopping: asyncio.Event, left_seconds: float | None) -> None:
        self._app, self._stopping, self._left_seconds = app, stopping, left_seconds
        self._streaming = asyncio.Event()
        self._is_over = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                kind = Headers(raw=message["headers"]).get("content-type", "")
                if kind.startswith(MEDIA_TYPE):
                    self._streaming.set()
            elif not message.get("more_body", False):
                self._is_over = True
            await send(message)

        async def received() -> Message:
            return await self._received(receive)

        await self._app(scope, received, sent)
        if self._streaming.is_set() and not self._is_over:
            with suppress(TimeoutError):
                async with asyncio.timeout(END_SECONDS):
                    await send(_END)

    async def _received(self, receive: Receive) -> Message:
        """What the client says; of a stream that is to end, that it has gone."""
        hearing = asyncio.ensure_future(receive())
        ending = asyncio.ensure_future(self._to_end())
        try:
            await asyncio.wait({hearing, ending}, return_when=asyncio.FIRST_COMPLETED)
            return hearing.result() if hearing.done() else _DISCONNECT
        finally:
            hearing.cancel()
            ending.cancel()

    async def _to_end(self) -> None:
        """Return when it is a stream, and is to end."""
        await self._streaming.wait()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), self._left_seconds)
