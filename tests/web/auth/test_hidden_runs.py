"""A run that a person may not know of is as one that does not exist, also by the time it takes."""

import asyncio
import re
from types import SimpleNamespace
from typing import Any

import jwt
import pytest
from starlette.requests import Request
from temporalio.client import Client

from holdfast.client.errors import NO_SUCH, HoldfastError, NoSuchRunError
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.run import Run
from holdfast.client.start import RunExistsError
from holdfast.client.stream.run_watch import RunDescription
from holdfast.runtime.text_sealer import TextSealer
from holdfast.schemas import names
from holdfast.schemas.run import CallReport, RunReport
from holdfast.schemas.settings.inbox import PermissionRule
from holdfast.web.auth import permissions
from holdfast.web.auth.permissions import Permissions, RunAccess
from holdfast.web.auth.sessions import BearerTokens, Person
from holdfast.web.auth.sign_in import LinkSignIn
from holdfast.web.call import loader
from holdfast.web.call.history import history_of
from holdfast.web.call.routes import CallPages
from holdfast.web.http.streaming import EventStream, frame
from holdfast.web.services import Services
from tests.support.inbox import opened
from tests.web.call.test_page import question
from tests.web.call.test_texts import asks, decided, log
from tests.web.call.test_texts import waiting as asked
from tests.web.run.test_bounds import description

LOOKING = "looks at a hidden run"
APPROVER = Person("grace", ("finance",))
RULES = Permissions(
    [
        PermissionRule(may=["decide"]),
        PermissionRule(groups=["support"], agents=["desk"], may=["read", "message"]),
        PermissionRule(groups=["admins"], may=["read", "message"]),
    ]
)
OF_LEGAL = asked(amount=5).model_copy(update={"approvers": ["legal"]})
RUNS: dict[str, Any] = {
    "none": NoSuchRunError("order-7"),
    "another workflow": HoldfastError("order-7 is a Payroll", "see the list", NO_SUCH),
    "ended": [],
    "for others": [OF_LEGAL],
    "unreadable": HoldfastError("no worker answers", "start one", 3),
    "without a worker": None,
}


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits of refusals, which are not waited for."""
    found: list[float] = []
    sleep_elsewhere = asyncio.sleep

    async def sleep(seconds: float) -> None:
        if (task := asyncio.current_task()) is not None and task.get_name() == LOOKING:
            found.append(seconds)
        else:
            await sleep_elsewhere(seconds)

    monkeypatch.setattr(permissions, "HIDDEN_SECONDS", 0.5)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    return found


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("is_page", [False, True])
async def test_the_time_of_a_response_shows_no_hidden_run(
    nowhere: Client,
    monkeypatch: pytest.MonkeyPatch,
    waits: list[float],
    name: str,
    is_page: bool,
) -> None:
    state = RUNS[name]

    async def describe(run: Run) -> Any:
        if name in ("none", "another workflow"):
            raise state
        return description([], typed_search_attributes=[])

    async def answer(*_: Any) -> Any:
        if state is None:
            await asyncio.Event().wait()
        if isinstance(state, HoldfastError):
            raise state
        return SimpleNamespace(approval=OF_LEGAL) if is_page else state

    monkeypatch.setattr(Run, "describe", describe)
    monkeypatch.setattr(Run, "approvals", answer)
    monkeypatch.setattr(loader, "load_call", answer)
    parts = Services(HoldfastClient(nowhere), permissions=RULES)

    async def see() -> Any:
        access = await parts.require(APPROVER, ("read", "decide"), "order-7")
        if is_page:
            return await loader.load_visible_call(parts, access, "order-7", "t1c1")
        return await parts.approvals(access, "order-7")

    with pytest.raises(NoSuchRunError) as refused:
        await asyncio.create_task(see(), name=LOOKING)
    assert str(refused.value) == str(NoSuchRunError("order-7"))
    [wait] = waits
    assert wait <= permissions.HIDDEN_SECONDS
    required = parts.require(APPROVER, "read", "order-7")
    with pytest.raises(NoSuchRunError):
        await asyncio.create_task(required, name=LOOKING)
    assert len(waits) == 2


def call(id: str, secret: str) -> dict[str, Any]:
    return {"type": "tool_call", "callId": id, "tool": "tell", "arguments": {"text": secret}}


def test_what_led_to_a_call_leaves_out_the_calls_of_other_approvers() -> None:
    theirs = {**asks(), "callId": "t1c2"}
    theirs["approval"] = {**theirs["approval"], "callId": "t1c2", "approvers": ["legal"]}
    plan = {**asks("plan"), "callId": "t0-plan"}
    steps = {"calls": [{"id": "t0c1", "tool": "tell"}]}
    plan["approval"] |= {"callId": "t0-plan", "approvers": ["legal"], "arguments": steps}
    ends = {"type": "tool_end", "tool": "tell"}
    entries = log(
        {"type": "message", "callId": None, "message": {"role": "user", "content": "Pay."}},
        plan,
        call("t0c1", "of a plan for others"),
        {**ends, "callId": "t0c1"},
        call("t0c2", "that needed no approval"),
        {**ends, "callId": "t0c2"},
        call("t1c2", "for others"),
        call("t1c3", "which is not asked yet"),
        asks(),
        theirs,
        {**decided("edit"), "callId": "t1c2"},
    )

    def shown(*rights: Any) -> str:
        access = RunAccess(APPROVER, frozenset(rights))
        history = history_of(entries, "order-7", "t1c1", access)
        lines = [*history.lead_up, *history.earlier_decisions]
        return " ".join(f"{line.word} {line.text} {line.body}" for line in lines)

    assert shown("decide").count("tell") == 1
    assert "Pay." in shown("decide")
    assert "that needed no approval" in shown("decide")
    assert shown("decide", "read").count("tell") == 5
    assert "decided t1c2" in shown("decide", "read")


def opened_by(access: RunAccess, call: str, seen: str = "") -> Request:
    """A request for the page or the stream of a call."""
    scope = {"type": "http", "path": "/", "query_string": f"seen={seen}".encode(), "headers": []}
    state = {"person": access.person, "access": access}
    return Request({**scope, "path_params": {"run": "order-7", "call": call}, "state": state})


async def test_the_stream_of_a_plan_shows_what_its_page_shows(
    nowhere: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan is for one group, and its second step also for another one."""
    steps = [{"id": id, "tool": "tell", "label": "Tell"} for id in ("t1c1", "t1c2")]
    plan, theirs = asks("plan"), {**asks(), "callId": "t1c2"}
    bound: dict[str, Any] = {
        "callId": "t1-plan",
        "approvers": ["finance"],
        "arguments": {"calls": steps},
    }
    plan["approval"] |= bound
    theirs["approval"] = {**theirs["approval"], "callId": "t1c2", "approvers": ["legal"]}
    of_plan = ({**one, "callId": "t1-plan"} for one in (plan, decided("approve")))
    results = list[dict[str, Any]]()
    for id, text in (("t1c1", "for finance"), ("t1c2", "for legal")):
        result = {"role": "tool", "callId": id, "content": text}
        results.append({"type": "tool_end", "tool": "tell", "callId": id})
        results.append({"type": "message", "callId": None, "message": result})
    entries = log(*of_plan, theirs, *results)

    async def describe(_: Run) -> Any:
        return description([], typed_search_attributes=[])

    async def report(*_: Any) -> CallReport:
        return CallReport(status=RunReport(status="running"), pending=[], entries=entries)

    async def observe(_: Run) -> Any:
        return RunDescription(("r", len(entries)), closed=False, streaming=None)

    async def no_other(*_: Any) -> None:
        return None

    for name, instead in {"describe": describe, "call": report, "observe": observe}.items():
        monkeypatch.setattr(Run, name, instead)
    monkeypatch.setattr(loader, "find_next_pending", no_other)
    pages = CallPages(Services(HoldfastClient(nowhere), permissions=RULES))

    async def shown(*rights: Any) -> str:
        request = opened_by(RunAccess(APPROVER, frozenset(rights)), "t1-plan", "over:")
        stream = await pages.changes(request)
        assert isinstance(stream, EventStream)
        sent = await anext(stream._frames)
        await stream._frames.aclose()
        outcome = "".join(re.findall("^data: (.*)", sent, re.M))
        page = bytes((await pages.show(request)).body).decode()
        assert "".join(outcome.split()) in "".join(page.split())
        return outcome

    # At the same time: who sees the same shares a reading of the run.
    whole, own = await asyncio.gather(shown("read", "decide"), shown("decide"))
    assert ("for finance" in whole, "for legal" in whole) == (True, True)
    assert ("for finance" in own, "for legal" in own) == (True, False)


async def test_the_stream_of_a_call_ends_once_it_is_for_others(
    nowhere: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    forwarded = question(approvers=["legal"])

    async def load(*_: Any) -> Any:
        return forwarded

    async def observe(_: Run) -> Any:
        return RunDescription(("r", 1), closed=False, streaming=None)

    monkeypatch.setattr(loader, "load_call", load)
    monkeypatch.setattr(Run, "observe", observe)
    access = RunAccess(APPROVER, frozenset({"decide"}))
    pages = CallPages(Services(HoldfastClient(nowhere), permissions=RULES))
    frames = [one async for one in pages._frames(opened_by(access, "t1c1"))]
    assert frames == [frame("over", "")]


REQUEST = {"agent": "desk", "input": "Pay."}


async def sent(
    nowhere: Client, rules: Permissions, id: str | None, *groups: str, **more: Any
) -> Any:
    """The response to a request for a run with this id; nothing starts one."""
    seal, parts = TextSealer(), Services(HoldfastClient(nowhere), permissions=rules)
    link = LinkSignIn(seal, "ann", groups)
    async with opened(parts, link, BearerTokens(seal, [])) as stage:
        await stage.http.get(link.address(stage.address))
        stage.form_token = seal.mark("form", "link ann")
        return await stage.send("/runs", {**REQUEST, **({"id": id} if id else {}), **more})


async def test_an_id_is_chosen_by_people_who_may_know_of_every_run(
    nowhere: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def exists(*_: Any) -> Any:
        raise RunExistsError("order-7")

    monkeypatch.setattr(HoldfastClient, "start_request", exists)
    refused = await sent(nowhere, RULES, "order-7", "support")
    assert refused.status_code == 403
    assert "do not include to choose an `id`, nor a token's `jti`: leave it out" in refused.text
    # Anyone can write a token, which the worker checks.
    token = jwt.encode({"jti": "order-7"}, "", "none")
    refused = await sent(nowhere, RULES, None, "support", principal={"token": token})
    assert refused.status_code == 403
    for rules in (RULES, Permissions()):
        assert (await sent(nowhere, rules, "order-7", "admins")).status_code == 409


@pytest.mark.parametrize(
    ("may", "status"), [(["read"], 201), (["message"], 403), (["decide"], 404)]
)
async def test_only_a_run_that_a_person_may_read_is_forked(
    nowhere: Client, monkeypatch: pytest.MonkeyPatch, may: list[Any], status: int
) -> None:
    rules = [
        PermissionRule(groups=["support"], agents=["desk"], may=["message"]),
        PermissionRule(groups=["support"], may=may),
    ]

    async def describe(run: Run) -> Any:
        return description([], typed_search_attributes=[])

    async def start(*_: Any) -> Any:
        return SimpleNamespace(id="order-8")

    monkeypatch.setattr(permissions, "HIDDEN_SECONDS", 0.0)
    monkeypatch.setattr(Run, "describe", describe)
    monkeypatch.setattr(HoldfastClient, "start_request", start)
    fork = {"run": "order-7", "turn": 1}
    answer = await sent(nowhere, Permissions(rules), None, "support", fork=fork)
    assert answer.status_code == status


@pytest.mark.parametrize(
    "id",
    [
        *(names.derived_id(kind, "0" * 64) for kind in ("agui", "http", "mcp")),
        *(f"{names.derived_id('agui', '0' * 64)}.t1c1", names.delegate_id("order-7", "t1c1.2")),
        *(names.memory_id("desk", None, inline=False), names.memory_id("desk", "a", inline=True)),
        *(names.budget_workflow_id("team", "all", "2026-03"), names.ABSENCES_ID),
    ],
)
async def test_no_id_that_a_key_or_a_thread_leads_to_is_taken(nowhere: Client, id: str) -> None:
    """Nor another one that Holdfast makes."""
    token = {"token": jwt.encode({"jti": id}, "", "none")}
    for taken in (
        await sent(nowhere, Permissions(), id),
        await sent(nowhere, Permissions(), None, principal=token),
    ):
        assert (taken.status_code, taken.json()["code"]) == (422, "invalid_request")


async def test_another_workflow_has_no_approvals(
    nowhere: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if it answers a query of that name."""

    async def none(run: Run) -> list[Any]:
        return []

    async def describe(run: Run) -> Any:
        raise RUNS["another workflow"]

    monkeypatch.setattr(Run, "describe", describe)
    monkeypatch.setattr(Run, "approvals", none)
    seal, parts = TextSealer(), Services(HoldfastClient(nowhere))
    link = LinkSignIn(seal, "ann")
    async with opened(parts, link, BearerTokens(seal, [])) as stage:
        await stage.http.get(link.address(stage.address))
        assert (await stage.get("/runs/order-7/approvals")).status_code == 404
