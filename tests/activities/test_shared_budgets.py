"""Budgets that runs share: windows, reservations, settlements, and what is lost with a worker."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import pytest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from holdfast.activities import budget_account
from holdfast.activities.budget_account import BudgetError
from holdfast.activities.shared_budgets import Reserved, SharedBudgets, window_at
from holdfast.schemas.base import json_size
from holdfast.schemas.internal import shared_budgets as internal
from holdfast.schemas.internal.shared_budgets import BudgetScopes, BudgetUpdate, Reservation
from holdfast.schemas.internal.solution import NO_USAGE, OverBudget, Usage
from holdfast.schemas.settings.budgets import SharedBudget
from holdfast.schemas.settings.endpoints import Price
from holdfast.workflows.engine.budget.shared_budget import BudgetCount
from tests.support.eventually import eventually

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
PRICE = Price(input=1, output=1, currency="EUR")


def budget(**fields: Any) -> SharedBudget:
    return SharedBudget.model_validate(
        {"name": "desk", "per": "all", "window": "day", **fields}, by_name=True
    )


class BudgetServer:
    """Budgets as Temporal would keep them, by workflow id, and the Actions that they take."""

    def __init__(self) -> None:
        self.counts: dict[str, BudgetCount] = {}
        self.actions: Counter[str] = Counter()
        self.loses: Callable[[], bool] = lambda: False

    async def execute_update_with_start_workflow(
        self, _: str, update: Any, *, start_workflow_operation: Any, **__: Any
    ) -> Any:
        start = start_workflow_operation._start_workflow_input
        await asyncio.sleep(0)
        if start.id not in self.counts:
            self.actions["start"] += 1
            self.counts[start.id] = BudgetCount.read(start.args[0])
        self.actions["update"] += 1
        if self.loses():
            raise RPCError("lost", RPCStatusCode.UNAVAILABLE, b"")
        receipt = self.counts[start.id].apply(BudgetUpdate.read(update), NOON)
        if self.loses():
            raise RPCError("the reply is lost", RPCStatusCode.UNAVAILABLE, b"")
        return receipt.to_json()

    def get_workflow_handle(self, id: str) -> Any:
        async def signal(_: str, update: Any, **__: Any) -> None:
            if id not in self.counts:
                raise RPCError("closed", RPCStatusCode.NOT_FOUND, b"")
            if self.loses():
                raise RPCError("lost", RPCStatusCode.UNAVAILABLE, b"")
            self.actions["signal"] += 1
            self.counts[id].settle(BudgetUpdate.read(update).settle)

        return SimpleNamespace(signal=signal)

    @property
    def tokens(self) -> int:
        """All that is counted."""
        return sum(each.tokens + each.open_tokens for each in self.counts.values())

    def worker(self, *budgets: SharedBudget, now: datetime = NOON) -> SharedBudgets:
        return SharedBudgets(cast(Client, self), "queue", lambda: budgets, lambda: now)


def attempt(key: str, tokens: int = 100, **more: Any) -> Reservation:
    return Reservation(key=key, run=key.split("/")[0], tokens=tokens, **more)


async def reserved(worker: SharedBudgets, key: str, **more: Any) -> Reserved:
    scopes = more.pop("scopes", BudgetScopes())
    found = await worker.reserve(scopes, attempt(key, **more), PRICE)
    assert isinstance(found, Reserved), found
    return found


async def refused(worker: SharedBudgets, key: str, **more: Any) -> list[OverBudget]:
    scopes = more.pop("scopes", BudgetScopes())
    found = await worker.reserve(scopes, attempt(key, **more), PRICE)
    assert isinstance(found, list), found
    return found


async def count_call(worker: SharedBudgets, key: str, tool: str = "pay") -> str | None:
    return await worker.reserve_call({"tool": tool, "key": key, "scopes": {}})


def used(tokens: int) -> Usage:
    return Usage(input_tokens=tokens, output_tokens=0, cost=0.0)


# Windows.


@pytest.mark.parametrize(
    ("window", "zone", "now", "name", "hours"),
    [
        ("day", "UTC", "2026-03-01T23:59:59+00:00", "2026-03-01", 1 / 3600),
        ("day", "UTC", "2026-03-02T00:00:00+00:00", "2026-03-02", 24),
        # One moment is of two days in two zones.
        ("day", "Europe/Berlin", "2026-03-01T23:30:00+00:00", "2026-03-02", 23.5),
        ("day", "America/New_York", "2026-03-01T23:30:00+00:00", "2026-03-01", 5.5),
        # The days on which clocks change have 23 and 25 hours.
        ("day", "Europe/Berlin", "2026-03-28T23:00:00+00:00", "2026-03-29", 23),
        ("day", "Europe/Berlin", "2026-10-24T22:00:00+00:00", "2026-10-25", 25),
        # An hour that is there twice is of one day.
        ("day", "Europe/Berlin", "2026-10-25T01:30:00+00:00", "2026-10-25", 21.5),
        ("week", "UTC", "2026-01-01T12:00:00+00:00", "2026-W01", 84),
        ("week", "UTC", "2027-01-03T12:00:00+00:00", "2026-W53", 12),
        ("month", "UTC", "2026-12-31T23:00:00+00:00", "2026-12", 1),
        ("month", "Europe/Berlin", "2026-12-31T23:00:00+00:00", "2027-01", 744),
    ],
)
def test_a_window_begins_at_midnight_by_the_clocks_of_its_zone(
    window: str, zone: str, now: str, name: str, hours: float
) -> None:
    at = datetime.fromisoformat(now)
    found, ends_at = window_at(budget(window=window, zone=zone, max_tokens=1), at)
    assert found == name
    assert (ends_at - at).total_seconds() / 3600 == pytest.approx(hours)


async def test_a_request_after_midnight_has_a_budget_of_its_own() -> None:
    server, own = BudgetServer(), budget(max_tokens=100, zone="Europe/Berlin")
    before = server.worker(own, now=datetime(2026, 3, 1, 22, 59, tzinfo=UTC))
    await reserved(before, "a")
    await refused(before, "b")
    await reserved(server.worker(own, now=datetime(2026, 3, 1, 23, 0, tzinfo=UTC)), "c")
    assert sorted(server.counts) == [
        "holdfast-budget/desk/all/2026-03-01",
        "holdfast-budget/desk/all/2026-03-02",
    ]


# Counting.


async def test_what_is_reserved_counts_until_it_is_settled() -> None:
    server = BudgetServer()
    worker = server.worker(budget(max_tokens=250))
    first, _ = await asyncio.gather(reserved(worker, "a"), reserved(worker, "b"))
    [over] = await refused(worker, "c")
    assert (over.limit, over.used, over.most, over.scope) == ("maxTokens", 200, 250, "all")

    first.settle(used(50))
    await reserved(worker, "c")

    assert server.tokens == 250


async def test_a_request_is_refused_by_one_budget_and_counts_in_none() -> None:
    server = BudgetServer()
    worker = server.worker(budget(max_tokens=1_000), budget(name="small", max_tokens=50))
    [over] = await refused(worker, "a")
    assert over.name == "small"

    await worker.close()

    assert server.tokens == 0


async def test_costs_are_reserved_by_the_price_and_settled_by_the_usage() -> None:
    server = BudgetServer()
    worker = server.worker(budget(max_cost=0.3, currency="EUR", reserve=100_000))
    for key in ("a", "b", "c"):
        (await reserved(worker, key)).settle(Usage(input_tokens=1, output_tokens=0, cost=0.1))

    [over] = await refused(worker, "d")

    assert (over.limit, over.used) == ("maxCost", 0.3)


@pytest.mark.parametrize("price", [None, Price(input=1, output=1, currency="USD")])
async def test_a_cost_that_no_price_gives_is_refused_before_the_request(price: Any) -> None:
    worker = BudgetServer().worker(budget(max_cost=1, currency="EUR"))
    with pytest.raises(BudgetError, match="the endpoint has no price in EUR") as refusal:
        await worker.reserve(BudgetScopes(), attempt("a"), price)
    assert refusal.value.is_final


async def test_runs_and_calls_count_once() -> None:
    server = BudgetServer()
    worker = server.worker(budget(max_runs=2, max_calls={"pay": 2}))
    for key in ("a/1", "a/2", "b/1"):
        await reserved(worker, key)
    assert [each.limit for each in await refused(worker, "c/1")] == ["maxRuns"]
    # As runs and single calls count them: no call is one more run.
    for key in ("a/t1c1", "a/t1c1", "alone"):
        assert await count_call(worker, key) is None
    over = "desk (maxCalls.pay: 2 of 2, all)"
    assert await count_call(worker, "b/t1c1") == over
    # Another tool is limited by none.
    assert await count_call(worker, "b/t1c2", "look") is None


async def test_the_calls_of_long_workflow_ids_fit_into_a_count() -> None:
    server = BudgetServer()
    worker = server.worker(budget(max_calls={"pay": 2_000}))
    ids = [f"{n:x<1000}" for n in range(2_000)]
    assert set(await asyncio.gather(*(count_call(worker, f"{id}/r/t1c1") for id in ids))) == {None}
    [count] = server.counts.values()
    assert count.calls == {"pay": 2_000}
    assert json_size(count.to_json()) < 200_000


async def test_scopes_are_counted_apart_and_those_without_a_team_together() -> None:
    server = BudgetServer()
    worker = server.worker(budget(per="team", max_tokens=100))
    await reserved(worker, "a", scopes=BudgetScopes(team="support"))
    await reserved(worker, "b")
    assert [each.scope for each in await refused(worker, "c")] == ["unassigned"]


async def test_another_thread_reads_shares_while_scopes_are_added() -> None:
    worker, have_been_added = BudgetServer().worker(budget(per="team", max_tokens=100)), Event()

    def read() -> dict[tuple[str, str], float]:
        while not have_been_added.is_set():
            worker.shares()
        return worker.shares()

    reading = asyncio.create_task(asyncio.to_thread(read))
    for n in range(500):
        await reserved(worker, str(n), scopes=BudgetScopes(team=str(n)))
    have_been_added.set()
    assert await reading == {("desk", "maxTokens"): 1.0}


async def test_an_exempt_request_counts_and_is_never_refused() -> None:
    server = BudgetServer()
    worker = server.worker(budget(max_tokens=100))
    await reserved(worker, "a")
    await reserved(worker, "b", scopes=BudgetScopes(exempt=["desk"]))
    assert server.tokens == 200


async def test_a_window_that_another_zone_ends_later_is_counted_until_then() -> None:
    """Its workflow's id is refused once it has ended."""
    server, files = BudgetServer(), [[budget(max_tokens=300, zone="Europe/Berlin")]]
    worker = SharedBudgets(cast(Client, server), "queue", lambda: files[-1], lambda: NOON)
    await reserved(worker, "Berlin")
    for zone in ("America/Los_Angeles", "Asia/Tokyo"):
        files.append([budget(max_tokens=300, zone=zone)])
        await reserved(worker, zone)
        [count] = server.counts.values()
        assert count.ends_at == datetime(2026, 3, 2, 8, tzinfo=UTC)


async def test_a_limit_that_is_nearly_reached_is_noted_once() -> None:
    server = BudgetServer()
    worker = server.worker(budget(max_tokens=250, warn_at=0.8))
    notices = [[*(await reserved(worker, key)).settle(used(100))] for key in ("a", "b")]
    assert notices == [[], ["the budget desk of all is nearly used up: maxTokens"]]
    # And again, once the limit was raised.
    raised = server.worker(budget(max_tokens=500, warn_at=0.8))
    notices = [[*(await reserved(raised, key)).settle(used(100))] for key in ("c", "d", "e")]
    assert notices == [[], ["the budget desk of all is nearly used up: maxTokens"], []]


# What is repeated and what is lost.


async def test_what_is_repeated_counts_once() -> None:
    server = BudgetServer()
    one, two = server.worker(budget(max_tokens=250)), server.worker(budget(max_tokens=250))
    found = [await reserved(worker, "a") for worker in (one, two)]
    assert server.tokens == 100
    for worker, each in zip((one, two), found, strict=True):
        each.settle(used(40))
        await worker.close()
    assert server.tokens == 40


async def test_an_attempt_whose_end_is_unknown_counts_as_it_reserved_and_is_estimated() -> None:
    server = BudgetServer()
    worker = server.worker(budget(max_tokens=1_000))
    (await reserved(worker, "a")).settle(Usage())
    await reserved(worker, "b")  # its worker is killed
    (await reserved(worker, "c", earlier=["b"])).settle(used(10))
    await worker.close()

    [count] = server.counts.values()
    [use] = count.view(NOON).uses

    assert (use.used, use.reserved, use.estimated) == (210, 100, 200)


async def test_a_budget_that_does_not_answer_lets_no_request_pass() -> None:
    server = BudgetServer()
    worker = server.worker(budget(max_tokens=100))
    server.loses = lambda: True
    with pytest.raises(BudgetError, match="does not answer"):
        await reserved(worker, "a")
    server.loses = lambda: False
    await reserved(worker, "b")


# Leases.


async def busy(worker: SharedBudgets, **more: Any) -> None:
    """Make as many requests as let the next ones spend of a lease, and use a tenth of each."""
    for n in range(budget_account.BUSY):
        (await reserved(worker, f"busy/{n}", **more)).settle(used(10))


async def test_a_busy_scope_leases_and_few_requests_cost_an_action() -> None:
    server = BudgetServer()
    worker = server.worker(budget(max_tokens=100_000))
    for n in range(200):
        (await reserved(worker, f"a/{n}")).settle(used(90))
    assert server.actions["update"] < 0.1 * 200
    await worker.close()
    assert server.tokens == 200 * 90
    [count] = server.counts.values()
    assert not count.open


async def test_what_a_worker_leases_is_lost_to_others_until_it_is_returned() -> None:
    server = BudgetServer()
    one, two = (server.worker(budget(max_tokens=2_000)) for _ in range(2))
    await busy(one)
    # Nine are settled, one is open, and a tenth of the rest is leased.
    assert server.tokens == 90 + 100 + 181
    await refused(two, "b", tokens=1_700)
    await one.close()
    assert server.tokens == 100
    await reserved(two, "c", tokens=1_700)


async def test_a_lease_is_returned_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(internal, "LEASE", timedelta(milliseconds=20))
    monkeypatch.setattr(budget_account, "SOON", timedelta())
    server = BudgetServer()
    worker = server.worker(budget(max_tokens=100_000))
    await asyncio.gather(*(reserved(worker, f"a/{n}") for n in range(budget_account.BUSY)))
    [count] = server.counts.values()
    assert count.open_tokens == 2 * 1_000

    async def returned() -> bool:
        return count.open_tokens == 1_000

    await eventually(returned)


async def test_a_lease_that_is_not_reported_counts_in_whole_and_is_estimated() -> None:
    server = BudgetServer()
    worker = server.worker(budget(max_tokens=100_000))
    await busy(worker)
    spent = await reserved(worker, "b")
    [count] = server.counts.values()

    [now] = count.view(NOON).uses
    [late] = count.view(NOON + timedelta(seconds=61)).uses
    assert (now.used, now.estimated) == (1_190, 0)
    assert (late.used, late.estimated) == (1_190, 1_000)

    spent.settle(used(40))
    await worker.close()
    [reported] = count.view(NOON).uses
    assert (reported.used, reported.reserved, reported.estimated) == (140, 0, 0)


async def test_what_is_on_its_way_when_a_lease_ends_stays_reserved() -> None:
    server = BudgetServer()
    worker = server.worker(budget(max_tokens=100_000))
    await busy(worker)
    running = [await reserved(worker, key) for key in ("b", "c")]
    running[0].settle(used(40))
    await worker.close()
    assert server.tokens == 100 + 40 + 100

    running[1].settle(Usage())
    await worker.close()
    [count] = server.counts.values()
    [use] = count.view(NOON).uses
    assert (use.used, use.reserved, use.estimated) == (240, 0, 100)


async def test_other_limits_end_a_lease() -> None:
    server, limits = BudgetServer(), [budget(max_tokens=100_000)]
    worker = SharedBudgets(cast(Client, server), "queue", lambda: limits, lambda: NOON)
    await busy(worker)
    limits[0] = budget(max_tokens=150)
    [over] = await refused(worker, "b")
    assert (over.used, over.most) == (100, 150)


async def test_a_lease_whose_time_is_over_is_not_spent_by_a_loop_that_was_held_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = BudgetServer()
    worker = server.worker(budget(max_tokens=100_000))
    await busy(worker)
    before, loop = server.actions["update"], asyncio.get_running_loop()
    over = loop.time() + 2 * internal.LEASE.total_seconds()
    monkeypatch.setattr(loop, "time", lambda: over)  # the timer of its end has not fired
    await reserved(worker, "b")
    assert server.actions["update"] == before + 1


async def test_calls_are_counted_one_by_one_beside_a_lease() -> None:
    server = BudgetServer()
    worker = server.worker(budget(max_tokens=100_000, max_calls={"pay": 1}))
    await busy(worker)
    await reserved(worker, "a/t1c1", tokens=0, calls={"pay": 1})
    [over] = await refused(worker, "a/t1c2", tokens=0, calls={"pay": 1})
    assert over.limit == "maxCalls.pay"


async def test_a_lease_whose_grant_is_lost_is_returned() -> None:
    server = BudgetServer()
    worker = server.worker(budget(max_tokens=100_000))
    for n in range(budget_account.BUSY - 1):
        (await reserved(worker, f"a/{n}")).settle(used(10))
    lost = iter([False, True])
    server.loses = lambda: next(lost, False)
    with pytest.raises(BudgetError):
        await reserved(worker, "b")
    [count] = server.counts.values()
    assert count.open_tokens > 100
    await worker.close()
    assert (server.tokens, count.open) == (90, {})


@pytest.mark.parametrize("fields", [{"max_runs": 1_000}, {"max_tokens": 950}])
async def test_runs_and_the_last_of_a_budget_are_not_leased(fields: dict[str, Any]) -> None:
    server = BudgetServer()
    worker = server.worker(budget(**fields))
    await busy(worker)
    assert server.tokens == 190  # the last request is not settled yet
    await reserved(worker, "b")
    assert server.actions["update"] == budget_account.BUSY + 1


class BudgetWorkers:
    """Three workers that are killed, with a model that fails and keeps its own bill."""

    def __init__(self, server: BudgetServer, most: int) -> None:
        self.chance, self.server, self.own = random.Random(38), server, budget(max_tokens=most)
        self.workers = [server.worker(self.own) for _ in range(3)]
        self.bill = self.lost = self.answers = 0

    async def run(self, number: int) -> None:
        """Make four requests, each until it is answered or refused."""
        for turn in range(4):
            n = 0
            while not await self._is_over(f"{number}/{turn}/{n}"):
                n += 1

    async def _is_over(self, key: str) -> bool:
        at = self.chance.randrange(3)
        try:
            found = await self.workers[at].reserve(BudgetScopes(), attempt(key), PRICE)
        except BudgetError:
            return False
        if isinstance(found, list):
            return True
        await asyncio.sleep(0)
        return self._answers(at, found)

    def _answers(self, at: int, found: Reserved) -> bool:
        fate, spent = self.chance.random(), self.chance.randrange(20, 100)
        if fate < 0.1:  # killed before or after the answer, with all that is not settled yet
            self.lost += 100
            self.bill += spent * (fate < 0.07)
            self.workers[at] = self.server.worker(self.own)
        elif fate < 0.2:
            found.settle(NO_USAGE)
        else:
            self.bill += spent
            self.answers += 1
            found.settle(used(spent))
        return fate >= 0.2


async def test_the_bill_is_within_what_is_counted_but_for_what_is_open() -> None:
    """A hundred runs; replies are lost too."""
    server = BudgetServer()
    pool = BudgetWorkers(server, most=30_000)
    server.loses = lambda: pool.chance.random() < 0.05
    await asyncio.gather(*map(pool.run, range(100)))
    server.loses = lambda: False
    for each in pool.workers:
        await each.close()

    [count] = server.counts.values()

    assert pool.bill <= server.tokens <= pool.bill + count.open_tokens
    assert server.tokens <= 30_000
    assert pool.answers > 200
    assert count.open_tokens >= pool.lost


# What it costs.


async def test_a_request_costs_an_action_for_each_budget_and_a_run_one_more() -> None:
    server = BudgetServer()
    worker = server.worker(budget(max_tokens=10_000), budget(name="team", per="team", max_runs=9))
    for n in range(10):
        (await reserved(worker, f"a/{n}")).settle(used(10))
    await worker.close()
    assert server.actions == {"start": 2, "update": 20, "signal": 2}


async def test_requests_of_one_moment_share_an_action() -> None:
    server = BudgetServer()
    worker = server.worker(budget(max_tokens=10_000))
    await asyncio.gather(*(reserved(worker, f"{n}/1") for n in range(50)))
    assert server.actions == {"start": 1, "update": 1}


async def test_what_may_be_a_runs_last_request_is_settled_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(budget_account, "SOON", timedelta())
    server = BudgetServer()
    worker = server.worker(budget(max_tokens=10_000))
    (await reserved(worker, "a")).settle(used(10))
    (await reserved(worker, "b")).settle(used(10), is_last=True)
    for _ in range(5):
        await asyncio.sleep(0)
    assert (server.tokens, server.actions["signal"]) == (20, 1)


async def test_a_settlement_that_is_lost_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget_account, "SOON", timedelta())
    monkeypatch.setattr(budget_account, "LATEST", timedelta())
    server = BudgetServer()
    worker = server.worker(budget(max_tokens=10_000))
    last, lost = await reserved(worker, "a"), iter([True])
    server.loses = lambda: next(lost, False)
    last.settle(used(10), is_last=True)

    async def settled() -> bool:
        return server.tokens == 10

    await eventually(settled)


async def test_a_worker_that_stops_settles_and_leaves_no_task() -> None:
    before, server = asyncio.all_tasks(), BudgetServer()
    worker = server.worker(budget(max_tokens=10_000))
    (await reserved(worker, "a")).settle(used(10))
    await worker.close()
    await asyncio.sleep(0)
    assert server.tokens == 10
    assert asyncio.all_tasks() == before
