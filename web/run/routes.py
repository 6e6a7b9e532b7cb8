"""One run, as it happens.

GET  /run/{run}                     its page; `?before=N`: the entries before number N of its log
GET  /run/{run}/news?after=N        what is new in it, as parts of the page
GET  /run/{run}/earlier?before=N    earlier entries, as parts of the page
GET  /run/{run}/changes             when there is something new (`web.run.changes`)
GET  /run/{run}/entry/N, /state     one entry, and the state, whole
GET  /run/{run}/picture/N/I         a picture that was said
POST /run/{run}/message, /close, /cancel
"""

import base64
import re
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from holdfast.client.command_errors import NoWorkerError
from holdfast.client.run_handle import NO_WORKER_SECONDS, Entry, RunHandle
from holdfast.runtime.text_safety import as_json, clean
from holdfast.web.http.routing import NUMBER, RunRoute
from holdfast.web.pages import page
from holdfast.web.run.actions import SAID, Acting
from holdfast.web.run.changes import Changes
from holdfast.web.run.snapshot import Span, entries, see
from holdfast.web.run.timeline import Teller, pictures_of
from holdfast.web.run.view import states, view
from holdfast.web.services import Services

# A page is there soon, also where nobody answers; what asks for it then waits until that is clear.
PAGE_SECONDS: Final = 2.5
NEWS_SECONDS: Final = NO_WORKER_SECONDS + 5
MAX_INSTANCES: Final = 50
_PICTURE: Final = {"Content-Security-Policy": "default-src 'none'; sandbox"}


def routes(parts: Services) -> list[BaseRoute]:
    """The pages of a run."""
    live, acting, changes = Live(parts), Acting(parts), Changes(parts)
    at = "/run/{run}"
    return [
        RunRoute(f"{at}/news", live.news),
        RunRoute(f"{at}/earlier", live.earlier),
        RunRoute(f"{at}/changes", changes.answer),
        RunRoute(f"{at}/entry/{{n:number}}", live.entry),
        RunRoute(f"{at}/picture/{{n:number}}/{{index:number}}", live.picture),
        RunRoute(f"{at}/state", live.state),
        RunRoute(f"{at}/message", acting.message, methods=["POST"]),
        RunRoute(f"{at}/close", acting.close, methods=["POST"]),
        RunRoute(f"{at}/cancel", acting.before_cancel, methods=["GET"]),
        RunRoute(f"{at}/cancel", acting.cancel, methods=["POST"]),
        RunRoute(at, live.page),
    ]


@dataclass(frozen=True)
class Live:
    """The pages by which a run is looked at."""

    parts: Services

    async def page(self, request: Request) -> Response:
        """A run as it stands."""
        before = _number(request, "before")
        seen = await see(self.parts, _run_id(request), Span(before=before), PAGE_SECONDS)
        said = SAID.get(request.query_params.get("said", ""), "")
        shown = await view(self.parts, seen)
        return page(request, "run.html", run=shown, said=said, newest=before is None)

    async def news(self, request: Request) -> Response:
        """What is new in it."""
        after = _number(request, "after")
        seen = await see(self.parts, _run_id(request), Span(after=after), NEWS_SECONDS)
        shown = await view(self.parts, seen)
        return page(request, "run-news.html", run=shown, after=after)

    async def earlier(self, request: Request) -> Response:
        """What stands before that in its log."""
        before = _number(request, "before") or 1
        seen = await see(self.parts, _run_id(request), Span(before=before), NEWS_SECONDS)
        if seen.silent is not None:
            raise seen.silent
        shown = await view(self.parts, seen)
        return page(request, "run-earlier.html", run=shown)

    async def entry(self, request: Request) -> Response:
        """One entry, whole."""
        run = self._run(request)
        found = await _entry(run, request.path_params["n"])
        told = Teller(run.id).whole(found)
        kept = as_json(found, indent=2)
        return page(request, "run-entry.html", run=run.id, n=found["n"], told=told, kept=kept)

    async def picture(self, request: Request) -> Response:
        """A picture of a message."""
        found, index = await _entry(self._run(request), request.path_params["n"]), _index(request)
        if index not in pictures_of(found):
            raise HTTPException(404, "There is no such picture.")
        part = found["message"]["content"][index]
        try:
            data = base64.b64decode(part["data"])
        except ValueError:
            raise HTTPException(404, "That picture cannot be read.") from None
        return Response(data, media_type=part["mediaType"], headers=_PICTURE)

    async def state(self, request: Request) -> Response:
        """The state that calls read from and write to."""
        run = self._run(request)
        description = await run.describe()
        try:
            instances = (await run.status()).get("instances", [])
            own = {name: await run.state(name) for name in instances[:MAX_INSTANCES]}
            shared = await run.state()
        except NoWorkerError:
            if description.close_time is None:
                raise
            shared, instances = await _state_at_end(run)
            own = dict(islice(instances.items(), MAX_INSTANCES))
        more = len(instances) - len(own)
        return page(request, "run-state.html", run=run.id, states=states(shared, own), more=more)

    def _run(self, request: Request) -> RunHandle:
        return self.parts.run(_run_id(request))


async def _entry(run: RunHandle, number: int) -> Entry:
    found = await entries(run, number - 1, number) if number > 0 else []
    if not found:
        said = f"The log of {clean(run.id)} has no entry {number}."
        raise HTTPException(404, said)
    return found[0]


async def _state_at_end(run: RunHandle) -> tuple[Any, dict[str, Any]]:
    """The state for all, and that of each instance, as Temporal knows it of a run that is over."""
    result = (await run.ending(whole=False)).result
    return (None, {}) if result is None else (result.state, result.instances)


def _run_id(request: Request) -> str:
    run_id: str = request.path_params["run"]
    return run_id


def _index(request: Request) -> int:
    index: int = request.path_params["index"]
    return index


def _number(request: Request, name: str) -> int | None:
    """A number of an entry in the address; `None` where there is none."""
    given = request.query_params.get(name)
    if not given:
        return None
    if not re.fullmatch(NUMBER, given):
        raise HTTPException(400, f"{name} is to be the number of an entry, such as 100.")
    return int(given)
