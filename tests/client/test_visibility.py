"""What waits, in order and page by page, from lists that cannot be put in order (§11, §13)."""

import math
from collections.abc import AsyncIterator, Iterable
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from temporalio.client import Client

from holdfast.client import visibility
from holdfast.client.errors import HoldfastError
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.run_lists import RunFilter, RunListing, status_query
from holdfast.client.visibility import (
    EXPIRING,
    NEWEST,
    STARTED,
    ListOrder,
    Place,
    first_runs,
)
from tests.client.crowd import Asks, Crowd, crowd_of

# Some every few minutes, some in a heap, some of one moment, some long ago.
AGOS = [
    *(timedelta(minutes=7 * n) for n in range(20)),
    *(timedelta(milliseconds=n) for n in range(20)),
    *[timedelta(hours=2)] * 20,
    *(timedelta(days=40 * n, microseconds=n) for n in range(1, 10)),
]


@pytest.fixture
async def crowd(client: Client) -> AsyncIterator[Crowd]:
    async with crowd_of(client) as crowd:
        yield crowd


@pytest.fixture(scope="module")
async def seventy(client: Client) -> AsyncIterator[Crowd]:
    async with crowd_of(client) as crowd:
        await crowd.start(
            Asks(f"{n:02}", ago, timedelta(days=500) - 2 * ago) for n, ago in enumerate(AGOS)
        )
        yield crowd


async def pages(crowd: Crowd, order: ListOrder, size: int) -> list[RunListing]:
    query = status_query("awaiting_approval") + RunFilter(agent=crowd.agent).terms()
    found: list[RunListing] = []
    after: Place | None = None
    while page := await first_runs(HoldfastClient(crowd.client), query, order, size, after):
        found += page
        time = order.time(page[-1])
        assert time is not None
        after = (time, page[-1].id)
    return found


@pytest.mark.parametrize(
    "order", [NEWEST, EXPIRING, STARTED], ids=["newest", "expiring", "started"]
)
async def test_page_by_page_everything_comes_once_and_in_order(
    seventy: Crowd, order: ListOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visibility, "_PLENTY", 2)  # so that windows are looked for
    query = status_query("awaiting_approval") + RunFilter(agent=seventy.agent).terms()
    everything = await HoldfastClient(seventy.client).list_runs(query)
    assert len(everything) == len(AGOS)
    found = await pages(seventy, order, 4)
    assert found == visibility.sort_runs(everything, order)
    assert len(found) == len(AGOS)


async def test_a_page_is_had_without_reading_the_whole_list(
    seventy: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []

    async def counting(self: HoldfastClient, query: str) -> list[RunListing]:
        found = await listed(self, query)
        read.append(len(found))
        return found

    listed = HoldfastClient.list_runs
    monkeypatch.setattr(HoldfastClient, "list_runs", counting)
    monkeypatch.setattr(visibility, "_PLENTY", 4)
    query = status_query("awaiting_approval") + RunFilter(agent=seventy.agent).terms()
    assert len(await first_runs(HoldfastClient(seventy.client), query, NEWEST, 2)) == 2
    assert read[0] <= 8


@given(seconds=st.lists(st.floats(-1e6, 1e9), min_size=100, max_size=400), least=st.integers(1, 40))
async def test_however_they_lie_a_narrow_window_is_found_soon(
    seconds: list[float], least: int
) -> None:
    plenty, looks = 2 * least, 0

    async def count(edge: float) -> int:
        nonlocal looks
        looks += 1
        assert looks <= 60
        return sum(second <= edge for second in seconds)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(visibility, "_MAX_LOOKS", 100)
        edge = await visibility.find_edge(count, least, plenty, begun=False)
    within = sum(second <= (edge or math.inf) for second in seconds)
    assert within >= least
    if within > plenty and edge is not None:
        assert sum(second <= edge - 0.01 for second in seconds) < least


# Texts that are no part of a query, but what is searched for; the store of the development server
# does not find all of them.
STRANGE = {"it's": 1, "%": 1, "a` OR `1`=`1": 1, "♡": 1}
STRANGE |= {'" OR "1"="1': 0, "a\\": 0, "' OR '1'='1": 0}


@pytest.mark.parametrize("text", STRANGE)
async def test_what_is_searched_for_stays_a_text(client: Client, crowd: Crowd, text: str) -> None:
    await crowd.start([Asks("one", principal=text), Asks("two", principal="ada")])
    found = await search(client, RunFilter(agent=crowd.agent, principal=text))
    assert found == [crowd.id("one")] * STRANGE[text]


async def search(client: Client, wanted: RunFilter) -> list[str]:
    return sorted(
        run.id
        for run in await HoldfastClient(client).list_runs(
            status_query("awaiting_approval") + wanted.terms()
        )
    )


async def test_each_filter_narrows_the_list(client: Client, crowd: Crowd) -> None:
    await crowd.start(
        [
            Asks("a", tools=["pay", "ship.it"]),
            Asks("b", groups=["finance"], principal="bob"),
            Asks("c", groups=["the board", "finance"]),
        ]
    )

    async def names_of(**wanted: Iterable[str]) -> str:
        found = await search(client, RunFilter(agent=crowd.agent, **wanted))  # type: ignore[arg-type]
        return "".join(id[-1] for id in found)

    assert await names_of() == "abc"
    assert await names_of(tool="ship.it") == "a"
    assert await names_of(principal="bob") == "b"
    assert await names_of(groups=("the board",)) == "c"
    assert await names_of(groups=("*", "the board")) == "ac"
    assert await names_of(id_prefix=f"{crowd.agent}/b") == "b"


async def test_what_cannot_be_searched_for_is_said() -> None:
    with pytest.raises(HoldfastError, match="leave out the"):
        RunFilter(tool='a"b').terms()
    with pytest.raises(HoldfastError, match="at most 200 characters"):
        RunFilter(agent="a" * 201).terms()


async def test_how_many_wait_and_since_when_is_had_without_a_list(
    client: Client, crowd: Crowd
) -> None:
    await crowd.start([Asks("oldest", timedelta(days=3_650)), Asks("newer")])
    count, oldest = await visibility.waiting_count_and_oldest(HoldfastClient(client))
    assert count >= 2
    assert oldest is not None
    assert abs(crowd.now - timedelta(days=3_650) - oldest) < timedelta(seconds=1)
