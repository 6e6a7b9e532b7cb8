"""What runs are asked for a list, and decisions on several (§7): how often, and how many."""

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from starlette.datastructures import FormData
from starlette.requests import Request
from temporalio.client import Client

from holdfast.client.diagnosis import NoBuildError, TaskTimedOutError
from holdfast.client.errors import (
    NO_SUCH,
    UNREACHABLE,
    BusyWorkerError,
    HoldfastError,
    NoWorkerError,
)
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.remote_run import RunStart
from holdfast.client.run import Run
from holdfast.client.run_lists import RunListing
from holdfast.schemas.decision import Decision, PendingApproval, Receipt
from holdfast.schemas.internal.selected_call import SelectedCall
from holdfast.web.auth.sessions import Person
from holdfast.web.listing import bulk, pending_runs, routes, runs
from holdfast.web.listing.bulk import approve_selected, decide_selected, read_choices
from holdfast.web.listing.page_query import ListView, find_page
from holdfast.web.listing.pending_runs import PendingList, PendingRuns, RunAnswers
from holdfast.web.pages import ENVIRONMENT
from holdfast.web.services import Services
from tests.web.conftest import FULL_FOR_ANN, Clock
from tests.web.listing.test_rows import ANN, AT, run, waiting

Say = Callable[[str], list[PendingApproval]]


class Runs:
    """Runs that answer at once, and how many of them are asked at a time."""

    def __init__(self, say: Say) -> None:
        self.asked: list[str] = []
        self.most = 0
        self._say, self._now = say, 0

    async def waiting(self, id: str) -> list[PendingApproval]:
        self.asked.append(id)
        self._now += 1
        self.most = max(self.most, self._now)
        await asyncio.sleep(0)  # so that others are asked meanwhile, if they are
        self._now -= 1
        return self._say(id)


def answering(monkeypatch: pytest.MonkeyPatch, say: Say) -> Runs:
    runs = Runs(say)
    approvals = Run.approvals

    async def answer(asked: Run[Any]) -> Any:
        # The class is patched for other clients too, whose streams may not have ended.
        is_other = asked.id.startswith("agui-")
        return await (approvals(asked) if is_other else runs.waiting(asked.id))

    monkeypatch.setattr(Run, "approvals", answer)
    return runs


async def answers(questions: RunAnswers, *runs: RunListing) -> dict[str, Any]:
    return await questions.read(runs, 20)


async def test_an_answer_is_valid_for_a_moment_and_while_the_list_is_unchanged(
    monkeypatch: pytest.MonkeyPatch, nowhere: Client, clock: Clock
) -> None:
    monkeypatch.setattr(pending_runs, "monotonic", clock)
    asks, questions = (
        answering(monkeypatch, lambda _: [waiting()]),
        RunAnswers(HoldfastClient(nowhere)),
    )
    placed = run(since=AT)
    for found in await asyncio.gather(*(answers(questions, placed) for _ in range(2))):
        assert found == {"order-7": [waiting()]}
    clock.seconds += pending_runs.KEPT_SECONDS - 0.1
    await answers(questions, placed)
    assert len(asks.asked) == 1
    for changed in (replace(placed, until=AT), replace(placed, tools=("tell",)), run()):
        await answers(questions, changed)
    assert len(asks.asked) == 4
    # Of a run without times, the list shows no change.
    clock.seconds += pending_runs.SILENT_SECONDS + 0.1
    await answers(questions, run())
    assert len(asks.asked) == 5
    await answers(questions, placed)
    assert len(asks.asked) == 6


@pytest.mark.parametrize("unanswered", [NoWorkerError("desk"), BusyWorkerError("desk", 7)])
async def test_a_task_queue_without_workers_is_not_queried_for_a_while(
    monkeypatch: pytest.MonkeyPatch, nowhere: Client, clock: Clock, unanswered: NoWorkerError
) -> None:
    def answer_of(id: str) -> list[PendingApproval]:
        own = {
            "on-a-build": NoBuildError(id, "desk", "7"),
            "timed-out": TaskTimedOutError("desk", 7, "a worker did not finish a task"),
        }
        raise own.get(id, unanswered)

    monkeypatch.setattr(pending_runs, "monotonic", clock)
    asks, questions = answering(monkeypatch, answer_of), RunAnswers(HoldfastClient(nowhere))
    own = ["on-a-build", "timed-out"]
    for id in (*own, "a"):
        await answers(questions, run(id))
    told = await answers(questions, run("b"))
    assert told["b"] is unanswered
    assert asks.asked == [*own, "a"]
    await answers(questions, RunListing("c", "another desk", AT, "awaiting_approval"))
    clock.seconds += pending_runs.SILENT_SECONDS + 0.1
    await answers(questions, run("b"))
    assert asks.asked == [*own, "a", "c", "b"]
    assert [*questions._silent] == ["desk"], "what is over is not kept"


async def test_a_failed_query_of_a_run_does_not_end_the_list(
    monkeypatch: pytest.MonkeyPatch, nowhere: Client
) -> None:
    def answer_of(id: str) -> list[PendingApproval]:
        match id:
            case "gone":
                raise HoldfastError("there is no run gone", "see holdfast list", NO_SUCH)
            case "broken" if len(asks.asked) == 2:
                raise RuntimeError("unexpected")
        return []

    asks, questions = answering(monkeypatch, answer_of), RunAnswers(HoldfastClient(nowhere))
    assert await answers(questions, run("gone")) == {"gone": []}
    with pytest.raises(RuntimeError):
        await answers(questions, run("broken"))
    assert await answers(questions, run("broken")) == {"broken": []}


async def test_a_few_runs_are_asked_at_a_time_and_not_more_than_are_kept(
    monkeypatch: pytest.MonkeyPatch, nowhere: Client
) -> None:
    monkeypatch.setattr(pending_runs, "MAX_KEPT", 20)
    asks = answering(monkeypatch, lambda _: [])
    questions, runs = RunAnswers(HoldfastClient(nowhere)), [run(f"order-{n}") for n in range(30)]
    told = await answers(questions, *runs)
    assert (len(told), len(asks.asked), asks.most) == (20, 20, pending_runs.AT_ONCE)
    # Those of other pages make room.
    assert len(await answers(questions, *runs[20:])) == 10


async def test_a_run_that_does_not_answer_in_time_is_listed_all_the_same(
    monkeypatch: pytest.MonkeyPatch, nowhere: Client
) -> None:
    async def beginning(self: Run) -> RunStart:
        if self.id == "silent":
            await asyncio.Event().wait()
        if self.id == "gone":
            raise HoldfastError("there is no run gone", "see holdfast list", NO_SUCH)
        return RunStart(AT, f"{self.id} of today")

    async def ended(self: Run) -> Any:
        raise AssertionError("how a run has ended is asked of none that goes on")

    monkeypatch.setattr(Run, "start_info", beginning)
    monkeypatch.setattr(Run, "ending", ended)
    monkeypatch.setattr(runs, "ANSWER_SECONDS", 0.01)
    async with asyncio.timeout(120):
        found = await runs.RunsPage(Services(HoldfastClient(nowhere))).rows(
            [*map(run, ["silent", "gone", "order-7"])], ANN
        )
    assert [(row.summary, row.failure[:20]) for row in found] == [
        ("", ""),
        ("", "there is no run gone"),
        ("order-7 of today", ""),
    ]


async def test_a_run_whose_id_was_used_again_is_reported_and_links_to_no_other(
    monkeypatch: pytest.MonkeyPatch, nowhere: Client
) -> None:
    """Its page would be that of the newer one, and so would all that it shows."""

    async def beginning(self: Run) -> RunStart:
        return RunStart(AT, "The newer one.")

    monkeypatch.setattr(Run, "start_info", beginning)
    before = replace(run(), status="completed", started=AT - timedelta(days=1), execution="e/1")
    parts = Services(HoldfastClient(nowhere), temporal_ui="https://ui.example")
    newer, older = await runs.RunsPage(parts).rows([run(), before], ANN)
    assert (newer.summary, newer.is_earlier_run, newer.link) == ("The newer one.", False, None)
    assert (older.summary, older.is_earlier_run, older.run.status) == ("", True, "completed")
    assert older.link == "https://ui.example/namespaces/default/workflows/order-7/e%2F1"
    # A time of a list that is less exact than the run's own makes no other run of it.
    [same] = await runs.RunsPage(parts).rows(
        [replace(run(), started=AT - timedelta(microseconds=9))], ANN
    )
    assert not same.is_earlier_run
    said = dict.fromkeys(("status", "agent", "principal", "run"), "")
    values = {"rows": [newer, older], "query": said, "statuses": [], "agents": []}
    html = ENVIRONMENT.get_template("listing/runs.html").render(
        person=ANN, path="/run", first="", next="", filtered=False, **values
    )
    assert html.count('href="/run/order-7"') == 1
    assert "An earlier run of this id" in html


# --- several at once ---------------------------------------------------------------------


def choice(id: str = "order-7", **arguments: Any) -> SelectedCall:
    return SelectedCall(id, "t1c1", waiting(arguments=arguments).digest)


def sending(monkeypatch: pytest.MonkeyPatch, refusal: Exception | None = None) -> list[Decision]:
    """Have every run take what it is sent, or refuse it so; what was sent."""
    sent: list[Decision] = []

    async def send(
        parts: Services, run_id: str, asks: PendingApproval, decision: Decision, _: str | None
    ) -> Receipt:
        sent.append(decision)
        if refusal is not None:
            raise refusal
        return Receipt(call_id="t1c1", decision=decision.decision, decided=True)

    monkeypatch.setattr(Services, "decide", send)
    return sent


async def test_what_is_sent_is_for_what_was_shown_and_in_the_name_of_who_decides(
    monkeypatch: pytest.MonkeyPatch, nowhere: Client
) -> None:
    answering(monkeypatch, lambda _: [waiting()])
    sent = sending(monkeypatch)
    [outcome] = await decide_selected(
        Services(HoldfastClient(nowhere)), ANN, [choice()], "deny", "No."
    )
    assert outcome.text == "Denied."
    said = {"callId": "t1c1", "decision": "deny", "reason": "No.", "digest": choice().digest}
    said["nonce"] = choice().nonce
    assert [one.to_json() for one in sent] == [{**said, "by": "ann", "groups": ["finance"]}]


async def test_each_is_decided_once_a_few_at_a_time_up_to_a_bound(
    monkeypatch: pytest.MonkeyPatch, nowhere: Client
) -> None:
    monkeypatch.setattr(bulk, "MAX_CHOICES", 20)
    asks = answering(monkeypatch, lambda run: [waiting(arguments={"order": run})])
    listing(monkeypatch, [PendingList([], 0)])
    sent = sending(monkeypatch)
    choices = read_choices(
        [*(str(choice(f"order-{n}", order=f"order-{n}")) for n in range(22))] * 2
    )
    assert len(choices) == 22
    outcomes = await decide_selected(Services(HoldfastClient(nowhere)), ANN, choices, "approve")
    assert [one.tone for one in outcomes] == ["good"] * 20 + ["asks"] * 2
    assert outcomes[-1].text.startswith("Not decided: at most 250 at a time.")
    assert (len(sent), asks.most) == (20, bulk.AT_ONCE)
    # What is not decided is not asked a reason for.
    assert [
        bool(one.text)
        for one in await decide_selected(Services(HoldfastClient(nowhere)), ANN, choices, None)
    ][-3:] == [False, True, True]


def request(query: str, person: Person, *form: tuple[str, str], seen: str = "") -> Request:
    headers = [(b"last-event-id", seen.encode())] if seen else []
    scope = {"type": "http", "path": "/", "query_string": query.encode(), "headers": headers}
    return Request({**scope, "state": {"person": person, "form": FormData([*form])}})


@pytest.mark.parametrize(
    ("chars", "status", "said"),
    [
        (0, 422, "Enter a reason"),
        (10_000, 200, "accepted for 1 of 1"),
        (10_001, 422, "at most 10,000"),
    ],
)
async def test_a_reason_is_one_that_a_run_takes(
    monkeypatch: pytest.MonkeyPatch, nowhere: Client, chars: int, status: int, said: str
) -> None:
    answering(monkeypatch, lambda _: [waiting()])
    sent = sending(monkeypatch)
    fields = {"chosen": str(choice()), "decision": "deny", "reason": "x" * chars}
    page = await routes.PendingPages(Services(HoldfastClient(nowhere))).decide(
        request("", ANN, *fields.items())
    )
    assert (page.status_code, len(sent)) == (status, status == 200)
    text = bytes(page.body).decode()
    assert said in text
    assert (f'value="{choice()}"' in text) is (status == 422), "it is offered again"


def identical_calls(monkeypatch: pytest.MonkeyPatch) -> list[Decision]:
    """Two runs ask for the same refund for ada, others for another, or for another person."""
    amounts = {"a": 20, "b": 20, "c": 7, "of-bob": 20, "per-customer": 20}
    answering(
        monkeypatch,
        lambda run: [
            waiting(
                arguments={"amount": amounts[run]},
                reasoning=f"Why {run}.",
                **({"instance": "k-77"} if run == "per-customer" else {}),
            )
        ],
    )
    whose = {name: "bob" if name == "of-bob" else "ada" for name in amounts}
    runs = [run(name, since=AT, principal=whose[name]) for name in amounts]
    listing(monkeypatch, [PendingList(runs, len(runs))])
    return sending(monkeypatch)


async def test_identical_calls_are_never_approved_together_without_a_second_step(
    monkeypatch: pytest.MonkeyPatch, nowhere: Client
) -> None:
    """Whatever the page sends: each identical call must be ticked again, by itself."""
    sent = identical_calls(monkeypatch)
    first, twin, *others = (
        choice(name, amount=7 if name == "c" else 20)
        for name in ("a", "b", "c", "of-bob", "per-customer")
    )
    pages = routes.PendingPages(Services(HoldfastClient(nowhere)))

    async def post(chosen: Sequence[SelectedCall], identical: Sequence[SelectedCall] = ()) -> str:
        fields = [(name, str(one)) for one in chosen for name in ("chosen", "seen")]
        fields += [("identical", str(one)) for one in identical]
        response = await pages.decide(request("", ANN, ("decision", "approve"), *fields))
        return bytes(response.body).decode()

    page = await post([first, *others, twin])
    assert sent == []
    assert "Nothing is decided yet" in page
    ticks = re.findall(r'name="identical" value="([^"]+)" id="[^"]+" (checked|)', page)
    assert ticks == [(str(first), "checked"), (str(twin), "")]
    assert re.findall("“(.*)”", page) == ["Why a.", "Why b."], "what identical calls differ in"
    assert re.findall(r'name="chosen" value="([^"]+)"', page) == [*map(str, others)]
    # One that was ticked again does not confirm the other.
    assert "Nothing is decided yet" in await post([twin, *others], [first])
    assert sent == []
    assert "accepted for 4 of 4" in await post(others, [first])
    sent.clear()
    assert "accepted for 2 of 2" in await post([], [first, twin])
    assert len(sent) == 2


async def test_a_call_that_was_not_on_the_screen_is_approved_after_a_second_look_alone(
    monkeypatch: pytest.MonkeyPatch, nowhere: Client
) -> None:
    """Without scripts, nothing is known to be on the screen: each selection is shown again."""
    euros = {"a": 1_200, "b": 40}
    answering(
        monkeypatch,
        lambda name: [waiting(arguments={"amount": euros[name]}, amount=f"{euros[name]}.00 EUR")],
    )
    listing(monkeypatch, [PendingList([run(name, since=AT) for name in euros], 2)])
    sent = sending(monkeypatch)
    chosen = [("chosen", str(choice(name, amount=amount))) for name, amount in euros.items()]
    seen = [("seen", text) for _, text in chosen]
    pages = routes.PendingPages(Services(HoldfastClient(nowhere)))

    async def post(*fields: tuple[str, str]) -> str:
        response = await pages.decide(request("", ANN, ("decision", "approve"), *chosen, *fields))
        return bytes(response.body).decode()

    for known, unseen in (([], 2), (seen[:1], 1)):
        page = await post(*known)
        assert page.count("was not on your screen") == unseen
        assert "Approve 2: 2 × Pay · €1,240.00" in page
        assert re.findall(r'name="seen" value="([^"]+)"', page) == [text for _, text in seen]
    assert sent == []
    assert "accepted for 2 of 2" in await post(*seen)


async def test_a_call_that_could_not_be_compared_is_not_approved_beside_others(
    monkeypatch: pytest.MonkeyPatch, nowhere: Client
) -> None:
    """Lists lag behind runs: of a run that is not listed yet, the principal is unknown."""
    sent = identical_calls(monkeypatch)
    two, parts = (
        [choice("a", amount=20), choice("of-bob", amount=20)],
        Services(HoldfastClient(nowhere)),
    )
    listing(monkeypatch, [PendingList([run("a", principal="ada")], 1)])
    assert [one.group for one in await approve_selected(parts, ANN, two, (), two)] == [1, 1]
    assert sent == []
    silent = ["of-bob"]

    def answer_of(run: str) -> list[PendingApproval]:
        if run in silent:
            silent.remove(run)
            raise HoldfastError("no worker answers", "start one", UNREACHABLE)
        return [waiting(arguments={"amount": 20})]

    answering(monkeypatch, answer_of)
    outcomes = await approve_selected(parts, ANN, two, (), two)
    assert [one.tone for one in outcomes] == ["good", "bad"]
    assert len(sent) == 1


# --- viewers receive changes -------------------------------------------------------------


def listing(monkeypatch: pytest.MonkeyPatch, found: list[PendingList | Exception]) -> None:
    """Have the list be read so: each viewer sees what is there when it looks."""

    async def read(_: PendingRuns) -> PendingList:
        if isinstance(found[0], Exception):
            raise found[0]
        return found[0]

    monkeypatch.setattr(PendingRuns, "read", read)
    monkeypatch.setattr(routes, "page_stream", lambda room, viewer, frames, _: frames)


async def test_a_viewer_of_their_own_calls_receives_changes_of_those_alone(
    monkeypatch: pytest.MonkeyPatch, nowhere: Client
) -> None:
    runs = [run(group, since=AT, groups=(group,)) for group in ("finance", "ops")]
    listing(monkeypatch, [PendingList(runs, 2)])
    waits = routes.PendingPages(Services(HoldfastClient(nowhere)))
    ann, bob = ANN, Person("bob", ("ops",))
    streams: list[Any] = [
        await waits.changes(request(query, person))
        for query in ("group=mine", "")
        for person in (ann, bob)
    ]
    ids = [(await anext(stream)).split("\n")[0] for stream in streams]
    assert len({*ids[:2]}) == 2
    assert ids[2] == ids[3]
    for stream in streams:
        await stream.aclose()


@pytest.mark.parametrize("q", ["", "pay"])
def test_a_page_of_the_list_changes_with_a_decision_that_is_sent_here(q: str) -> None:
    before = PendingList([run("a", since=AT, tools=("pay",))], 1)
    after = replace(before, decisions={"a": 1})
    marks = {find_page(one, ListView(q=q), ()).mark for one in (before, after)}
    assert len(marks) == 2


async def test_a_viewer_receives_changes_failures_and_the_end(
    monkeypatch: pytest.MonkeyPatch, nowhere: Client
) -> None:
    away = HoldfastError("<b>Temporal</b> is away", "wait", UNREACHABLE)
    found: list[Any] = [PendingList([run(since=AT)], 1)]
    listing(monkeypatch, found)
    waits = routes.PendingPages(Services(HoldfastClient(nowhere)))
    stream: Any = await waits.changes(request("", ANN))
    first = await anext(stream)
    assert first.endswith("\nevent: changed\ndata: changed\n\n")
    # A viewer that reconnects receives only what it has missed.
    seen = first.split("\n")[0].removeprefix("id: ")
    again: Any = await waits.changes(request("", ANN, seen=seen))
    following = asyncio.ensure_future(anext(again))
    trouble = "event: trouble\ndata: &lt;b&gt;Temporal&lt;/b&gt; is away; wait.\n\n"
    found[0] = away
    assert [await anext(stream), await following] == [trouble] * 2
    found[0] = PendingList([run(since=AT)], 1)
    assert await anext(stream) == "event: trouble\ndata: <!-- over -->\n\n"
    found[0] = PendingList([], 0)
    assert "event: changed" in await anext(stream)
    await stream.aclose()
    await again.aclose()


async def test_a_failed_listing_ends_its_streams(
    monkeypatch: pytest.MonkeyPatch, nowhere: Client
) -> None:
    listing(monkeypatch, [RuntimeError("unexpected")])
    stream: Any = await routes.PendingPages(Services(HoldfastClient(nowhere))).changes(
        request("", ANN)
    )
    with pytest.raises(RuntimeError):
        await anext(stream)


@pytest.mark.parametrize("bound", [(routes, "MAX_STREAMS", 0), FULL_FOR_ANN])
async def test_a_stream_of_the_list_beyond_the_bound_is_refused_with_a_delay(
    monkeypatch: pytest.MonkeyPatch, nowhere: Client, bound: tuple[Any, str, Any]
) -> None:
    monkeypatch.setattr(*bound)
    answer = await routes.PendingPages(Services(HoldfastClient(nowhere))).changes(request("", ANN))
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
