"""The page of one waiting call, and what comes of a decision that is sent from it (§7)."""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from holdfast.client.run_handle import RunHandle
from holdfast.client.signing import Signer
from holdfast.schemas.decision import Decision, PendingApproval, Receipt
from holdfast.schemas.names import NO_SUCH_CALL
from holdfast.web.decision_sender import DecisionNotSent, send
from holdfast.web.pages import address
from holdfast.web.services import Services
from tests.inbox.stage import Stage, inbox
from tests.inbox.submitting import changed, submitted
from tests.support import signers, tools
from tests.support.eventually import eventually
from tests.support.house import SIDE_BY_SIDE, House, Run, house
from tests.support.model_server import Answer, call

PAY: dict[str, Any] = {
    "_tool": "pay_out",
    "_label": "Pay money out",
    "description": "Pay an amount out to a customer.",
    "_activity": {"type": "pay"},
    "_sideEffects": True,
    "_approval": {"approvers": ["finance"]},
    "properties": {
        "amount": {
            "type": "number",
            "title": "Amount in EUR",
            "description": "What the customer gets.",
            "exclusiveMinimum": 0,
            "maximum": 500,
        },
        "currency": {"enum": ["EUR", "USD"]},
        "note": {"type": "string"},
    },
    "required": ["amount"],
}
WIRE: dict[str, Any] = {
    "_tool": "wire",
    "_label": "Wire money",
    "_activity": {"type": "held_payment", "startToCloseTimeout": "500ms"},
    "_sideEffects": True,
    "_approval": {"require": "never"},
    "properties": {"name": {"type": "string"}},
}
SIGNED = {**PAY, "_approval": {"signed": True}}
TWO_AGREE = {**PAY, "_approval": {"quorum": 2, "notBy": "principal"}}
WHY = "It arrived <b>broken</b>."
ASKS = [
    Answer(calls=[call("pay_out", amount=20, currency="EUR", _reasoningForCall=WHY)]),
    Answer("done"),
]


@pytest.fixture(autouse=True)
def ledger(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the tools write down what they did."""
    monkeypatch.setenv(tools.LEDGER, str(tmp_path_factory.mktemp("ledger") / "ledger"))


@pytest.fixture
async def desk(client: Client, tmp_path: Path) -> AsyncIterator["Desk"]:
    """A worker whose model asks for 20 euros to be paid out, and Ann's inbox."""
    async with AsyncExitStack() as stack:
        yield Desk(stack, client, tmp_path)
        tools.write(tools.RELEASE)


class Desk:
    """Opens houses and inboxes, and closes them when a test is over."""

    def __init__(self, stack: AsyncExitStack, client: Client, folder: Path) -> None:
        self._stack, self._client, self._folder = stack, client, folder

    async def house(self, answers: Any = None, **settings: Any) -> House:
        """A worker."""
        opened = house(self._client, self._folder, answers or ASKS, **(SIDE_BY_SIDE | settings))
        return await self._stack.enter_async_context(opened)

    async def inbox(self, by: str = "ann", *groups: str, **more: Any) -> "Desktop":
        """Somebody's inbox."""
        stage = inbox(self._client, by=by, groups=groups, **more)
        return Desktop(await self._stack.enter_async_context(stage))


class Desktop:
    """Somebody who opens pages of calls, and sends their forms as a browser does."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    async def open(self, run: Run, call_id: str = "t1c1") -> str:
        """The page of a call."""
        answer = await self.stage.get(f"/waiting/{run.id}/{call_id}")
        assert answer.status_code == 200, answer.text
        return answer.text

    async def send(
        self, run: Run, form: list[tuple[str, str]], call_id: str = "t1c1", **more: str
    ) -> httpx.Response:
        """Send a form of it."""
        fields: dict[str, Any] = {}
        for name, text in [*form, *more.items()]:
            fields.setdefault(name, []).append(text)
        return await self.stage.post(f"/waiting/{run.id}/{call_id}", fields)


async def events(desktop: Desktop, run: Run, seen: str) -> list[tuple[str, str]]:
    """What a page hears until there is nothing more to hear: each event's name and data."""
    where = f"/waiting/{run.id}/t1c1/changes"
    async with (
        asyncio.timeout(30),
        desktop.stage.http.stream("GET", where, params={"seen": seen}) as answer,
    ):
        text = (await answer.aread()).decode()
    return re.findall(r"^event: (\w+)\n(.*?)\n\n", text, re.S | re.M)


def form(html: str, about: str) -> list[tuple[str, str]]:
    """The form of a page that a decision is sent by."""
    found = [one for one in re.findall(r"<form.*?</form>", html, re.S) if f'"{about}"' in one]
    return next(each for each in map(submitted, found) if ("about", about) in each)


def changed_to(form: list[tuple[str, str]], **texts: str) -> list[tuple[str, str]]:
    """The form with other texts in controls that belong to no value."""
    return [(name, texts.get(name, text)) for name, text in form]


def words(html: str) -> str:
    """What a page says, its markup and white space left out."""
    main = html[html.index("<main") : html.index("</main>")]
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", main)).split())


async def test_the_page_answers_what_somebody_asks_who_is_to_decide(desk: Desk) -> None:
    run = await (await desk.house()).start([PAY], principal={"id": "customer-9"})
    await run.waiting()
    said = words(page := await (await desk.inbox("ann", "finance")).open(run))
    for each in (
        "Shall this be done?",
        "Pay money out",
        "If it is approved, it is carried out, with exactly what stands here.",
        "What it would be done with",
        "It changes something outside of this run.",
        "it is started once",
        "Amount in EUR amount 20 What the customer gets. currency EUR",
        "Left out: note.",
        "Why, in the model's words It arrived <b>broken</b>. A model wrote this.",
        "Members of finance decide.",
        "If nobody decides by then, it is denied",
        "Approve: Pay money out, 20, EUR",
        "by the agent tester , on behalf of customer-9 .",
        "What led to it",
    ):
        assert each in said
    assert said.index("Approve: Pay money out") < said.index("Always approve “Pay money out”")
    assert "&lt;b&gt;broken&lt;/b&gt;" in page
    # Nothing of a page runs or is drawn by what stands in it itself.
    assert not re.search(r"<script(?! src)|<style|\sstyle=|\son\w+=", page)


async def test_a_single_call_is_asked_by_no_agent_and_read_of_by_no_model(desk: Desk) -> None:
    made = await desk.house()
    run = await made.call(PAY, {"amount": 20, "currency": "EUR"}, principal={"id": "customer-9"})
    await run.waiting()
    ann = await desk.inbox("ann", "finance")
    said = words(page := await ann.open(run))
    for each in (
        "by a single call , which no agent made, on behalf of customer-9 .",
        "By A single call: no agent, and no model",
        "Whoever started the call reads this.",
        "If nobody decides by then, it is denied, and not carried out.",
    ):
        assert each in said
    for each in ("by the agent", "(no name)", "not known", "The model reads", "Always approve"):
        assert each not in said
    denied = await ann.send(run, form(page, "deny"), reason="She has it already.")
    assert denied.status_code == 303
    assert (await run.failure()).type == "denied"
    assert re.search(r"You denied it , .*? It was not carried out\.", words(await ann.open(run)))


async def test_what_is_approved_is_carried_out_and_told(desk: Desk) -> None:
    run = await (await desk.house()).start([PAY])
    await run.waiting()
    ann = await desk.inbox("ann", "finance")
    answer = await ann.send(run, form(await ann.open(run), "approve"))
    assert (answer.status_code, answer.headers["location"]) == (303, f"/waiting/{run.id}/t1c1")
    await run.result()
    said = words(await ann.open(run))
    assert re.search(r"You approved it , .*? It was carried out\.", said)
    assert "What came of it" in said
    assert '{"paid": 20.0}' in said or '"paid": 20.0' in said
    [decided] = [e["decided"] for e in await run.context() if e["type"] == "decision"]
    assert (decided["by"], decided["groups"]) == ("ann", ["finance"])


async def test_a_denial_has_a_reason_and_an_answer_is_the_result(desk: Desk) -> None:
    house = await desk.house(
        [Answer(calls=[call("pay_out", amount=1), call("pay_out", amount=2)]), Answer("done")]
    )
    run = await house.start([PAY])
    await run.waiting(2)
    ann = await desk.inbox("ann", "finance")
    denied = await ann.send(run, form(await ann.open(run), "deny"), reason="Not before Friday.")
    assert denied.status_code == 303
    page = await ann.open(run, "t1c2")
    # A text is what most people mean: what else it can be is folded away.
    assert re.search(r'<details class="more-choices"><summary>More[^\0]*?"meant:/result"', page)
    answer = changed(form(page, "respond"), text__result="in cash")
    assert (await ann.send(run, answer, "t1c2")).status_code == 303
    await run.result()
    results = await run.results()
    assert "Not before Friday." in str(results["t1c1"])
    assert results["t1c2"] == "in cash"
    assert "It was not carried out: the answer is its result." in words(await ann.open(run, "t1c2"))
    assert tools.read() == []


async def test_an_edit_is_checked_before_it_is_sent_and_nothing_typed_is_lost(desk: Desk) -> None:
    run = await (await desk.house()).start([PAY])
    await run.waiting()
    before = len(await run.history())
    ann = await desk.inbox("ann", "finance")
    edit = form(await ann.open(run), "edit")
    typed = changed(edit, text__arguments__amount="12,50", text__arguments__note="Half <b>it</b>")
    answer = await ann.send(run, typed, reason="Half is enough.")
    assert answer.status_code == 422
    assert "Write a number in digits" in words(answer.text)
    assert words(answer.text).count("Amount in EUR :") == 1
    kept = form(answer.text, "edit")
    assert ("text:/arguments/amount", "12,50") in kept
    assert ("text:/arguments/note", "Half <b>it</b>") in kept
    assert ("reason", "Half is enough.") in kept

    too_much = await ann.send(run, changed(kept, text__arguments__amount="900"))
    assert too_much.status_code == 422
    assert "900 is greater than the maximum of 500" in words(too_much.text)

    checked = await ann.send(run, changed(kept, text__arguments__amount="12.5"), do="check")
    assert checked.status_code == 200
    assert "amount 20 12.5 note left out Half <b>it</b>" in words(checked.text)
    assert len(await run.history()) == before
    # The changes can be sent from where they are shown; what would drop them says so.
    within = checked.text[checked.text.index('<form id="edit"') :]
    [first, *_] = re.findall(r"<button[^>]*>", within)
    assert 'name="do" value="check"' in first, "it is what the key Enter presses"
    shown = within[within.index('id="checked"') :]
    assert shown.index("Approve with these changes") < shown.index("Approve as it was asked, with")
    assert "Approve: Pay money out" not in words(checked.text)

    assert (await ann.send(run, form(checked.text, "edit"))).status_code == 303
    await run.result()
    assert [line.rsplit(" ", 1)[0] for line in tools.read()] == ["pay 12.5"]
    [entry] = [e for e in await run.context() if e["type"] == "decision"]
    assert entry["arguments"] == {"amount": 12.5, "currency": "EUR", "note": "Half <b>it</b>"}


async def test_nothing_changed_is_no_edit(desk: Desk) -> None:
    run = await (await desk.house()).start([PAY])
    await run.waiting()
    ann = await desk.inbox("ann", "finance")
    answer = await ann.send(run, form(await ann.open(run), "edit"))
    assert answer.status_code == 422
    assert "Nothing was changed." in words(answer.text)


async def test_what_looks_wrong_is_said_once_and_not_refused(desk: Desk) -> None:
    to = {"type": "string", "format": "email"}
    mail = {**PAY, "properties": {**PAY["properties"], "to": to}}
    run = await (await desk.house()).call(mail, {"amount": 20, "to": "ada@example.com"})
    await run.waiting()
    ann = await desk.inbox("ann", "finance")
    page = await ann.open(run)
    assert "Look again" not in words(page)
    answer = await ann.send(run, changed(form(page, "edit"), text__arguments__to="ada"))
    assert answer.status_code == 422
    assert "Nothing was sent yet." in words(answer.text)
    assert "Look again: this does not look like an e-mail address." in words(answer.text)
    other = changed(form(answer.text, "edit"), text__arguments__to="grace")
    assert (await ann.send(run, other)).status_code == 422
    assert (await ann.send(run, form(answer.text, "edit"))).status_code == 303
    await run.result()
    [entry] = [e for e in await run.context() if e["type"] == "decision"]
    assert entry["arguments"] == {"amount": 20, "to": "ada"}
    at_run = await ann.stage.get(f"/run/{run.id}")
    assert 'Pay money out: amount=20 to="ada"' in words(at_run.text)


async def test_who_may_not_decide_is_told_why_and_given_no_button(desk: Desk) -> None:
    house = await desk.house()
    run, own = await house.start([PAY]), await house.start([TWO_AGREE], principal={"id": "Ann"})
    for one in (run, own):
        await one.waiting()
    ann = await desk.inbox("ann", "support")
    said = await ann.open(run)
    assert "Only members of finance decide on this. You are in support" in words(said)
    assert "This run acts on your behalf" in words(await ann.open(own))
    assert '"about"' not in said
    forged = [("about", "approve"), ("digest", (await run.waiting())[0]["digest"])]
    answer = await ann.send(run, forged)
    assert answer.status_code == 422
    assert "only these groups decide" in words(answer.text)


async def test_of_two_people_who_decide_the_second_sees_who_was_first(desk: Desk) -> None:
    run = await (await desk.house()).start([PAY])
    await run.waiting()
    ann, bob = await desk.inbox("ann", "finance"), await desk.inbox("bob", "finance")
    late = form(await bob.open(run), "deny")
    await ann.send(run, form(await ann.open(run), "approve"))
    answer = await bob.send(run, late, reason="Wait for the warehouse.")
    assert answer.status_code == 409
    said = words(answer.text)
    assert "Your decision was not taken: this waits no longer." in said
    assert "ann approved it" in said
    assert "Wait for the warehouse." in said


async def test_two_must_agree_on_the_same_and_see_what_the_other_changed(desk: Desk) -> None:
    run = await (await desk.house()).start([TWO_AGREE])
    await run.waiting()
    ann, bob = await desk.inbox("ann"), await desk.inbox("bob")
    shown = form(await bob.open(run), "deny")
    edit = changed(form(await ann.open(run), "edit"), text__arguments__amount="10")
    assert (await ann.send(run, edit)).status_code == 303
    own = words(await ann.open(run))
    assert "You have decided already." in own
    assert "2 people must agree" in own

    answer = await bob.send(run, shown, reason="Too much.")
    assert answer.status_code == 409
    said = words(answer.text)
    assert "ann has changed it." in said
    assert "amount 20 10" in said
    again = form(answer.text, "deny")
    assert ("reason", "Too much.") in again
    assert (await bob.send(run, form(answer.text, "approve"))).status_code == 303
    await run.result()
    assert [line.rsplit(" ", 1)[0] for line in tools.read()] == ["pay 10"]


async def test_what_nobody_decided_in_time_says_so(desk: Desk) -> None:
    house = await desk.house()
    run = await house.start([{**PAY, "_approval": {"timeout": "100ms"}}])
    await run.result()
    alike = await house.start([{**PAY, "_approval": {}}])
    await alike.waiting()
    ann = await desk.inbox("ann")
    late = form(await ann.open(alike), "approve")  # the form of the same call, while it waited
    answer = await ann.send(run, late)
    assert answer.status_code == 409
    assert "Nobody decided in time" in words(answer.text)
    assert tools.read() == []


async def test_of_a_call_that_may_have_happened_people_say_what_they_know(desk: Desk) -> None:
    house = await desk.house([Answer(calls=[call("wire", name="rent")]), Answer("done")])
    runs = [await house.start([WIRE]) for _ in range(2)]
    for run in runs:
        [waiting] = await run.waiting()
        assert waiting["kind"] == "reconcile"
    ann = await desk.inbox("ann")
    page = await ann.open(runs[0])
    for each in ("Did this happen?", "It was started at", f"{runs[0].id} t1c1", "happens twice"):
        assert each in words(page)
    result = changed(form(page, "happened"), text__result='{"paid": 20}', meant__result="json")
    assert (await ann.send(runs[0], result)).status_code == 303
    await runs[0].result()
    assert "paid" in str((await runs[0].results())["t1c1"])
    assert "You said that it happened" in words(await ann.open(runs[0]))

    assert "time that this is asked" not in words(page)
    first = form(await ann.open(runs[1]), "did_not_happen")
    assert (await ann.send(runs[1], first)).status_code == 303
    heard = await events(ann, runs[1], "over:0:::")
    assert "It asks again." in heard[-2][1]
    page = await ann.open(runs[1])
    assert "This is the second time that this is asked" in words(page)
    assert "You said that it did not happen, so it is carried out again, " in words(page)
    assert (await ann.send(runs[1], form(page, "give_up"))).status_code == 303
    await runs[1].result()
    assert (await runs[1].error())["code"] == "outcome_unknown"
    said = words(await ann.open(runs[1]))
    assert re.search(r"You gave it up , .*? nobody knows whether it happened\.", said)
    assert "It was asked before: You said that it did not happen" in said


async def test_what_comes_of_a_decision_is_followed_until_it_is_done(desk: Desk) -> None:
    held = {**WIRE, "_activity": {"type": "held_payment"}, "_approval": {"approvers": []}}
    run = await (await desk.house([Answer(calls=[call("wire", name="rent")]), Answer("ok")])).start(
        [held]
    )
    await run.waiting()
    ann = await desk.inbox("ann")
    await ann.send(run, form(await ann.open(run), "approve"))

    async def begun() -> bool:
        return bool(tools.read())

    await eventually(begun)
    page = await ann.open(run)
    assert "It has begun, and has not ended yet." in words(page)
    [address_] = re.findall(r'sse-connect="[^"]*seen=([^"]*)"', page)
    tools.write("open rent")
    heard = await events(ann, run, unquote(address_))
    assert [name for name, _ in heard][-2:] == ["outcome", "over"]
    assert "It was carried out." in heard[-2][1]
    assert "sse-connect" not in await ann.open(run)


async def test_a_plan_is_struck_and_edited_by_ticks_and_fields(desk: Desk) -> None:
    free = {**PAY, "_outputPath": "†state.paid"}
    house = await desk.house(
        [
            Answer(
                calls=[
                    call("pay_out", amount=1),
                    call("pay_out", amount=2),
                    call("pay_out", amount=3, note="†state.paid.paid"),
                ]
            ),
            Answer("done"),
        ]
    )
    run = await house.start([free], agent={"plan": "lazy"})
    await run.waiting()
    ann = await desk.inbox("ann", "finance")
    page = await ann.open(run, "t1-plan")
    assert "3 steps" in words(page)
    for before in ("Members of finance decide.", "If nobody decides by then"):
        assert page.count(before) == 1
        assert page.index(before) < page.index("Approve what is ticked")
    plan = form(page, "edit")
    assert [text for name, text in plan if name == "keep"] == ["t1c1", "t1c2", "t1c3"]
    said = "changes something outside of this run Pay an amount out to a customer. After steps 1"
    assert f"3. Pay money out t1c3 {said}" in words(page)
    assert "the “paid” of what steps 1 and 2 give not known until then †state.paid.paid" in words(
        page
    )
    none = [one for one in plan if one not in [("keep", "t1c1"), ("keep", "t1c2")]]
    for more in ({"do": "check"}, {}):
        lacking = words((await ann.send(run, none, "t1-plan", **more)).text)
        assert "Step 3 (Pay money out) uses what step 1 (Pay money out) and step 2" in lacking
        assert "Leave out step 3 as well, or change what it uses." in lacking
    struck = [one for one in plan if one != ("keep", "t1c2")]
    checked = words((await ann.send(run, struck, "t1-plan", do="check")).text)
    assert "Step 2: Pay money out would be carried out left out" in checked
    as_it_is = words((await ann.send(run, plan, "t1-plan", do="check")).text)
    assert "Nothing is left out or changed" in as_it_is
    wrong = await ann.send(run, changed(struck, text__calls__t1c1__amount="-1"), "t1-plan")
    assert wrong.status_code == 422
    kept = form(wrong.text, "edit")
    assert [text for name, text in kept if name == "keep"] == ["t1c1", "t1c3"]
    sent = await ann.send(run, changed(kept, text__calls__t1c1__amount="5"), "t1-plan")
    assert sent.status_code == 303
    await run.result()
    assert [line.rsplit(" ", 1)[0] for line in tools.read()] == ["pay 5", "pay 3"]
    over = words(await ann.open(run, "t1-plan"))
    assert "1. Pay money out t1c1 : carried out" in over
    assert "2. Pay money out t1c2 : left out: not carried out 3. Pay" in over
    assert "What was changed in it" in over


async def test_what_is_asked_while_somebody_looks_is_not_taken_for_withdrawn(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await (await desk.house()).start([PAY])
    await run.waiting()
    answers: list[list[PendingApproval]] = [[]]
    waiting = RunHandle.pending_approvals

    async def a_moment_before(self: RunHandle) -> list[PendingApproval]:
        return answers.pop() if answers else await waiting(self)

    monkeypatch.setattr(RunHandle, "pending_approvals", a_moment_before)
    assert "Shall this be done?" in words(await (await desk.inbox("ann")).open(run))


async def test_what_waits_in_another_run_too_is_said_before_it_is_done_twice(desk: Desk) -> None:
    house = await desk.house()
    once, twice, other = [
        await house.start([PAY], principal={"id": f"{house.task_queue}-{who}"}) for who in "aab"
    ]
    for run in (once, twice, other):
        await run.waiting()
    ann = await desk.inbox("ann", "finance")

    async def said() -> str | None:
        page = await ann.open(once)
        return page if twice.id in page else None

    page = await eventually(said)
    assert "The very same waits in another run too." in words(page)
    assert f'href="/waiting/{twice.id}/t1c1"' in page
    assert other.id not in page
    await twice.decide("t1c1", "edit", arguments={"amount": 7}, by="bob", groups=["finance"])
    await twice.result()
    assert "waits in another run" not in words(await ann.open(once))


async def test_a_budget_is_extended_set_or_the_run_ended(desk: Desk) -> None:
    looks = [Answer(calls=[call("look_up", id=n)]) for n in range(3)]
    house = await desk.house([*looks, Answer("done")])
    agent = {"budget": {"maxCalls": 1}, "onLimit": {"maxCalls": "ask"}}
    run = await house.start(["look_up"], agent=agent)
    [waiting] = await run.waiting()
    ann = await desk.inbox("ann")
    page = await ann.open(run, waiting["callId"])
    assert "used up" in words(page), words(page)[:900]
    assert "Extend: calls from 1 to 3" in words(page)
    edit = changed(form(page, "edit"), text__arguments__maxCalls="9")
    assert (await ann.send(run, edit, waiting["callId"])).status_code == 303
    assert (await run.result())["calls"] == 3


async def test_buttons_give_a_form_other_fields_and_decide_nothing(desk: Desk) -> None:
    listed = {**PAY, "properties": {"names": {"type": "array", "items": {"type": "string"}}}}
    listed["required"] = []
    house = await desk.house([Answer(calls=[call("pay_out", names=["a"])]), Answer("done")])
    run = await house.start([listed])
    await run.waiting()
    ann = await desk.inbox("ann", "finance")
    edit = changed(form(await ann.open(run), "edit"), text__arguments__names__0="b")
    answer = await ann.send(run, edit, do="add:/arguments/names")
    assert answer.status_code == 200
    more = form(answer.text, "edit")
    assert [text for name, text in more if name.startswith("text:")] == ["b", ""]
    answer = await ann.send(run, more, do="drop:/arguments/names/0")
    assert [text for name, text in form(answer.text, "edit") if name.startswith("text:")] == [""]
    assert len(await run.waiting()) == 1


async def test_an_inbox_with_a_key_signs_and_one_without_asks_for_a_token(
    desk: Desk, tmp_path: Path
) -> None:
    key = Ed25519PrivateKey.generate()
    public = signers.Signer(key, "desk").jwk(alg="EdDSA", use="sig")
    (tmp_path / "keys.json").write_text(json.dumps({"keys": [public]}))
    house = await desk.house(keys=str(tmp_path / "keys.json"))
    run, other = [await house.start([SIGNED]) for _ in range(2)]
    for one in (run, other):
        await one.waiting()
    signs = await desk.inbox("ann", signer=Signer(key, "desk"))
    page = await signs.open(run)
    assert "yours is signed here" in words(page)
    assert (await signs.send(run, form(page, "approve"))).status_code == 303
    await run.result()
    assert "You approved it (signed)" in words(await signs.open(run))

    ann = await desk.inbox("ann")
    page = await ann.open(other)
    assert "Only a signed decision counts: add the token below." in words(page)
    for token in ("", "no.such.token"):
        answer = await ann.send(other, changed_to(form(page, "approve"), token=token))
        assert answer.status_code == 422
        assert "This was not decided:" in words(answer.text)
    claims = {"sub": "ann", "groups": [], "workflowId": other.id, "exp": int(time.time()) + 60}
    claims["digest"] = (await other.waiting())[0]["digest"]
    token = signers.Signer(key, "desk").signed(claims)
    assert (
        await ann.send(other, changed_to(form(page, "approve"), token=token))
    ).status_code == 303
    await other.result()


class Forgetful(RunHandle):
    """A run that does not know its question the first time, as after its worker's crash."""

    def __init__(self, waiting: dict[str, Any]) -> None:
        self.decided = 0
        self._waiting = PendingApproval.read(waiting)

    async def decide(self, decision: Decision) -> Receipt:
        self.decided += 1
        if self.decided == 1:
            raise ApplicationError("no call t1c1 waits", type=NO_SUCH_CALL)
        return Receipt(call_id="t1c1", decision="approve", decided=True)

    async def waiting(self) -> list[PendingApproval]:
        return [self._waiting]


async def test_a_run_that_has_forgotten_its_question_is_told_once_more(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await (await desk.house()).start([PAY])
    [waiting] = await run.waiting()
    forgetful = Forgetful(waiting)
    monkeypatch.setattr(Services, "run", lambda self, run_id: forgetful)
    given = {"callId": "t1c1", "decision": "approve", "digest": waiting["digest"]}
    decision = Decision.model_validate(given)
    parts = Services(run.handle._client)
    receipt = await send(parts, run.id, PendingApproval.read(waiting), decision)
    assert (receipt.decided, forgetful.decided) == (True, 2)
    forgetful.decided = 0
    other = decision.model_copy(update={"digest": "another"})
    with pytest.raises(DecisionNotSent, match="no call t1c1 waits"):
        await send(parts, run.id, PendingApproval.read(waiting), other)
    assert forgetful.decided == 1


async def test_where_nobody_answers_what_was_typed_can_be_sent_again(
    desk: Desk, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = await desk.inbox("ann", "finance")
    async with house(client, tmp_path, ASKS, task_queue="asking-gone") as gone:
        run = await gone.start([PAY])
        await run.waiting()
        typed = form(await ann.open(run), "deny")
    with monkeypatch.context() as impatient:
        impatient.setattr("holdfast.client.run_handle.NO_WORKER_SECONDS", 1.0)
        answer = await ann.send(run, typed, reason="Too late.")
    assert answer.status_code == 503
    assert "no worker answers" in words(answer.text).lower()
    assert "Too late." in words(answer.text)
    kept = submitted(re.findall(r"<form.*?</form>", answer.text, re.S)[-1])
    await desk.house(task_queue="asking-gone")

    async def taken() -> bool:
        return (await ann.send(run, kept[1:])).status_code in (303, 409)

    await eventually(taken)
    await run.result()
    assert "Too late." in str((await run.results())["t1c1"])


@pytest.mark.parametrize("path", ["/waiting/nowhere/t1c1", "/waiting/RUN/t9c9", "/waiting/x"])
async def test_what_is_not_there_says_so(desk: Desk, path: str) -> None:
    run = await (await desk.house()).start([PAY])
    await run.waiting()
    ann = await desk.inbox("ann")
    answer = await ann.stage.get(path.replace("RUN", run.id))
    assert answer.status_code == 404
    assert "no" in words(answer.text)


async def test_a_run_id_may_hold_any_character(desk: Desk) -> None:
    house = await desk.house()
    strange = 'order/7 "x" ü?#%2F'
    request = {"tool": PAY, "arguments": {"amount": 3}}
    handle = await house.client.start_workflow(
        "CallWorkflow", request, id=strange, task_queue=house.task_queue
    )
    run = Run(handle)
    await run.waiting()
    ann = await desk.inbox("ann", "finance")
    answer = await ann.stage.get(address("waiting", strange, "t1c1"))
    assert answer.status_code == 200
    sent = await ann.stage.post(
        address("waiting", strange, "t1c1"), dict(form(answer.text, "approve"))
    )
    assert sent.headers["location"] == address("waiting", strange, "t1c1")
    await run.result()
