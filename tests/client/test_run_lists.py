"""Lists of runs, as Temporal has them: filters, and pages (§11, §13)."""

from collections.abc import AsyncIterator, Iterable

import pytest
from temporalio.client import Client

from holdfast.client.errors import HoldfastError
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.run_lists import RunFilter, status_query
from tests.client.crowd import Asks, Crowd, crowd_of


@pytest.fixture
async def crowd(client: Client) -> AsyncIterator[Crowd]:
    async with crowd_of(client) as crowd:
        yield crowd


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
    found = await HoldfastClient(client).list_runs(
        status_query("awaiting_approval") + wanted.terms()
    )
    return sorted(run.id for run in found)


async def test_each_filter_narrows_the_list(client: Client, crowd: Crowd) -> None:
    await crowd.start(
        [
            Asks("a", tools=["pay", "ship.it"]),
            Asks("b", groups=["finance"], principal="bob"),
            Asks("c", groups=["the board", "finance"]),
        ]
    )

    listed = await HoldfastClient(client).list_runs(RunFilter(status="awaiting_approval"))
    everything = sorted(listed, key=lambda run: run.id)

    async def names_of(**wanted: Iterable[str]) -> str:
        where = RunFilter(agent=crowd.agent, **wanted)  # type: ignore[arg-type]
        found = await search(client, where)
        assert [run.id for run in everything if where.matches(run)] == found
        return "".join(id[-1] for id in found)

    assert await names_of() == "abc"
    assert await names_of(tool="ship.it") == "a"
    assert await names_of(principal="bob") == "b"
    assert await names_of(groups=("the board",)) == "c"
    assert await names_of(groups=("*", "the board")) == "ac"
    assert await names_of(id_prefix=f"{crowd.agent}/b") == "b"


async def test_an_impossible_search_is_reported() -> None:
    with pytest.raises(HoldfastError, match="leave out the"):
        RunFilter(tool='a"b').terms()
    with pytest.raises(HoldfastError, match="at most 200 characters"):
        RunFilter(agent="a" * 201).terms()


async def test_page_by_page_everything_is_listed_once_the_latest_started_first(
    client: Client, crowd: Crowd
) -> None:
    await crowd.start(Asks(f"{n}") for n in range(7))
    agents, where = HoldfastClient(client), RunFilter(agent=crowd.agent)
    found, token = await agents.list_page(where, 3)
    sizes = [len(found)]
    while token is not None:
        page, token = await agents.list_page(where, 3, token)
        found, sizes = found + page, [*sizes, len(page)]
    assert sizes == [3, 3, 1]
    assert {run.id for run in found} == {crowd.id(f"{n}") for n in range(7)}
    started = [run.started for run in found]
    assert started == sorted(started, reverse=True)
