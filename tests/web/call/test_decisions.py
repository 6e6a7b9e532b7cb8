"""The page of a pending call, with a run behind it: decisions and their outcomes."""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from temporalio.client import Client

from holdfast.client.run import PendingCall
from holdfast.client.run import Run as ClientRun
from holdfast.client.signing import Signer
from tests.support import tools
from tests.support.backend import SIDE_BY_SIDE, Backend, Run, backend
from tests.support.eventually import eventually
from tests.support.identity import signing
from tests.support.inbox import Stage, inbox
from tests.support.model_server import Answer, call
from tests.web.forms.submitting import changed, submitted

pytestmark = pytest.mark.usefixtures("ledger")

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
WHY = "It arrived <b>broken</b>."
ASKS = [
    Answer(calls=[call("pay_out", amount=20, currency="EUR", _reasoningForCall=WHY)]),
    Answer("completed"),
]


@pytest.fixture
async def desk(client: Client, tmp_path: Path) -> AsyncIterator["Openers"]:
    async with AsyncExitStack() as stack:
        yield Openers(stack, client, tmp_path)
        tools.write(tools.RELEASE)


class Openers:
    """Opens backends and inboxes, and closes them when a test is over."""

    def __init__(self, stack: AsyncExitStack, client: Client, folder: Path) -> None:
        self._stack, self._client, self._folder = stack, client, folder

    async def backend(self, answers: Any = None, **settings: Any) -> Backend:
        opened = backend(self._client, self._folder, answers or ASKS, **(SIDE_BY_SIDE | settings))
        return await self._stack.enter_async_context(opened)

    async def inbox(self, by: str = "ann", *groups: str, **more: Any) -> "Desktop":
        stage = inbox(self._client, by=by, groups=groups, **more)
        return Desktop(await self._stack.enter_async_context(stage))


class Desktop:
    """A person who opens pages of calls, and sends their forms as a browser does."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    async def open(self, run: Run, call_id: str = "t1c1", query: str = "") -> str:
        answer = await self.stage.get(f"/waiting/{run.id}/{call_id}{query}")
        assert answer.status_code == 200, answer.text
        return answer.text

    async def send(
        self, run: Run, form: list[tuple[str, str]], call_id: str = "t1c1", **more: str
    ) -> httpx.Response:
        fields: dict[str, Any] = {}
        for name, text in [*form, *more.items()]:
            fields.setdefault(name, []).append(text)
        return await self.stage.post(f"/waiting/{run.id}/{call_id}", fields)


async def events(desktop: Desktop, run: Run, seen: str) -> list[tuple[str, str]]:
    where = f"/waiting/{run.id}/t1c1/changes"
    async with (
        asyncio.timeout(120),
        desktop.stage.http.stream("GET", where, params={"seen": seen}) as answer,
    ):
        text = (await answer.aread()).decode()
    return re.findall(r"^event: (\w+)\n(.*?)\n\n", text, re.S | re.M)


def form(html: str, about: str) -> list[tuple[str, str]]:
    """What the button of a decision sends: of the form of its name, or of the one below all."""
    known = re.findall('<form id="([a-z_]+)"', html)
    owner = about if about in known else "again" if "again" in known else "decide"
    assert owner in known
    return submitted(html, owner, about)


def changed_to(form: list[tuple[str, str]], **texts: str) -> list[tuple[str, str]]:
    return [(name, texts.get(name, text)) for name, text in form]


def words(html: str) -> str:
    main = html[html.index("<main") : html.index("</main>")]
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", main)).split())


async def test_a_call_is_shown_approved_and_closed(
    desk: Openers, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await (await desk.backend()).start([PAY], principal={"id": "customer-9"})
    await run.waiting()
    ann = await desk.inbox("ann", "finance")
    answers: list[list[PendingCall]] = [[]]
    waiting = ClientRun.approvals

    async def a_moment_before(self: ClientRun) -> list[PendingCall]:
        return answers.pop() if answers else await waiting(self)

    # Requested between two queries of the page.
    monkeypatch.setattr(ClientRun, "approvals", a_moment_before)
    page = await ann.open(run)
    assert "Deny Approve: Pay money out · Amount in EUR 20 · Currency EUR" in words(page)
    assert "&lt;b&gt;broken&lt;/b&gt;" in page
    # No inline script, style or handler.
    assert not re.search(r"<script(?! src)|<style|\sstyle=|\son\w+=", page)

    eve = await desk.inbox("eve", "support")
    [asked] = await run.waiting()
    forged = [("about", "approve"), *((name, asked[name]) for name in ("digest", "nonce"))]
    answer = await eve.send(run, forged)
    assert answer.status_code == 422
    assert "only these groups decide" in words(answer.text)

    late = form(page, "deny")
    answer = await ann.send(run, form(page, "approve"))
    decided = f"/waiting/{run.id}/t1c1?decided"
    assert (answer.status_code, answer.headers["location"]) == (303, decided)
    await run.result()
    text = words(await ann.open(run))
    assert re.search(r"Approved by you \(unverified\) , .*? Executed\.", text)
    assert '"paid": 20.0' in text
    [decided] = [e["decided"] for e in await run.context() if e["type"] == "decision"]
    assert (decided["by"], decided["groups"]) == ("ann", ["finance"])

    answer = await ann.send(run, late, reason="Wait for the warehouse.")
    assert answer.status_code == 409
    text = words(answer.text)
    assert "Your decision was rejected: this call is no longer pending." in text
    assert "Wait for the warehouse." in text


async def test_an_approval_of_other_arguments_is_not_sent(desk: Openers) -> None:
    """Its digest is not that of the pending call as it is now."""
    run = await (await desk.backend()).start([PAY])
    [approval] = await run.waiting()
    desktop = await desk.inbox("ann", "finance")
    approve = form(await desktop.open(run), "approve")
    assert ("digest", approval["digest"]) in approve

    answer = await desktop.send(run, changed_to(approve, digest="0" * 64))

    assert answer.status_code == 409
    assert [one["digest"] for one in await run.waiting()] == [approval["digest"]]


async def test_an_unknown_outcome_is_reconciled_by_people(desk: Openers) -> None:
    backend = await desk.backend([Answer(calls=[call("wire", name="rent")]), Answer("completed")])
    runs = [await backend.start([WIRE]) for _ in range(2)]
    for run in runs:
        [waiting] = await run.waiting()
        assert waiting["kind"] == "reconcile"
    ann = await desk.inbox("ann")
    page = await ann.open(runs[0])
    result = changed(form(page, "happened"), text__result='{"paid": 20}', meant__result="json")
    assert (await ann.send(runs[0], result)).status_code == 303
    await runs[0].result()
    assert "paid" in str((await runs[0].results())["t1c1"])
    assert "It happened (you, unverified)" in words(await ann.open(runs[0]))

    page = await ann.open(runs[1], query="?again")
    again = changed_to(form(page, "did_not_happen"), reason="The bank has no such transfer.")
    assert (await ann.send(runs[1], again)).status_code == 303
    heard = await events(ann, runs[1], "over:0:::")
    assert "A decision is needed again." in heard[-2][1]
    page = await ann.open(runs[1])
    assert (await ann.send(runs[1], form(page, "give_up"))).status_code == 303
    await runs[1].result()
    assert (await runs[1].error())["code"] == "outcome_unknown"


async def test_a_call_runs_again_by_the_form_of_the_page_for_this_attempt(desk: Openers) -> None:
    """Neither by the form of another page, nor by that of another attempt, person or execution."""
    backend = await desk.backend([Answer(calls=[call("wire", name="rent")]), Answer("completed")])
    run = await backend.start([WIRE])
    ann, bob = [await desk.inbox(name) for name in ("ann", "bob")]
    await run.waiting()
    seen = form(await ann.open(run), "give_up")
    first, of_bob = [
        form(await one.open(run, query="?again"), "did_not_happen") for one in (ann, bob)
    ]
    tokens = (dict(of_bob)["again"], "2.", "")
    again = f"/waiting/{run.id}/t1c1?again"
    for verdict in ("did_not_happen", "approve"):
        for sent in (seen, *(changed_to(first, again=token) for token in tokens)):
            answer = await ann.send(run, changed_to(sent, about=verdict))
            assert (answer.status_code, answer.headers["location"]) == (303, again)
    assert len((await run.waiting())[0]["attempts"]) == 1

    assert (await ann.send(run, first)).headers["location"].endswith("?decided")

    async def is_unknown_again() -> bool:
        [waiting] = await run.waiting()
        return len(waiting["attempts"]) == 2

    await eventually(is_unknown_again)
    answer = await ann.send(run, first)
    assert answer.status_code == 409
    assert "Your decision was rejected: this one was made before it." in words(answer.text)
    assert not re.search('<form id="|[?]again', answer.text), (
        "a further click there decides nothing"
    )
    assert len((await run.waiting())[0]["attempts"]) == 2


async def test_a_plan_is_struck_and_edited_by_ticks_and_fields(desk: Openers) -> None:
    free = {**PAY, "_outputPath": "†state.paid"}
    backend = await desk.backend(
        [
            Answer(
                calls=[
                    call("pay_out", amount=1),
                    call("pay_out", amount=2),
                    call("pay_out", amount=3, note="†state.paid.paid"),
                ]
            ),
            Answer("completed"),
        ]
    )
    run = await backend.start([free], agent={"plan": "lazy"})
    await run.waiting()
    ann = await desk.inbox("ann", "finance")
    page = await ann.open(run, "t1-plan")
    plan = form(page, "edit")
    assert [text for name, text in plan if name == "keep"] == ["t1c1", "t1c2", "t1c3"]
    struck = [one for one in plan if one != ("keep", "t1c2")]
    checked = words((await ann.send(run, struck, "t1-plan", do="check")).text)
    assert "Step 2: Pay money out to be executed removed" in checked
    wrong = await ann.send(run, changed(struck, text__calls__t1c1__amount="-1"), "t1-plan")
    assert wrong.status_code == 422
    kept = form(wrong.text, "edit")
    assert [text for name, text in kept if name == "keep"] == ["t1c1", "t1c3"]
    sent = await ann.send(run, changed(kept, text__calls__t1c1__amount="5"), "t1-plan")
    assert sent.status_code == 303
    await run.signal("t1c3", "approve", by="ann", groups=["finance"])
    await run.result()
    assert [line.rsplit(" ", 1)[0] for line in tools.read()] == ["pay 5", "pay 3"]


async def test_an_inbox_with_a_key_signs_and_one_without_asks_for_a_token(
    desk: Openers, tmp_path: Path
) -> None:
    key = Ed25519PrivateKey.generate()
    public = signing.Signer(key, "desk").jwk(alg="EdDSA", use="sig")
    (tmp_path / "keys.json").write_text(json.dumps({"keys": [public]}))
    backend = await desk.backend(keys=str(tmp_path / "keys.json"))
    run, other = [await backend.start([SIGNED]) for _ in range(2)]
    for one in (run, other):
        await one.waiting()
    signs = await desk.inbox("ann", signer=Signer(key, "desk"))
    page = await signs.open(run)
    assert "the inbox signs yours" in words(page)
    assert (await signs.send(run, form(page, "approve"))).status_code == 303
    await run.result()
    assert "Approved by you (signed)" in words(await signs.open(run))

    ann = await desk.inbox("ann")
    page = await ann.open(other)
    assert "Decisions must be signed: add your token." in words(page)
    for token in ("", "no.such.token"):
        answer = await ann.send(other, changed_to(form(page, "approve"), token=token))
        assert answer.status_code == 422
        assert "Decision rejected:" in words(answer.text)
    claims: dict[str, Any] = {
        "sub": "ann",
        "groups": [],
        "workflowId": other.id,
        "aud": "holdfast:decision",
    }
    claims["exp"] = int(time.time()) + signing.GOOD_FOR_SECONDS
    claims |= {name: (await other.waiting())[0][name] for name in ("digest", "nonce")}
    token = signing.Signer(key, "desk").signed(claims)
    assert (
        await ann.send(other, changed_to(form(page, "approve"), token=token))
    ).status_code == 303
    await other.result()
