"""The home page (`/home`): what is pending, what runs, what fails, and what it costs."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from holdfast.client.errors import HoldfastError
from holdfast.runtime.text_safety import as_sentence, clean
from holdfast.schemas.names import ErrorCode
from holdfast.web.auth.sessions import person_of
from holdfast.web.home.figures import EndedRun, Figures
from holdfast.web.listing.page_query import AGES, ListView, find_page
from holdfast.web.page_text import STATUS_LABELS
from holdfast.web.pages import page
from holdfast.web.services import Services

# A page is sent within this time; the figures that arrive later are on the next one.
ANSWER_SECONDS: Final = 3.0
_LATE: Final = "The figures of runs are still being read. Reload the page in a moment."
_NO_FAILURES: Final = ("", "completed", "stopped", "cancelled", ErrorCode.DENIED)


def routes(parts: Services) -> list[BaseRoute]:
    """Return the route of the home page."""
    return [Route("/home", HomePage(parts).show, methods=["GET"])]


class HomePage:
    """The home page; all people share its figures."""

    def __init__(self, parts: Services) -> None:
        self._parts = parts
        self._figures = Figures(parts.client)

    async def show(self, request: Request) -> Response:
        """Show the figures that can be read in time, and why others cannot."""
        person, permissions = person_of(request), self._parts.permissions
        pending, newest = await self._parts.pending_for(person), ListView()
        views = [(label, replace(newest, age=age)) for age, (label, *_) in AGES.items()]
        ages = [(label, find_page(pending, view, ()).count, view.address) for label, view in views]
        expiring = find_page(pending, newest, ()).expiring
        values: dict[str, Any] = {"problem": "", "lacking": pending.missing_attributes}
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                counts, found = await self._figures.read(permissions.query(person))
            ended = [one for one in found if "read" in permissions.access(person, one.run).rights]
            values |= {"counts": counts, "failures": failures(ended), "costs": costs(ended)}
            values |= {"read": len(ended), "unread": sum(not one.code for one in ended)}
        except TimeoutError:
            values["problem"] = _LATE
        except HoldfastError as error:
            values["problem"] = as_sentence(clean(str(error)))
        ages.append(("expires within the hour", expiring, newest.first_page("expiring").address))
        return page(request, "home/page.html", ages=ages, labels=STATUS_LABELS, **values)


def failures(ended: Iterable[EndedRun]) -> list[tuple[str, int]]:
    """Return the codes of failures, each with its number of runs."""
    return Counter(one.code for one in ended if one.code not in _NO_FAILURES).most_common()


def costs(ended: Iterable[EndedRun]) -> list[tuple[str, float, int, int]]:
    """Return each agent with its cost, and the number of its runs of known and unknown cost."""
    by_agent = defaultdict[str, list[float | None]](list)
    for one in ended:
        # The cost of a delegate is part of that of its parent.
        if one.turns and one.run.agent and one.run.call_of_parent is None:
            by_agent[one.run.agent].append(one.cost)
    known = {agent: [one for one in all_ if one is not None] for agent, all_ in by_agent.items()}
    rows = [(name, sum(of), len(of), len(by_agent[name]) - len(of)) for name, of in known.items()]
    return sorted(rows, key=lambda row: -row[1])
