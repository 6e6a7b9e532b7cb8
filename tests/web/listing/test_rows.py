"""The list of pending approvals without a run (§7, §11): the decisions of its rows, its bounds."""

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl

import pytest

from holdfast.client.errors import NoWorkerError
from holdfast.client.run_lists import RunListing
from holdfast.schemas import names
from holdfast.schemas.decision import PendingApproval, digest_of
from holdfast.schemas.internal.selected_call import SelectedCall
from holdfast.web.auth.sessions import Person
from holdfast.web.listing import page_query
from holdfast.web.listing.page_query import (
    ORDERS,
    PAGE_RUNS,
    ListPage,
    ListView,
    find_page,
    order_by_answers,
)
from holdfast.web.listing.pending_runs import NO_STATUS, NO_TIMES, PendingList
from holdfast.web.listing.rows import (
    MAX_OF_A_RUN,
    PendingRow,
    deciders,
    pending_rows,
    plain_names,
    urgency,
)
from holdfast.web.pages import ENVIRONMENT

# As runs record it.
LOST = "was started, and its result was not reported"
AT = datetime(2026, 3, 1, 14, 3, 7, tzinfo=UTC)
ANN = Person("ann", ("finance",))


def waiting(call_id: str = "t1c1", **more: Any) -> PendingApproval:
    said: dict[str, Any] = {"callId": call_id, "tool": "pay", "label": "Pay", "arguments": {}}
    times = {"requestedAt": AT.isoformat(), "expiresAt": AT.isoformat()}
    said |= {"kind": "call", **times, **more}
    digest = digest_of(said["tool"], said["arguments"], said["kind"], 1)
    return PendingApproval.read({"digest": digest, **said})


def run(id: str = "order-7", **more: Any) -> RunListing:
    return RunListing(id, "desk", AT, "awaiting_approval", **more)


def shown(*all_waiting: PendingApproval, signs: bool = False) -> list[PendingRow]:
    return list(pending_rows(run(), list(all_waiting), ANN, signs=signs))


@pytest.mark.parametrize(
    ("said", "obstacle"),
    [
        ({}, ""),
        ({"kind": "plan", "arguments": {"calls": []}}, "Open it to see the steps"),
        ({"kind": "input"}, "Open it to answer it."),
        ({"kind": "reconcile"}, "Open it to decide what happened."),
        ({"kind": "budget", "arguments": {"maxCalls": 1}}, "Open it to see the budget"),
        ({"approvers": ["finance", "ops"]}, ""),
        ({"approvers": ["ops"]}, "Only members of ops can decide."),
        ({"signed": True}, "Decisions must be signed"),
        ({"arguments": {"text": "x" * 293}}, ""),
        ({"arguments": {"text": "x" * 294}}, "Open it to see all arguments."),
        # Its run has shown a part of it: what would be decided on cannot be seen here.
        ({"digest": "of more than this"}, "Open it to see all arguments."),
    ],
)
def test_what_needs_more_than_a_yes_or_a_no_cannot_be_ticked(
    said: dict[str, Any], obstacle: str
) -> None:
    [row] = shown(waiting(**said))
    assert bool(row.choice) is not bool(obstacle)
    assert row.obstacle.startswith(obstacle)


def test_a_row_that_can_be_ticked_shows_what_equals_the_amount_of_money() -> None:
    [row] = shown(waiting(arguments={"price": "5.00", "quantity": 500}, amount="5.00 EUR"))
    assert (row.title, row.brief) == ("Pay · €5.00", 'Price "5.00" · Quantity 500')


def test_an_edit_of_another_person_restarts_the_count() -> None:
    before = {"decision": "approve", "by": "ann", "at": AT.isoformat(), "digest": "of before"}
    edit = {**before, "decision": "edit", "by": "bob", "digest": waiting().digest}
    [row] = shown(waiting(quorum=2, decisions=[before, edit]))
    assert row.choice
    [row] = shown(waiting(quorum=2, decisions=[before, edit, {**edit, "by": "Ann"}]))
    assert row.obstacle.startswith("You have already decided")


def test_where_the_inbox_signs_what_has_to_be_signed_can_be_ticked() -> None:
    [row] = shown(waiting(signed=True), signs=True)
    assert SelectedCall.parse(row.choice) == SelectedCall("order-7", "t1c1", waiting().digest)


def test_a_row_is_another_once_something_else_is_asked_so_no_tick_stays_on_it() -> None:
    asks = [waiting(), waiting(arguments={"amount": 9}), waiting("t1c2")]
    assert len({row.id for one in asks for row in shown(one)}) == 3


def test_of_a_run_with_many_calls_the_others_are_counted() -> None:
    found = shown(*(waiting(f"t1c{n}") for n in range(MAX_OF_A_RUN + 3)))
    assert len(found) == MAX_OF_A_RUN + 1
    assert found[-1].trouble == "3 more pending calls in this run: open the run."
    assert found[-1].choice == ""
    assert len({row.id for row in found}) == len(found)
    assert len(shown(*(waiting(f"t1c{n}") for n in range(MAX_OF_A_RUN)))) == MAX_OF_A_RUN


@pytest.mark.parametrize(
    ("left", "of", "said"),
    [
        (timedelta(minutes=59), None, "expires soon"),
        (timedelta(minutes=61), None, ""),
        (timedelta(minutes=59), timedelta(hours=2), "expires soon"),
        (timedelta(hours=9), timedelta(hours=100), "expires soon"),
        (timedelta(hours=11), timedelta(hours=100), ""),
        (-timedelta(seconds=1), None, "expired"),
        (None, None, ""),
    ],
)
def test_little_time_is_an_hour_or_a_tenth(
    left: timedelta | None, of: timedelta | None, said: str
) -> None:
    until = None if left is None else datetime.now(UTC) + left
    assert urgency(until, None if until is None or of is None else until - of) == said


def test_the_approvers_are_shown_in_a_line() -> None:
    assert deciders([]) == deciders([names.FOR_ANYBODY]) == "anyone"
    assert deciders(["ops", names.FOR_ANYBODY]) == "ops, anyone"
    assert len(deciders([f"group-{n}" for n in range(1_000)])) == 200


def test_the_approvers_who_have_decided_are_named() -> None:
    given = {"decision": "approve", "at": AT.isoformat(), "digest": "d"}
    by = [{**given, "by": name} for name in ("bob", "\u200b", None)]
    [row] = shown(waiting(quorum=4, decisions=by))
    said = "approved by bob (unverified), approved (unverified), approved, 4 people must approve"
    assert row.decisions == said
    [row] = shown(waiting(decisions=[{**given, "by": f"person {n}"} for n in range(100)]))
    assert len(row.decisions) == 200


def test_what_reads_as_another_name_is_not_offered() -> None:
    assert plain_names({"b", "a", "a\u200b", " a", "a\n"}) == ["a", "b"]


def test_the_mark_of_a_page_is_another_when_anything_on_it_is() -> None:
    first = run(since=AT, until=AT, tools=("pay",))
    marks = {
        ListPage([first], 1, False).mark,
        ListPage([first], 2, False).mark,
        ListPage([run("other", since=AT, until=AT, tools=("pay",))], 1, False).mark,
        ListPage([run(since=None, until=AT, tools=("pay",))], 1, False).mark,
        ListPage([run(since=AT, until=None, tools=("pay",))], 1, False).mark,
        ListPage([run(since=AT, until=AT, tools=("pay", "tell"))], 1, False).mark,
        ListPage([first], 1, False, decisions={first.id: 1}).mark,
        ListPage([first], 1, False, decisions={"another": 1}).mark,
    }
    assert len(marks) == 7


@pytest.mark.parametrize("name", ["q", "agent", "tool", "principal", "group", "run"])
def test_a_filter_is_shown_and_kept_in_every_address(name: str) -> None:
    text = "group:the board" if name == "group" else "a&b=c"
    view = ListView.parse({name: text if name == "group" else f" {text} "})
    assert getattr(view, name) == text
    assert view.is_filtered
    assert ListView.parse(dict(parse_qsl(view.query))) == view
    assert not ListView.parse({"order": "expiring"}).is_filtered


def test_the_address_of_another_view_keeps_the_filters() -> None:
    view = ListView.parse({"q": "x", "order": "expiring", "after": "1/a"})
    assert view.at(group="mine") == "/?order=expiring&q=x&group=mine"
    assert view.at(order="newest") == "/?q=x"


def test_the_groups_to_choose_from_are_ones_own_the_pages_and_the_one_that_is_chosen() -> None:
    found = ListPage([run(groups=("ops", names.FOR_ANYBODY))], 1, False)
    view = ListView.parse({"group": "group:the board"})
    assert [name for _, name in view.group_options([*ANN.groups, *found.runs[0].groups])] == [
        *("finance", "ops", "the board", "anyone")
    ]


# --- a namespace that does not know what the list is made of -----------------------------


def ordered(
    found: ListPage, said: dict[str, Any], view: str = "", own: tuple[str, ...] = ()
) -> ListPage:
    return order_by_answers(found, said, ListView.parse(dict(parse_qsl(view))), own)


def lacking(*runs: RunListing, unasked: bool = False) -> ListPage:
    return ListPage(runs, len(runs), False, "since when runs wait", unasked)


def ids(found: ListPage) -> list[str]:
    return [one.id for one in found.runs]


def test_runs_are_put_in_order_by_what_they_answer_and_who_is_silent_stands_below() -> None:
    def asked(minutes: int, **more: Any) -> list[PendingApproval]:
        return [waiting(requestedAt=(AT - timedelta(minutes=minutes)).isoformat(), **more)]

    found = lacking(*map(run, ["late", "old", "new", "none", "gone"]))
    said: dict[str, Any] = {
        "old": asked(9, tool="tell", approvers=["ops"]),
        "new": asked(1),
        "none": [],
        "gone": NoWorkerError("desk"),
    }
    everything = ordered(found, said)
    assert ids(everything) == ["new", "old", "gone", "late"]
    assert (everything.count, everything.has_more) == (4, False)
    assert ids(ordered(found, said, "tool=tell")) == ["old", "gone", "late"]
    assert ids(ordered(found, said, "group=group:ops")) == ["old", "gone", "late"]
    assert ids(ordered(found, said, "group=mine", ("ops",))) == ["new", "old", "gone", "late"]
    assert ids(ordered(found, said, "group=mine")) == ["new", "gone", "late"]
    behind = ListView().page_after(everything.runs[0])
    assert ids(order_by_answers(found, said, behind, ())) == ["old", "gone", "late"]


def test_that_not_all_were_asked_is_another_thing_than_that_there_is_a_next_page() -> None:
    runs = [run(f"order-{n}") for n in range(PAGE_RUNS + 1)]
    said = {one.id: [waiting()] for one in runs}
    page = ordered(lacking(*runs), said)
    assert (len(page.runs), page.has_more, count_of(page)) == (
        PAGE_RUNS,
        True,
        "26 runs with pending approvals",
    )
    few = ordered(lacking(*runs, unasked=True), {one.id: [] for one in runs})
    assert (few.has_more, count_of(few)) == (False, "More than 0 runs may have pending approvals")


def found_in(*runs: RunListing, view: str = "", **more: Any) -> ListPage:
    pending = PendingList(runs, more.pop("count", len(runs)), **more)
    return find_page(pending, ListView.parse(dict(parse_qsl(view))), ANN.groups)


# Some every few minutes, some in a heap, some of one moment, some long ago.
AGOS = [
    *(timedelta(minutes=7 * n) for n in range(20)),
    *(timedelta(milliseconds=n) for n in range(20)),
    *[timedelta(hours=2)] * 20,
    *(timedelta(days=40 * n, microseconds=n) for n in range(1, 10)),
]


@pytest.mark.parametrize("order", ORDERS)
def test_page_by_page_everything_comes_once_and_in_order(order: str) -> None:
    runs = [
        run(f"{n:02}", since=AT - ago, until=AT + timedelta(days=500) - 2 * ago)
        for n, ago in enumerate(AGOS)
    ]
    view, pages = ListView(order), [found_in(*runs, view=f"order={order}")]
    while pages[-1].has_more:
        view = view.page_after(pages[-1].runs[-1])
        pages.append(found_in(*runs, view=view.query))
    assert [len(page.runs) for page in pages] == [PAGE_RUNS, PAGE_RUNS, len(AGOS) - 2 * PAGE_RUNS]
    found = [one for page in pages for one in page.runs]
    times = [one.since if order == "newest" else one.until for one in found]
    assert times == sorted(times, reverse=order == "newest")  # type: ignore[type-var]
    assert {one.id for one in found} == {one.id for one in runs}


def test_runs_without_a_time_stand_below_the_others() -> None:
    runs = [run("late"), run("a", since=AT), run("b", since=AT - timedelta(1), until=AT)]
    assert ids(found_in(*runs)) == ["a", "b", "late"]
    assert ids(found_in(*runs, view="order=expiring")) == ["b", "a", "late"]
    for order, first, further in (("newest", 0, []), ("expiring", 1, ["late"])):
        behind = ListView(order).page_after(runs[first])
        assert ids(found_in(*runs, view=behind.query)) == further


def test_what_expires_is_counted_in_the_view() -> None:
    soon, later = (datetime.now(UTC) + timedelta(minutes=minutes) for minutes in (59, 61))
    runs = [run("a", until=soon, agent="x"), run("b", until=soon), run("c", until=later), run("d")]
    assert found_in(*runs).expiring == 2
    assert found_in(*runs, view="agent=x").expiring == 1


def test_of_more_runs_than_are_listed_the_page_counts_all_and_those_left_out() -> None:
    runs = [run(f"{n}", since=AT, agent="x") for n in range(3)]
    assert (found_in(*runs, count=9).count, found_in(*runs, count=9).left_out) == (9, 6)
    assert found_in(*runs, count=9, view="agent=x").count == 3


def test_without_attributes_no_more_than_a_few_are_asked_and_only_what_is_known_filters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = [run(f"order-{n}", agent="x") for n in range(5)]
    for most, asked in ((5, 5), (4, 4)):
        monkeypatch.setattr(page_query, "MAX_ASKED", most)
        page = found_in(*runs, missing_attributes=NO_TIMES, view="agent=x&tool=pay&group=mine")
        assert (len(page.runs), page.is_incomplete) == (asked, most == 4)
    assert not found_in(*runs, missing_attributes=NO_TIMES, view="agent=y").runs
    page = found_in(*runs, missing_attributes=NO_STATUS, view="agent=y&run=order-3")
    assert ids(page) == ["order-3"]


def count_of(found: ListPage) -> str:
    parts: Any = ENVIRONMENT.get_template("listing/parts.html").module
    return str(parts.count(found, ListView(), None))


def test_calls_are_counted_where_every_run_of_the_page_has_answered() -> None:
    found = ListPage([run("a"), run("b")], 2, False)
    two = [waiting(), waiting("t1c2")]
    assert found.count_calls({"a": two, "b": [waiting()]}) == 3
    assert found.count_calls({"a": two}) is None
    assert found.count_calls({"a": two, "b": NoWorkerError("desk")}) is None
