"""The page of a person's absence, `/away`: until when, and who is their substitute.

Its person is that of the session, never one of the form: no one sets the absence of another person.
A form that is sent twice sets the same; of two, the last one that arrives holds.
"""

from datetime import UTC, date, datetime, time, timedelta

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from holdfast.client.errors import UNREACHABLE, HoldfastError
from holdfast.runtime.text_safety import as_sentence, clean
from holdfast.validation.text_safety import is_same_person
from holdfast.web.auth.sessions import person_of
from holdfast.web.http.requests import read_form
from holdfast.web.pages import page
from holdfast.web.services import Services


def routes(parts: Services) -> list[BaseRoute]:
    """Return the routes of the page."""
    pages = AwayPage(parts)
    return [
        Route("/away", pages.show, methods=["GET"]),
        Route("/away", pages.set, methods=["POST"]),
    ]


class AwayPage:
    """The page of the absence of its reader."""

    def __init__(self, parts: Services) -> None:
        self._parts = parts

    async def show(self, request: Request) -> Response:
        """Show the absence of the person, and those of people whose substitute they are."""
        return await self._page(request)

    async def set(self, request: Request) -> Response:
        """Set the absence, by whole days in UTC, or end it."""
        form = await read_form(request)
        said = {name: str(form.get(name, "")).strip() for name in ("from", "until", "to")}
        try:
            away = None
            if form.get("do") != "end":
                days = [date.fromisoformat(said[name]) for name in ("from", "until")]
                first, last = (datetime.combine(day, time(), UTC) for day in days)
                away = {"from": first, "until": last + timedelta(days=1), "to": said["to"]}
            await self._parts.set_absence(person_of(request), away)
        except (ValueError, OverflowError):
            return await self._page(request, 422, "Enter both days, as 2026-03-31.", said)
        except HoldfastError as error:
            status = 503 if error.exit_code == UNREACHABLE else 422
            return await self._page(request, status, as_sentence(clean(str(error))), said)
        return RedirectResponse("/away", 303)

    async def _page(
        self,
        request: Request,
        status: int = 200,
        problem: str = "",
        said: dict[str, str] | None = None,
    ) -> Response:
        person, now = person_of(request), datetime.now(UTC)
        known = await self._parts.client.absences.read()
        times = [(one, one.away) for one in known if one.away and one.away.until > now]
        own = [one for one, _ in times if is_same_person(one.person, person.name)]
        stands_in = [one for one, away in times if is_same_person(away.to, person.name)]
        shown = said or {"from": now.date().isoformat(), "until": "", "to": ""}
        values = {"own": own, "stands_in": stands_in, "said": shown, "problem": problem}
        return page(request, "away.html", status, **values)
