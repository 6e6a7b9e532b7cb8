"""`GET /runs/{run}/events`: a run as server-sent events, in the frames of `client.stream.frames`.

    id: 12.1.340.5f2a9c01
    event: token
    data: {"type": "token", "turn": 3, "attempt": 1, "offset": 340, "text": "…"}

A reader that continues after an id receives the same frames as one that was never disconnected.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from starlette.responses import Response

from holdfast.client.command_errors import CommandError
from holdfast.client.stream.deltas import Frame, StreamCursor
from holdfast.client.stream.frames import StreamNotice, frames
from holdfast.runtime.text_safety import as_json, one_line
from holdfast.web.api.api_request import ApiRequest
from holdfast.web.http.problems import HttpProblem, problem_of
from holdfast.web.http.streaming import (
    HEADERS,
    MEDIA_TYPE,
    EventStream,
    StreamLimit,
    comment,
    frame,
)

MAX_STREAMS: Final = 200
_REMARK_CHARS: Final = 500


class Streams:
    """The streams of one process."""

    def __init__(self) -> None:
        self._room = StreamLimit(MAX_STREAMS)

    async def answer(self, asked: ApiRequest) -> Response:
        """Return the events of a run, from the position of the reader."""
        position = _position(asked)
        run = asked.parts.run(asked.run_id)
        await run.describe()
        if position.ended:
            return Response(status_code=204)  # the status by which a browser stops reconnecting
        if asked.request.method == "HEAD":
            return Response(media_type=MEDIA_TYPE, headers=HEADERS)
        if self._room.is_full:
            raise HttpProblem("too_many_streams", "Too many streams are open here; try again.")
        return EventStream(self._room, _written(frames(run, position)))


async def _written(told: AsyncGenerator[Frame | StreamNotice, None]) -> AsyncGenerator[str, None]:
    """Yield frames as text."""
    async with aclosing(told):
        try:
            async for each in told:
                yield _text(each)
        except CommandError as error:
            # The client repeats the request, and then receives the error as a problem.
            yield _text(StreamNotice(problem_of(error).detail))


def _text(each: Frame | StreamNotice) -> str:
    if isinstance(each, StreamNotice):
        return comment(one_line(each.text, _REMARK_CHARS))
    return frame(each.type, as_json(each.data), str(each.position))


def _position(asked: ApiRequest) -> StreamCursor:
    """Return the position of the reader: the id of its last frame, or the address.

    Raises:
        HttpProblem: the position is not valid.
    """
    headers, query = asked.request.headers, asked.request.query_params
    said = headers.get("last-event-id") or query.get("after") or "0"
    try:
        return StreamCursor.read(said)
    except ValueError as error:
        raise HttpProblem("bad_request", f"`Last-Event-ID`: {error}.") from None
