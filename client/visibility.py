"""Long lists of runs in order, page by page, without reading them in full.

Not every store of Temporal's lists can sort them, but each can count the runs within a window of
time. So the narrowest window with enough runs for a page is searched for, read, and sorted here. A
page continues after the last run of the page before: its time, and its id.

    cursor ├── page ──┤ edge                                            the rest
    ───────●●●●●●●●●●●●──────●●●●●●●●●●●●●●●●●●●●●●●●●●●●●●●──────●●●●●●─────────►
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.run_lists import MissingAttributesError, RunListing, status_query
from holdfast.schemas import names

# Up to this multiple of the page is read: the search for a narrower window would take longer.
_PLENTY: Final = 8
_FIRST_SECONDS: Final = 3_600.0
_WIDER: Final = 8
_MAX_SECONDS: Final = _FIRST_SECONDS * _WIDER**7
_NARROWEST_SECONDS: Final = 0.002
_MAX_LOOKS: Final = 40
_MAX_ROUNDS: Final = 12
# The error of a store that rounds a time.
_ROUNDED: Final = timedelta(milliseconds=2)

Place = tuple[datetime, str]


@dataclass(frozen=True)
class ListOrder:
    """The time to sort by, and whether the latest comes first."""

    attribute: str
    time: Callable[[RunListing], datetime | None]
    latest_first: bool = False

    @property
    def sign(self) -> int:
        """Return the direction of time in which the list continues."""
        return -1 if self.latest_first else 1

    def key(self, place: Place) -> tuple[float, str]:
        """Return the sort key."""
        return self.sign * place[0].timestamp(), place[1]


NEWEST: Final = ListOrder(names.PENDING_SINCE, lambda run: run.since, latest_first=True)
OLDEST: Final = ListOrder(names.PENDING_SINCE, lambda run: run.since)
EXPIRING: Final = ListOrder(names.PENDING_UNTIL, lambda run: run.until)
STARTED: Final = ListOrder("StartTime", lambda run: run.started, latest_first=True)


async def waiting_count_and_oldest(client: HoldfastClient) -> tuple[int, datetime | None]:
    """Count the runs with pending approvals, and return when the oldest was requested.

    The time is None where there is none, or where the namespace does not index it.

    Raises:
        HoldfastError: Temporal does not answer, or does not index the status of runs.
    """
    query = status_query("awaiting_approval")
    count = await client.count_runs(query)
    try:
        oldest = await first_runs(client, query, OLDEST, 1)
    except MissingAttributesError:
        return count, None
    return count, oldest[0].since if oldest else None


async def first_runs(
    client: HoldfastClient, query: str, order: ListOrder, count: int, after: Place | None = None
) -> list[RunListing]:
    """Return the first runs of a query, after a place of the list.

    The result has fewer than `count` runs at the end of the list. Runs without the time are not
    included.

    Raises:
        MissingAttributesError: the namespace does not index the time.
        HoldfastError: Temporal does not answer.
    """
    windows, least = _Windows(client, query, order, after), count
    found: list[RunListing] = []
    for _ in range(_MAX_ROUNDS):
        edge = await windows.edge(least)
        found = sort_runs(await client.list_runs(windows.within(edge)), order, after)
        if edge is None or len(found) >= count:
            break
        least *= 2  # some have the time of the cursor, and were on the page before
    return found[:count]


def sort_runs(
    runs: list[RunListing], order: ListOrder, after: Place | None = None
) -> list[RunListing]:
    """Return the runs after a place, in order."""
    begin = None if after is None else order.key(after)
    keyed = [(order.key((at, run.id)), run) for run in runs if (at := order.time(run)) is not None]
    keyed.sort(key=lambda pair: pair[0])
    return [run for key, run in keyed if begin is None or key > begin]


class _Windows:
    """Windows of time from a place on, as terms of a query, and the number of runs in them.

    An edge is in seconds from the place, or from now without a place; `None` is no edge.
    """

    def __init__(
        self, client: HoldfastClient, query: str, order: ListOrder, after: Place | None
    ) -> None:
        self._client, self._order = client, order
        self._begun = after is not None
        self._origin = datetime.now(UTC) if after is None else after[0]
        self._query = f"{query} AND {order.attribute} IS NOT NULL"
        if after is not None:
            comparison = "<=" if order.latest_first else ">="
            self._query += self._term(comparison, after[0] - order.sign * _ROUNDED)

    def within(self, edge: float | None) -> str:
        """Return the query of the runs before an edge."""
        if edge is None:
            return self._query
        comparison = ">=" if self._order.latest_first else "<="
        moment = self._origin + self._order.sign * timedelta(seconds=edge)
        return self._query + self._term(comparison, moment)

    async def edge(self, least: int) -> float | None:
        """Return the edge of a window with at least this many runs, and not many times more."""
        most = least * _PLENTY
        if await self._client.count_runs(self.within(None)) <= most:
            return None

        async def count(edge: float) -> int:
            return await self._client.count_runs(self.within(edge))

        return await find_edge(count, least, most, begun=self._begun)

    def _term(self, comparison: str, moment: datetime) -> str:
        return f' AND {self._order.attribute} {comparison} "{moment.isoformat()}"'


async def find_edge(
    count: Callable[[float], Awaitable[int]], least: int, most: int, *, begun: bool
) -> float | None:
    """Return an edge with at least `least` runs before it, and if possible at most `most`.

    `count` returns the number of runs before an edge. Of a list that starts at a place, no run is
    before that place. None if there are not enough runs before the last edge.
    """
    near = 0.0 if begun else None
    edge, at = None, _FIRST_SECONDS
    for _ in range(_MAX_LOOKS):
        found = await count(at)
        if found < least:
            near = at
        else:
            edge = at
        if least <= found <= most:
            break
        if edge is None:
            if at >= _MAX_SECONDS:
                break
            at *= _WIDER
        elif near is None:
            # An edge before the start of the list, which few runs reach.
            at = 0.0 if edge > 0 else min(edge * _WIDER, -_FIRST_SECONDS)
            if at < -_MAX_SECONDS:
                break
        elif edge - near <= _NARROWEST_SECONDS:
            break  # all of the runs have the same time
        else:
            at = (near + edge) / (_WIDER if near == 0 else 2)
    return edge
