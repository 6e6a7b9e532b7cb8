"""`GET …/changes`: what becomes of a question while somebody looks at it, as it happens.

    news      something of it has changed: a notice, to be put into the page
    outcome   of what waits no longer: what has come of it by now, in place of what stood there
    over      nothing more comes: it waits no longer, or nothing more can come of it

Nothing else of the page is touched: what somebody is typing stays.
"""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from holdfast.client.command_errors import CommandError
from holdfast.web.auth.person import Person, person_of
from holdfast.web.call import phrases
from holdfast.web.call.loader import OVER, Asked, Over, digest_in, look
from holdfast.web.call.outcome import outcome
from holdfast.web.http.streaming import (
    MAX_PAGE_SECONDS,
    EventStream,
    StreamLimit,
    frame,
    too_many_streams,
)
from holdfast.web.pages import ENVIRONMENT
from holdfast.web.services import Services

MAX_STREAMS: Final = 200
LOOK_SECONDS: Final = 1.0


class Changes:
    """The streams of one process."""

    def __init__(self, parts: Services) -> None:
        self._parts = parts
        self._room = StreamLimit(MAX_STREAMS)

    async def answer(self, request: Request) -> Response:
        """A stream, where there is room for one more."""
        if self._room.is_full:
            return too_many_streams()
        run, call = request.path_params["run"], request.path_params["call"]
        seen = request.query_params.get("seen", "")
        frames = self._frames(run, call, seen, person_of(request))
        return EventStream(self._room, frames, MAX_PAGE_SECONDS)

    async def _frames(
        self, run_id: str, call_id: str, seen: str, person: Person
    ) -> AsyncGenerator[str, None]:
        place: Any = None
        follows = seen.startswith(OVER)
        while True:
            found, place = await self._look(run_id, call_id, place)
            if found is not None and (told := _told(found, seen, person)):
                shows_outcome = isinstance(found, Over) and seen.startswith(OVER)
                seen = _seen(found)
                yield frame("outcome" if shows_outcome else "news", told)
            if found is not None and _is_all(found, follows=follows):
                yield frame("over", "")
                return
            await asyncio.sleep(LOOK_SECONDS)

    async def _look(self, run_id: str, call_id: str, place: Any) -> tuple[Asked | Over | None, Any]:
        """What there is to see where the run has moved on; the server alone is asked else."""
        try:
            now = (await self._parts.run(run_id).observe()).position
            if now == place:
                return None, place
            return await look(self._parts, run_id, call_id), now
        except CommandError:
            return None, None  # so that it is looked at again


def _seen(found: Asked | Over) -> str:
    return digest_in(found.waiting) if isinstance(found, Asked) else found.mark


def _is_all(found: Asked | Over, *, follows: bool) -> bool:
    """Whether a page has nothing more to hear: one that `follows` what came of a call hears of it
    until that can be no more, or people are asked anew."""
    if isinstance(found, Asked):
        return follows
    return found.is_settled or not follows


def _told(found: Asked | Over, seen: str, person: Person) -> str:
    """The notice; empty where everything is as it was seen."""
    if _seen(found) == seen:
        return ""
    if isinstance(found, Over) and seen.startswith(OVER):
        return ENVIRONMENT.get_template("call_outcome.html").render(**outcome(found, person))
    if isinstance(found, Asked):
        asked, decisions = found.waiting, found.waiting.decisions
    else:
        asked, decisions = found.question, found.past.decisions
    who = phrases.gave(decisions[-1], asked.kind, person.name) if decisions else ""
    return ENVIRONMENT.get_template("call_news.html").render(
        found=found, who=who, over=isinstance(found, Over), anew=seen.startswith(OVER)
    )
