"""Long lists of runs in order, page by page, without reading them whole.

Not every store of Temporal's lists can put them in order, but each can count what lies within a
window of time. So the narrowest window is looked for that has enough for a page; that one is read,
and put in order here. A page goes on where the one before it ended: at a moment, and a run's id.

    cursor ├── page ──┤ edge                                            the rest
    ───────●●●●●●●●●●●●──────●●●●●●●●●●●●●●●●●●●●●●●●●●●●●●●──────●●●●●●─────────►
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from temporalio.client import Client

from holdfast.client.run_lists import (
    MissingAttributesError,
    RunListing,
    count_runs,
    list_runs,
    status_query,
)
from holdfast.schemas import names

# Up to so many times what is wanted is read: to look for a narrower window would take longer.
_PLENTY: Final = 8
_FIRST_SECONDS: Final = 3_600.0
_WIDER: Final = 8
_MAX_SECONDS: Final = _FIRST_SECONDS * _WIDER**7
_NARROWEST_SECONDS: Final = 0.002
_LEAST_SHARE: Final = 0.02
_MAX_LOOKS: Final = 40
_MAX_ROUNDS: Final = 12
# What a store may round a time by.
_ROUNDED: Final = timedelta(milliseconds=2)

Place = tuple[datetime, str]


@dataclass(frozen=True)
class ListOrder:
    """By which time, and whether its latest comes first."""

    attribute: str
    time: Callable[[RunListing], datetime | None]
    latest_first: bool = False

    @property
    def sign(self) -> int:
        """In which direction of time it goes on."""
        return -1 if self.latest_first else 1

    def key(self, place: Place) -> tuple[float, str]:
        """What is sorted by."""
        return self.sign * place[0].timestamp(), place[1]


NEWEST: Final = ListOrder(names.PENDING_SINCE, lambda run: run.since, latest_first=True)
OLDEST: Final = ListOrder(names.PENDING_SINCE, lambda run: run.since)
EXPIRING: Final = ListOrder(names.PENDING_UNTIL, lambda run: run.until)
STARTED: Final = ListOrder("StartTime", lambda run: run.started, latest_first=True)


async def waiting_count_and_oldest(client: Client) -> tuple[int, datetime | None]:
    """Count the runs with pending approvals, and return when the oldest was requested.

    The time is None where there is none, or where the namespace does not index it.

    Raises:
        CommandError: Temporal does not answer, or does not index the status of runs.
    """
    query = status_query("awaiting_approval")
    count = await count_runs(client, query)
    try:
        oldest = await first_runs(client, query, OLDEST, 1)
    except MissingAttributesError:
        return count, None
    return count, oldest[0].since if oldest else None


async def first_runs(
    client: Client, query: str, order: ListOrder, count: int, after: Place | None = None
) -> list[RunListing]:
    """Return the first runs of a query, after a place of the list.

    They are fewer than `count` where there are no more. Runs without the time are not included.

    Raises:
        MissingAttributesError: the namespace does not index the time.
        CommandError: Temporal does not answer.
    """
    windows, least = _Windows(client, query, order, after), count
    found: list[RunListing] = []
    for _ in range(_MAX_ROUNDS):
        edge = await windows.edge(least)
        found = sort_runs(await list_runs(client, windows.within(edge)), order, after)
        if edge is None or len(found) >= count:
            break
        least *= 2  # there are some of the cursor's own moment, which stood on the page before
    return found[:count]


def sort_runs(
    runs: list[RunListing], order: ListOrder, after: Place | None = None
) -> list[RunListing]:
    """The runs that stand behind a place, in order."""
    begin = None if after is None else order.key(after)
    keyed = [(order.key((at, run.id)), run) for run in runs if (at := order.time(run)) is not None]
    keyed.sort(key=lambda pair: pair[0])
    return [run for key, run in keyed if begin is None or key > begin]


class _Windows:
    """Windows of time from a place on, as terms of a query, and how many runs are within them.

    An edge is in seconds from the place, or from now where there is none; `None` is no edge.
    """

    def __init__(self, client: Client, query: str, order: ListOrder, after: Place | None) -> None:
        self._client, self._order = client, order
        self._begun = after is not None
        self._origin = datetime.now(UTC) if after is None else after[0]
        self._query = f"{query} AND {order.attribute} IS NOT NULL"
        if after is not None:
            comparison = "<=" if order.latest_first else ">="
            self._query += self._term(comparison, after[0] - order.sign * _ROUNDED)

    def within(self, edge: float | None) -> str:
        """The query of what lies before an edge."""
        if edge is None:
            return self._query
        comparison = ">=" if self._order.latest_first else "<="
        moment = self._origin + self._order.sign * timedelta(seconds=edge)
        return self._query + self._term(comparison, moment)

    async def edge(self, least: int) -> float | None:
        """The edge of a window that has so many, and not many times more."""
        most = least * _PLENTY
        rest = await self._count(None)
        if rest <= most:
            return None
        search = _Search(least, most, rest, begun=self._begun)
        for _ in range(_MAX_LOOKS):
            if search.at is None:
                break
            search.saw(await self._count(search.at))
        return search.edge

    def _term(self, comparison: str, moment: datetime) -> str:
        return f' AND {self._order.attribute} {comparison} "{moment.isoformat()}"'

    async def _count(self, edge: float | None) -> int:
        return await count_runs(self._client, self.within(edge))


class _Search:
    """Search an edge with at least `least` runs before it, and if possible at most `most`.

    `at` is the next edge to try, `edge` the nearest one that is known to have enough. Where a list
    begins at a place, nothing is before that: it is known to be too near.
    """

    def __init__(self, least: int, most: int, rest: int, *, begun: bool) -> None:
        self._least, self._most = least, most
        self._near: float | None = 0.0 if begun else None
        self._low, self._high, self._halves = 0, rest, True
        self.edge: float | None = None
        self.at: float | None = _FIRST_SECONDS

    def saw(self, count: int) -> None:
        """Take down how many are before `at`, and say where to look next."""
        at = self.at
        assert at is not None  # it was looked at
        if count < self._least:
            self._near, self._low = at, count
        else:
            self.edge, self._high = at, count
        if self._least <= count <= self._most:
            self.at = None
        elif self.edge is None:
            self.at = at * _WIDER if at < _MAX_SECONDS else None
        elif self._near is None:
            self.at = _further_back(self.edge)
        else:
            self.at = self._between(self._near, self.edge)

    def _between(self, near: float, far: float) -> float | None:
        """Return the edge for twice the number of runs, if they are distributed evenly.

        Every other time it is the middle, since they may be distributed unevenly.
        """
        if far - near <= _NARROWEST_SECONDS:
            return None  # so many are of one moment
        self._halves = not self._halves
        share = (2 * self._least - self._low) / (self._high - self._low)
        share = 0.5 if self._halves else min(max(share, _LEAST_SHARE), 1 - _LEAST_SHARE)
        return near + (far - near) * share


def _further_back(edge: float) -> float | None:
    """Return an edge before the start of the list, which few runs reach."""
    back = 0.0 if edge > 0 else min(edge * _WIDER, -_FIRST_SECONDS)
    return back if back >= -_MAX_SECONDS else None
