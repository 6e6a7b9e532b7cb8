"""`GET …/changes`: what becomes of a question while somebody looks at it, as it happens.

    news   something of it has changed: a notice, to be put into the page
    over   nothing more comes: it waits no longer

Nothing of the page is touched but the notice: what somebody is typing stays.
"""

import asyncio
from collections.abc import AsyncIterator
from time import monotonic
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from inbox.call import words
from inbox.call.asked import Asked, Over, digest_in, look
from inbox.live.changes import KEEP_ALIVE_SECONDS, MAX_STREAM_SECONDS, RETRY_MILLISECONDS
from inbox.pages import ENVIRONMENT
from inbox.parts import Parts
from inbox.person import Person, person_of
from remote.errors import CommandError, NoWorkerError

MAX_STREAMS: Final = 200
LOOK_SECONDS: Final = 1.0
_FULL: Final = "Too many people look at calls here just now; the page is tried again by itself."


class Changes:
    """The streams of one process."""

    def __init__(self, parts: Parts, max_streams: int = MAX_STREAMS) -> None:
        self._parts = parts
        self._max_streams = max_streams
        self._open = 0

    async def answer(self, request: Request) -> Response:
        """A stream, where there is room for one more."""
        if self._open >= self._max_streams:
            return PlainTextResponse(_FULL, 503, {"Retry-After": str(RETRY_MILLISECONDS // 1000)})
        run, call = request.path_params["run"], request.path_params["call"]
        seen = request.query_params.get("seen", "")
        return StreamingResponse(
            self._counted(run, call, seen, person_of(request)),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )

    async def _counted(
        self, run_id: str, call_id: str, seen: str, person: Person
    ) -> AsyncIterator[str]:
        self._open += 1
        try:
            yield f"retry: {RETRY_MILLISECONDS}\n\n"
            heard = monotonic()
            until = heard + MAX_STREAM_SECONDS
            place: Any = None
            while monotonic() < until:
                found, place = await self._look(run_id, call_id, place)
                if found is not None and (told := _told(found, seen, person)):
                    seen, heard = _seen(found), monotonic()
                    yield _frame("news", told)
                if isinstance(found, Over):
                    yield _frame("over", "")
                    return
                if monotonic() - heard > KEEP_ALIVE_SECONDS:
                    heard = monotonic()
                    yield ": still there\n\n"
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            self._open -= 1

    async def _look(self, run_id: str, call_id: str, place: Any) -> tuple[Asked | Over | None, Any]:
        """What there is to see where the run has moved on; the server alone is asked else."""
        try:
            now = (await self._parts.run(run_id).look()).place
            if now == place:
                return None, place
            return await look(self._parts, run_id, call_id), now
        except NoWorkerError:
            return None, place
        except CommandError:
            return None, None


def _seen(found: Asked | Over) -> str:
    return digest_in(found.waiting) if isinstance(found, Asked) else "over"


def _told(found: Asked | Over, seen: str, person: Person) -> str:
    """The notice; empty where everything is as it was seen."""
    if _seen(found) == seen:
        return ""
    kind = found.waiting.kind if isinstance(found, Asked) else "call"
    decisions = found.waiting.decisions if isinstance(found, Asked) else found.past.decisions
    if isinstance(found, Over) and found.past.asked is not None:
        kind = found.past.asked.kind
    who = words.gave(decisions[-1], kind, person.name) if decisions else ""
    return ENVIRONMENT.get_template("call_news.html").render(
        found=found, who=who, over=isinstance(found, Over)
    )


def _frame(event: str, text: str) -> str:
    lines = "".join(f"data: {line}\n" for line in text.splitlines() or [""])
    return f"event: {event}\n{lines}\n"
