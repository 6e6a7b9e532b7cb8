"""The page of a person's absence, `/away`: until when, and who is their substitute.

Its person is that of the session, never one of the form: no one sets the absence of another person.
"""

from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from holdfast.client.errors import UNREACHABLE, HoldfastError
from holdfast.schemas.internal.absences import MAX_AWAY
from holdfast.validation.text_safety import is_same_person, normalized_person
from holdfast.web.auth.sessions import person_of
from holdfast.web.http.requests import read_form
from holdfast.web.pages import page, reader_texts
from holdfast.web.services import Services


def routes(parts: Services) -> list[BaseRoute]:
    """Return the routes of the page."""
    pages = AwayPage(parts)
    return [Route("/away", pages.show), Route("/away", pages.set, methods=["POST"])]


class AwayPage:
    """The page of the absence of its reader."""

    def __init__(self, parts: Services) -> None:
        self._parts = parts

    async def set(self, request: Request) -> Response:
        """Set the absence, by whole days in UTC, or end it."""
        form, person, away = await read_form(request), person_of(request), None
        said = {name: str(form.get(name, "")).strip() for name in ("from", "until", "to")}
        if form.get("do") != "end":
            first, end = _midnight(said["from"]), _midnight(said["until"], 1)
            problem, wrong = "", "until"
            if not (first and end):
                problem, wrong = "Enter both days, as 2026-03-31.", "until" if first else "from"
            elif end <= datetime.now(UTC) or not timedelta() < end - first <= MAX_AWAY:
                problem = f"Enter a last day, not past, up to {MAX_AWAY.days} days from the first."
            elif not said["to"] or is_same_person(said["to"], person.name):
                problem, wrong = "Enter the name of another person as your substitute.", "to"
            if problem:
                return await self.show(request, 422, said=said, problem=problem, wrong=wrong)
            away = {"from": first, "until": end, "to": said["to"]}
        try:
            await self._parts.set_absence(person, away)
        except HoldfastError as error:
            status = 503 if error.exit_code == UNREACHABLE else 422
            return await self.show(request, status, said=said, problem=reader_texts(error)[0])
        return RedirectResponse("/away", 303)

    async def show(self, request: Request, status: int = 200, **shown: Any) -> Response:
        """Show the absence of the person, and those of people whose substitute they are."""
        person, now = person_of(request), datetime.now(UTC)
        known = await self._parts.client.absences.read()
        times = [(one, one.away) for one in known if one.away and one.away.until > now]
        name = normalized_person(person.name, with_issuer=True)
        own = [one for one, _ in times if normalized_person(one.person, with_issuer=True) == name]
        stands_in = [one for one, away in times if is_same_person(away.to, person.name)]
        new = {"from": now.date().isoformat(), "until": "", "to": ""}
        values = {"own": own, "stands_in": stands_in, "said": new, "problem": "", "wrong": ""}
        return page(request, "away.html", status, **values | shown)


def _midnight(day: str, later: int = 0) -> datetime | None:
    with suppress(ValueError, OverflowError):
        return datetime.combine(date.fromisoformat(day) + timedelta(later), time(), UTC)
    return None
