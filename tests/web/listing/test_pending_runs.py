"""The list of pending approvals that all viewers share (§13): when it is read, what it shows."""

import asyncio
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from temporalio.client import Client

from holdfast.client import run_lists
from holdfast.client.errors import UNREACHABLE, HoldfastError
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.remote_run import RunStart
from holdfast.client.run import Run
from holdfast.client.run_lists import MissingAttributesError, RunListing
from holdfast.schemas import names
from holdfast.schemas.decision import Decision, PendingApproval, Receipt
from holdfast.schemas.settings.inbox import PermissionRule
from holdfast.web.auth.permissions import Permissions
from holdfast.web.auth.sessions import Person
from holdfast.web.listing import page_query, pending_runs, routes
from holdfast.web.listing.pending_runs import NO_STATUS, NO_TIMES, PendingRuns
from holdfast.web.services import Services
from tests.web.conftest import Clock
from tests.web.listing.test_rows import ANN, AT, run, waiting
from tests.web.listing.test_run_answers import request

EVERY_SECONDS = 5.0


class ListingServer:
    """A server with these runs, and without some search attributes."""

    def __init__(self, runs: list[RunListing]) -> None:
        self.runs = runs
        self.queries: list[str] = []
        self.lacks: set[str] = set()
        self.is_away = False

    async def list(self, query: str, limit: int) -> list[RunListing]:
        self.queries.append(query)
        await asyncio.sleep(0)
        if self.is_away:
            raise HoldfastError("Temporal does not answer", "start it", UNREACHABLE)
        for name in self.lacks:
            if name in query:
                raise MissingAttributesError(name)
        found = self.runs[:limit]
        self.queries += [query] * ((len(found) - (len(found) == limit)) // pending_runs.PAGE_RUNS)
        return found

    async def count(self, query: str) -> int:
        self.queries.append(query)
        return len(self.runs)

    def take_requests(self) -> int:
        """The number of requests since this was last called."""
        found = len(self.queries)
        self.queries.clear()
        return found


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> Callable[..., ListingServer]:
    """Have the server list these runs."""
    monkeypatch.setattr(pending_runs, "EVERY_SECONDS", EVERY_SECONDS)
    monkeypatch.setattr(pending_runs, "monotonic", clock)

    def serve(*runs: RunListing) -> ListingServer:
        lists = ListingServer([*runs])
        monkeypatch.setattr(HoldfastClient, "list_runs", lists.list)
        monkeypatch.setattr(HoldfastClient, "count_runs", lists.count)
        return lists

    return serve


def answer(monkeypatch: pytest.MonkeyPatch, found: dict[str, list[PendingApproval]]) -> None:
    """Have runs return these approvals, and take every decision; each has its id as summary."""

    async def approvals(self: Run) -> list[PendingApproval]:
        return found[self.id]

    async def start_info(self: Run) -> RunStart:
        return RunStart(AT, f"Task of {self.id}")

    async def decide(self: Run, decision: Decision, _: str | None) -> Receipt:
        found[self.id] = [one for one in found[self.id] if one.call_id != decision.call_id]
        return Receipt(call_id=decision.call_id, decision=decision.decision, decided=True)

    monkeypatch.setattr(Run, "start_info", start_info)
    monkeypatch.setattr(Run, "approvals", approvals)
    monkeypatch.setattr(Run, "decide", decide)


async def decide(parts: Services, call_id: str = "t1c1") -> None:
    one = waiting(call_id)
    await parts.decide("a", one, Decision(call_id=call_id, decision="approve", digest=one.digest))


def listed(id: str, **more: Any) -> RunListing:
    return run(id, **{"since": AT, **more})


async def shown(pending: PendingRuns) -> list[str]:
    return [run.id for run in (await pending.read()).runs]


async def test_however_many_look_the_list_is_requested_once_in_five_seconds(
    nowhere: Client, serve: Callable[..., ListingServer], clock: Clock
) -> None:
    lists, pending = serve(listed("a")), PendingRuns(HoldfastClient(nowhere))
    for _ in range(3):
        await asyncio.gather(*(pending.read() for _ in range(100)))
    assert lists.take_requests() == 1
    lists.runs = []
    clock.seconds += EVERY_SECONDS - 0.1
    assert await shown(pending) == ["a"]
    clock.seconds += 0.2
    assert await shown(pending) == []
    assert lists.take_requests() == 1


async def test_a_list_of_several_requests_is_kept_as_many_times_longer(
    nowhere: Client,
    serve: Callable[..., ListingServer],
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pending_runs, "PAGE_RUNS", 2)
    monkeypatch.setattr(run_lists, "MAX_RUNS", 4)
    lists = serve(*(listed(f"{n}") for n in range(3)))
    pending = PendingRuns(HoldfastClient(nowhere))
    assert await shown(pending) == ["0", "1", "2"]
    assert lists.take_requests() == 2
    clock.seconds += 2 * EVERY_SECONDS - 0.1
    await pending.read()
    assert lists.take_requests() == 0
    # Of more than can be listed, the others are counted.
    lists.runs += [listed(f"{n}") for n in range(3, 9)]
    clock.seconds += 0.2
    found = await pending.read()
    assert (len(found.runs), found.count) == (4, 9)
    requests = lists.take_requests()
    clock.seconds += requests * EVERY_SECONDS - 0.1
    await pending.read()
    assert lists.take_requests() == 0


async def test_where_temporal_does_not_answer_all_viewers_learn_it_from_one_request(
    nowhere: Client, serve: Callable[..., ListingServer], clock: Clock
) -> None:
    lists, pending = serve(listed("a")), PendingRuns(HoldfastClient(nowhere))
    lists.is_away = True
    errors = await asyncio.gather(*(pending.read() for _ in range(9)), return_exceptions=True)
    assert {str(error) for error in errors} == {"Temporal does not answer; start it"}
    assert lists.take_requests() == 1
    lists.is_away = False
    clock.seconds += EVERY_SECONDS + 0.1
    assert await shown(pending) == ["a"]


@pytest.mark.parametrize(
    ("lacks", "missing"),
    [
        (names.PENDING_SINCE, NO_TIMES),
        (names.PENDING_FOR, NO_TIMES),
        (names.PENDING_TOOLS, NO_TIMES),
        (names.AGENT_STATUS, NO_STATUS),
    ],
)
async def test_what_a_namespace_lacks_is_known_from_its_answer(
    nowhere: Client, serve: Callable[..., ListingServer], clock: Clock, lacks: str, missing: str
) -> None:
    lists, pending = serve(listed("a")), PendingRuns(HoldfastClient(nowhere))
    lists.lacks = {lacks}
    assert (await pending.read()).missing_attributes == missing
    requests = lists.take_requests()
    clock.seconds += requests * EVERY_SECONDS - 0.1
    await pending.read()
    assert lists.take_requests() == 0


async def test_a_decided_run_is_hidden_at_once_and_its_next_question_is_not(
    nowhere: Client,
    serve: Callable[..., ListingServer],
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lists, parts = serve(listed("a"), listed("b")), Services(HoldfastClient(nowhere))
    found = {"a": [waiting()], "b": [waiting()]}
    answer(monkeypatch, found)
    assert await shown(parts.pending) == ["a", "b"]
    changed = parts.pending.changed
    await decide(parts)
    await asyncio.wait_for(parts.pending.wait_until_due(changed), 120)
    assert changed.is_set()
    found_list = await parts.pending.read()
    assert ([run.id for run in found_list.runs], found_list.count) == (["b"], 1)
    # The list lags behind the run.
    clock.seconds += EVERY_SECONDS + 0.1
    assert await shown(parts.pending) == ["b"]
    found["a"] = [waiting("t2c1")]
    lists.runs[0] = listed("a", since=AT + timedelta(seconds=9))
    clock.seconds += EVERY_SECONDS + 0.1
    assert await shown(parts.pending) == ["a", "b"]


async def test_a_page_shows_a_decision_at_once_and_whatever_else_does_not_answer(
    nowhere: Client, serve: Callable[..., ListingServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = [listed(f"silent-{n}") for n in range(pending_runs.AT_ONCE)]
    serve(listed("a", tools=("pay",)), listed("b"), *silent)
    parts = Services(HoldfastClient(nowhere))
    found = {"a": [waiting()], "b": [waiting()]}
    answer(monkeypatch, found)
    approvals = Run.approvals

    async def held(self: Run) -> Any:
        if self.id.startswith("silent"):
            await asyncio.Event().wait()
        return await approvals(self)

    monkeypatch.setattr(Run, "approvals", held)
    monkeypatch.setattr(routes, "ANSWER_SECONDS", 0.05)
    pages = routes.PendingPages(parts)

    async def text(query: str) -> str:
        return bytes((await pages.show(request(query, ANN))).body).decode()

    assert ">10 runs with pending approvals<" in await text("")
    changed = parts.pending.changed
    await decide(parts)
    await asyncio.wait_for(changed.wait(), 120)
    assert ">9 runs with pending approvals<" in await text("")
    assert "No pending approval matches this filter." in await text("tool=pay")


async def test_a_page_hides_a_run_without_pending_calls_and_begins_with_what_runs_by_itself(
    nowhere: Client, serve: Callable[..., ListingServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was decided elsewhere, and the list lags behind."""
    serve(listed("a"), listed("b"))
    answer(
        monkeypatch,
        {"a": [], "b": [waiting(expiresAt="2999-01-01T00:00:00Z", onTimeout="approve")]},
    )
    pages = routes.PendingPages(Services(HoldfastClient(nowhere)))
    text = bytes((await pages.show(request("", ANN))).body).decode()
    assert ">1 pending approval<" in text
    assert "/waiting/b/t1c1" in text
    assert "<strong>Executed unless denied,</strong> in " in text.partition('class="row')[0]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("q=k-77", ["b"]),  # an argument, which the list of Temporal does not have
        ("q=ADA+pay", ["a", "c"]),
        ("q=broken", ["c"]),
        ("q=pay&principal=bob", ["b"]),
        ("q=hidden", []),
    ],
)
async def test_a_search_finds_names_and_what_is_in_pending_calls(
    nowhere: Client,
    serve: Callable[..., ListingServer],
    monkeypatch: pytest.MonkeyPatch,
    query: str,
    found: list[str],
) -> None:
    """Beyond one page, too; of what a person may not see, nothing is found."""
    monkeypatch.setattr(page_query, "PAGE_RUNS", 2)
    whose = {"a": "ada", "b": "bob", "c": "ada", "d": "eve"}
    serve(*(listed(id, execution=id, principal=of, agent="desk") for id, of in whose.items()))
    arguments: dict[str, Any] = {"b": {"supplier": "K-77"}, "d": {"text": "hidden"}}
    calls = {id: [waiting(arguments=arguments.get(id, {}))] for id in whose}
    calls["c"] = [waiting(reasoning="It arrived broken.")]
    answer(monkeypatch, calls)
    rules = [PermissionRule(may=["read", "decide"], principals=["ada", "bob"])]
    parts = Services(HoldfastClient(nowhere), permissions=Permissions(rules))
    text = bytes((await routes.PendingPages(parts).show(request(query, ANN))).body).decode()
    assert re.findall(r'class="title" href="/waiting/(\w+)/', text) == found
    assert all(f"Task of {id}" in text for id in found)


async def test_the_approvals_for_a_person_are_counted_from_what_was_read(
    nowhere: Client,
    serve: Callable[..., ListingServer],
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lists = serve(listed("a", groups=("finance",)), listed("b", groups=("ops",)))
    parts = Services(HoldfastClient(nowhere))
    assert parts.badge(ANN) == ""
    found = await parts.pending.read()
    both = [waiting(each, approvers=["finance"]) for each in ("t1c1", "t1c2")]
    answer(monkeypatch, {"a": [*both, waiting("t1c3", approvers=["ops"])], "b": []})
    assert parts.badge(ANN) == "1", "the run has not answered"
    found.marks.clear()
    await parts.pending.answers.read(found.runs, 20)
    assert parts.badge(ANN) == "2"
    parts = Services(HoldfastClient(nowhere))
    await parts.pending.read()
    lists.take_requests()
    assert (parts.badge(ANN), parts.badge(Person("ann", may=frozenset({"read"})))) == ("1", "")
    clock.seconds += EVERY_SECONDS + pending_runs.PEEK_SECONDS + 0.1
    assert (parts.badge(ANN), lists.take_requests()) == ("", 0)


async def test_a_run_with_another_pending_call_stays_and_its_viewers_are_notified(
    nowhere: Client, serve: Callable[..., ListingServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(listed("a"))
    parts = Services(HoldfastClient(nowhere))
    answer(monkeypatch, {"a": [waiting(), waiting("t1c2")]})
    before = await parts.pending.read()
    changed = parts.pending.changed
    await decide(parts)
    await asyncio.wait_for(changed.wait(), 120)
    after = await parts.pending.read()
    assert after.runs == before.runs
    assert after.decisions == {"a": 1}
    [left] = (await parts.pending.answers.read(after.runs, 20)).values()
    assert left == [waiting("t1c2")]


async def test_a_run_that_answers_nothing_is_listed_again_after_a_while(
    nowhere: Client,
    serve: Callable[..., ListingServer],
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    serve(listed("a"))
    pending = PendingRuns(HoldfastClient(nowhere))
    answer(monkeypatch, {"a": []})
    await pending.answers.read((await pending.read()).runs, 20)
    assert pending.hide_settled()
    assert not pending.hide_settled()
    assert await shown(pending) == []
    clock.seconds += pending_runs.KEPT_SECONDS + 0.1
    assert await shown(pending) == ["a"]
