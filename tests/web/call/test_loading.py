"""What a page shows of other calls, and what a decision on its way meets (§7), without a run."""

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from starlette.datastructures import FormData
from starlette.requests import Request
from temporalio.client import Client

from holdfast.client.errors import (
    NO_SUCH,
    RUN_FAILED,
    UNREACHABLE,
    DecisionRejectedError,
    HoldfastError,
)
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.run import Run
from holdfast.client.run_lists import RunListing
from holdfast.client.stream.run_watch import RunDescription
from holdfast.schemas import names
from holdfast.schemas.decision import MAX_TOOLS, PendingApproval
from holdfast.schemas.run import CallReport, RunReport
from holdfast.web.auth.permissions import RunAccess
from holdfast.web.auth.sessions import Person
from holdfast.web.call import decision_form, loader, routes
from holdfast.web.call.decision_form import DecisionForm
from holdfast.web.call.loader import ClosedApproval, OpenApproval, find_next_pending
from holdfast.web.forms.form_values import SubmittedForm
from holdfast.web.http.streaming import EventStream, frame
from holdfast.web.listing.pending_runs import PendingList, PendingRuns
from holdfast.web.services import Services
from tests.web.call.test_page import over, question
from tests.web.call.test_texts import asks, decided, log
from tests.web.conftest import FULL_FOR_ANN
from tests.web.listing.test_rows import ANN, AT, run, waiting
from tests.web.run.test_bounds import description


def answering(monkeypatch: pytest.MonkeyPatch, **said: Any) -> None:
    """Have runs answer so: their pending approvals, or an error; of the name `never`, nothing."""

    async def waits(self: Run) -> list[PendingApproval]:
        if self.id == "never":
            await asyncio.Event().wait()
        answer = said[self.id]
        if isinstance(answer, Exception):
            raise answer
        return list(answer)

    info = question().run_info
    shown: dict[str, Any] = {"since": AT, "agent": info.agent, "principal": info.principal}
    shown |= {"tools": ("pay",), "groups": (names.FOR_ANYBODY,)}
    # The last expires first.
    runs = (run(id, until=AT - timedelta(n), **shown) for n, id in enumerate(said))
    listing(monkeypatch, *runs)
    monkeypatch.setattr(Run, "approvals", waits)


def listing(monkeypatch: pytest.MonkeyPatch, *runs: RunListing) -> None:
    """Have these runs be listed."""

    async def read(_: PendingRuns) -> PendingList:
        return PendingList(runs, len(runs))

    monkeypatch.setattr(PendingRuns, "read", read)


async def test_of_similar_calls_identical_ones_are_first_and_a_few_are_shown(
    monkeypatch: pytest.MonkeyPatch, nowhere: Client
) -> None:
    other = [waiting("t1c9", arguments={"amount": 1}), waiting("t1c8", tool="tell")]
    silent = HoldfastError("no", "look", UNREACHABLE)
    said = {"order-7": [waiting()], "a": other, "silent": silent, "b": [waiting()]}
    answering(monkeypatch, **said)
    found = await loader.find_similar_calls(Services(HoldfastClient(nowhere)), question(), ANN)
    assert [(one.run, one.same_arguments) for one in found] == [("b", True), ("a", False)]
    assert found[1].href == "/waiting/a/t1c9"
    answering(monkeypatch, a=[waiting(f"t1c{n}") for n in range(9)])
    assert (
        len(await loader.find_similar_calls(Services(HoldfastClient(nowhere)), question(), ANN))
        == loader.MAX_SIMILAR
    )
    assert (
        await loader.find_similar_calls(
            Services(HoldfastClient(nowhere)), question(kind="reconcile"), ANN
        )
        == []
    )


@pytest.mark.parametrize(("principal", "similar"), [("Ada", ["a"]), ("", ["b"])])
async def test_alike_is_of_the_same_principal_or_else_of_the_same_agent(
    monkeypatch: pytest.MonkeyPatch, nowhere: Client, principal: str, similar: list[str]
) -> None:
    answering(monkeypatch, a=[waiting()], b=[waiting()], c=[waiting()])
    of_desk = {"agent": "desk", "principal": "bob"}
    listing(
        monkeypatch,
        run("a", tools=("pay",), agent="another", principal="Ada"),
        run("b", tools=("pay", "tell"), **of_desk),
        run("c", tools=("tell",), agent="desk", principal="Ada"),
    )
    one = question(principal)
    one = replace(one, run_info=replace(one.run_info, agent="desk"))
    found = await loader.find_similar_calls(Services(HoldfastClient(nowhere)), one, ANN)
    assert [each.run for each in found] == similar


async def test_similar_and_next_calls_delay_no_page(
    monkeypatch: pytest.MonkeyPatch, nowhere: Client
) -> None:
    monkeypatch.setattr(loader, "SIMILAR_SECONDS", 0.01)
    monkeypatch.setattr(loader, "NEXT_SECONDS", 0.01)
    answering(monkeypatch, never=[])
    async with asyncio.timeout(120):
        similar = loader.find_similar_calls(Services(HoldfastClient(nowhere)), question(), ANN)
        assert await similar == []
        assert await find_next_pending(Services(HoldfastClient(nowhere)), over(), ANN) is None


async def test_the_next_is_one_that_this_person_may_decide_and_has_not(
    monkeypatch: pytest.MonkeyPatch, nowhere: Client
) -> None:
    given = {"decision": "approve", "by": "ann", "at": AT.isoformat(), "digest": waiting().digest}
    said: dict[str, Any] = {
        "order-7": [waiting()],
        "silent": HoldfastError("no", "look", UNREACHABLE),
        "a": [waiting(quorum=2, decisions=[given]), waiting("t1c2", approvers=["finance"])],
    }
    parts, unfit = Services(HoldfastClient(nowhere)), waiting("t1c2", approvers=["ops"])
    closed = replace(over(), others=[unfit])
    answering(monkeypatch, **said)
    assert await find_next_pending(parts, closed, ANN) == "/waiting/a/t1c2"
    here = replace(closed, others=[unfit, waiting("t1c3")])
    assert await find_next_pending(parts, here, ANN) == "/waiting/order-7/t1c3"
    answering(monkeypatch, **{"order-7": said["order-7"], "b": [waiting()], "first": [waiting()]})
    assert await find_next_pending(parts, closed, ANN) == "/waiting/first/t1c1"
    answering(monkeypatch, **{"order-7": said["order-7"]})
    assert await find_next_pending(parts, closed, ANN) is None


@pytest.mark.parametrize(
    ("closed_at", "last", "ended"),
    [(None, {}, False), (AT, {}, True), (None, {"type": "done", "status": "completed"}, True)],
    ids=["open", "terminated", "ended since it was described"],
)
async def test_of_a_run_that_has_ended_no_call_is_pending(
    monkeypatch: pytest.MonkeyPatch,
    nowhere: Client,
    closed_at: datetime | None,
    last: dict[str, Any],
    ended: bool,
) -> None:
    entries = log(asks(), *([last] if last else []))

    async def describe(_: Run) -> Any:
        return description([], close_time=closed_at)

    async def call(_: Run, __: str) -> CallReport:
        report = RunReport(status="awaiting_approval")
        return CallReport(status=report, pending=[waiting(), waiting("t1c2")], entries=entries)

    monkeypatch.setattr(Run, "describe", describe)
    monkeypatch.setattr(Run, "call", call)
    found = await loader.load_call(Services(HoldfastClient(nowhere)), "order-7", "t1c1")
    assert isinstance(found, ClosedApproval) is ended
    assert [one.call_id for one in found.others] == ([] if ended else ["t1c2"])


# --- what meets a decision ---------------------------------------------------------------


def request(person: Person, *form: tuple[str, str]) -> Request:
    scope = {"type": "http", "path": "/", "query_string": b"", "headers": []}
    state = {"person": person, "access": RunAccess(person), "form": FormData([*form])}
    return Request({**scope, "path_params": {"run": "order-7", "call": "t1c1"}, "state": state})


@pytest.mark.parametrize(
    ("where", "error", "status", "said"),
    [
        ("read", HoldfastError("no worker answers", "start one", UNREACHABLE), 503, "not accepted"),
        (
            "send",
            HoldfastError("no worker answers", "start one", UNREACHABLE),
            503,
            "may still arr",
        ),
        ("send", HoldfastError("run order-7 has ended", "look", NO_SUCH), 409, "not accepted"),
        ("send", HoldfastError("no key", "name one", RUN_FAILED), 409, "not accepted"),
    ],
)
async def test_without_an_answer_the_page_shows_whether_the_decision_was_sent(
    monkeypatch: pytest.MonkeyPatch,
    nowhere: Client,
    where: str,
    error: Exception,
    status: int,
    said: str,
) -> None:
    async def fails(*_: Any) -> Any:
        raise error

    async def pending(*_: Any) -> list[PendingApproval]:
        return [question().approval]

    monkeypatch.setattr(Run, "approvals", fails if where == "read" else pending)
    monkeypatch.setattr(Services, "decide", fails)
    digest = ("digest", question().approval.digest)
    form = [("form_token", "mine"), ("about", "deny"), digest, ("reason", "Not on a Sunday.")]
    answer = await routes.CallPages(Services(HoldfastClient(nowhere))).decide(request(ANN, *form))
    text = bytes(answer.body).decode()
    assert (answer.status_code, said in text) == (status, True)
    assert ("Your decision was sent" in text) is (said == "may still arr")
    assert 'name="reason" value="Not on a Sunday."' in text
    assert text.count('name="form_token"') == 2 - ("sign-out" not in text)


async def test_a_call_that_changed_while_a_decision_was_on_its_way_is_shown_again(
    monkeypatch: pytest.MonkeyPatch, nowhere: Client
) -> None:
    before, after = question(), question(arguments={"amount": 9})

    async def pending(*_: Any) -> list[PendingApproval]:
        return [before.approval]

    async def look(*_: Any) -> OpenApproval:
        return after

    async def refuses(*_: Any) -> Any:
        raise DecisionRejectedError("r", names.INVALID_DECISION, "the digest is another")

    async def none(*_: Any) -> list[Any]:
        return []

    monkeypatch.setattr(Services, "decide", refuses)
    monkeypatch.setattr(Run, "approvals", pending)
    for name, instead in {"load_visible_call": look, "find_similar_calls": none}.items():
        monkeypatch.setattr(loader, name, instead)
    form = [("about", "deny"), ("digest", before.approval.digest), ("reason", "Too much.")]
    answer = await routes.CallPages(Services(HoldfastClient(nowhere))).decide(request(ANN, *form))
    text = bytes(answer.body).decode()
    assert answer.status_code == 409
    assert "The call has changed since it was shown to you" in text
    assert "Too much.</textarea>" in text


async def test_an_open_page_receives_what_others_do(
    monkeypatch: pytest.MonkeyPatch, nowhere: Client
) -> None:
    edit, approve = map(decided, ("edit", "approve"))
    made = [{**edit["decided"], "by": "grace"}]
    found: list[Any] = [question(decisions=made), over(edit, approve), over(), question()]
    pages = routes.CallPages(Services(HoldfastClient(nowhere)))

    async def look(*_: Any) -> Any:
        return found[0]

    async def observe(_: Run) -> Any:
        return RunDescription(("r", len(found)), closed=False, streaming=None)

    monkeypatch.setattr(loader, "load_call", look)
    monkeypatch.setattr(Run, "observe", observe)
    for said, seen in (
        ("Approved with changes by grace (unverified), just now.", ""),
        ("Approved by ada (unverified), just now.", ""),
        ("Withdrawn.", ""),
        ("A decision is needed again.", loader.CLOSED_MARK),
    ):
        one = request(ANN)
        one.scope["query_string"] = f"seen={seen}".encode()
        frames = pages._frames(one)
        first = await anext(frames)
        await frames.aclose()
        assert first.startswith(f"id: {found[0].mark}\nevent: news\n"), first
        assert said in first.replace("</strong>", "")
        del found[0]


async def test_a_page_that_connects_again_receives_what_is_new_to_it(
    monkeypatch: pytest.MonkeyPatch, nowhere: Client
) -> None:
    """Not the decision before again, and also the end of a claim that it shows."""
    claim = {"by": "bob", "until": "2099-01-01T00:00:00Z"}
    made = [{"decision": "approve", "by": "bob", "at": AT.isoformat(), "digest": "d"}]
    before = question()
    found: list[Any] = [question(quorum=2, decisions=made, claim=claim)]
    pages = routes.CallPages(Services(HoldfastClient(nowhere)))

    async def look(*_: Any) -> Any:
        return found[0]

    async def observe(_: Run) -> Any:
        return RunDescription(("r", len(found)), closed=False, streaming=None)

    monkeypatch.setattr(loader, "load_call", look)
    monkeypatch.setattr(Run, "observe", observe)

    async def first(last_id: str) -> list[str]:
        """The frames up to the one with an id."""
        one = request(ANN)
        one.scope["query_string"] = f"seen={before.mark}".encode()
        one.scope["headers"] = [(b"last-event-id", last_id.encode())] if last_id else []
        stream = await routes.CallPages.changes(pages, one)
        assert isinstance(stream, EventStream)
        frames = list[str]()
        while not any(each.startswith("id: ") for each in frames):
            frames.append(await anext(stream._frames))
        await stream._frames.aclose()
        return frames

    news, claimed = await first("")
    assert "Approved by bob (unverified), just now." in news.replace("</strong>", "")
    assert claimed.startswith(f"id: {found[0].mark}\nevent: claim\n")
    place, found[0] = found[0].mark, question(quorum=2, decisions=made)
    assert await first(place) == [frame("claim", "<!-- none -->", found[0].mark)]


def test_of_a_question_no_more_tools_are_read_than_it_is_about() -> None:
    calls = [{"id": f"t1c{n}", "tool": f"tool_{n % 40}", "arguments": {}} for n in range(80)]
    plan = waiting(kind="plan", arguments={"calls": calls})
    assert plan.tool_names() == [f"tool_{n}" for n in range(MAX_TOOLS)]
    assert waiting(kind="budget").tool_names() == []


@pytest.mark.parametrize(
    ("found", "follows", "over"),
    [
        (question(), False, False),
        (question(), True, True),
        (over(decided("approve")), False, True),
        (over(decided("approve")), True, False),
        (over(decided("approve"), {"type": "tool_end"}), True, True),
    ],
)
def test_a_page_receives_the_events_of_a_call_until_it_is_closed(
    found: Any, follows: bool, over: bool
) -> None:
    assert routes.is_last_event(found, follows_outcome=follows) is over


def test_a_form_with_many_calls_is_taken_apart_once(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []

    class Counting(SubmittedForm):
        def __init__(self, items: Any) -> None:
            taken.append(len(items))
            super().__init__(items)

    monkeypatch.setattr(decision_form, "SubmittedForm", Counting)
    calls = [("call", f"t1c{n}") for n in range(100)]
    found = DecisionForm.of(FormData([*calls, ("text:/calls/t1c7", "x"), ("text:/result", "y")]))
    assert (len(found.calls), found.calls["t1c7"].value, found.result.value) == (100, "x", "y")
    assert taken == [102]


@pytest.mark.parametrize("bound", [(routes, "MAX_STREAMS", 0), FULL_FOR_ANN])
async def test_a_stream_of_a_call_beyond_the_bound_is_refused_with_a_delay(
    monkeypatch: pytest.MonkeyPatch, nowhere: Client, bound: tuple[Any, str, Any]
) -> None:
    monkeypatch.setattr(*bound)
    answer = await routes.CallPages(Services(HoldfastClient(nowhere))).changes(request(ANN))
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
