"""Links that decide (§7): shown to everyone who has one, and used once."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from temporalio.client import Client

from holdfast.client.holdfast_client import HoldfastClient
from holdfast.runtime.decision_links import KIND, LINK_SECRET
from holdfast.runtime.text_sealer import TextSealer
from holdfast.web.app import DecisionPages, application
from holdfast.web.auth.permissions import Permissions
from holdfast.web.auth.sessions import BearerTokens
from holdfast.web.auth.sign_in import LinkSignIn
from holdfast.web.services import Services
from tests.support.backend import Launch, Run
from tests.support.eventually import eventually
from tests.support.inbox import PAGE, opened
from tests.support.model_server import Answer, call
from tests.support.news_receivers import Listening, listening

SECRET = "a secret of thirty-two characters"
PAYS = [Answer(calls=[call("pay", amount=5)]), Answer("done")]
Inbox = Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]


@asynccontextmanager
async def inbox(client: Client, **more: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A browser without a session at an inbox with the secret of the links; it sends what a page
    without a referrer sends."""
    parts, seal = Services(HoldfastClient(client), **more), TextSealer()
    app = application(parts, *DecisionPages(parts, SECRET).routes)
    async with opened(parts, LinkSignIn(seal, "ann"), BearerTokens(seal, ()), app=app) as stage:
        headers = {**PAGE, "origin": "null"}
        async with httpx.AsyncClient(
            base_url=stage.address, headers=headers, verify=False
        ) as browser:
            yield browser


@pytest.fixture
async def program() -> AsyncIterator[Listening]:
    async with listening() as found:
        yield found


@pytest.fixture
async def pending(
    program: Listening, launch: Launch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Run, str]:
    """A run with a pending call, and the path of the link to it that grace was sent."""
    monkeypatch.setenv("URL", program.url)
    monkeypatch.setenv(LINK_SECRET, SECRET)
    person = {"by": "grace", "groups": ["finance"]}
    webhook = {"urlEnv": "URL", "format": "teams", "links": person}
    file = tmp_path / "notify.json"
    channels = {"desk": {"webhook": webhook}}
    file.write_text(json.dumps({"inbox": "https://inbox.x", "channels": channels}))
    worker = await launch(PAYS, notifiers=file)
    agent = {"approval": {"approvers": ["finance"], "quorum": 2}}
    run = await worker.start(["pay"], agent=agent)

    async def link() -> str | None:
        if not program.heard:
            return None
        [attachment] = program.heard[0].json["attachments"]
        [action] = attachment["content"]["actions"]
        return str(action["url"])

    found = await eventually(link)
    await run.waiting()
    assert found.startswith("https://inbox.x/decide/")
    return run, found.removeprefix("https://inbox.x")


async def decided_by(run: Run) -> list[str]:
    [one] = await run.waiting()
    return [each["by"] for each in one["decisions"]]


async def test_a_link_shows_the_call_and_decides_once_in_the_name_of_its_person(
    client: Client, pending: tuple[Run, str], ledger: Path
) -> None:
    run, link = pending
    async with inbox(client) as browser, inbox(client) as other:
        # What a mail scanner fetches decides nothing.
        assert (await browser.head(link)).status_code == 200
        shown = await browser.get(link)
        assert shown.headers["referrer-policy"] == "no-referrer"
        assert shown.headers["cache-control"] == "no-store"
        for text in ("grace", "finance", "Pay", "2 people must approve", 'value="deny"'):
            assert text in shown.text
        assert await decided_by(run) == []
        assert (await browser.post(link, data={"reason": "x"})).status_code == 400
        # At one inbox, and again at another: the run takes it once.
        for each in (browser, other):
            answer = await each.post(link, data={"about": "approve"})
            assert (answer.status_code, "Recorded; 1 more" in answer.text) == (200, True)
        other_way = await browser.post(link, data={"about": "deny"})
        assert (other_way.status_code, "was used before" in other_way.text) == (409, True)
        assert await decided_by(run) == ["grace"]
        await run.decide("t1c1", "approve", by="bob", groups=["finance"])
        assert (await run.result())["output"] == "done"
        late = await browser.post(link, data={"about": "deny"})
        assert (late.status_code, "no longer pending" in late.text) == (409, True)
    assert len(ledger.read_text().splitlines()) == 1


async def test_a_link_decides_on_what_it_was_sent_for_and_as_far_as_its_person_may(
    client: Client, pending: tuple[Run, str]
) -> None:
    run, link = pending
    async with inbox(client, permissions=Permissions([])) as browser:
        for answer in (await browser.get(link), await browser.post(link, data={"about": "deny"})):
            assert (answer.status_code, "There is no run" in answer.text) == (409, True)
    edit = {"arguments": {"amount": 500}, "by": "bob", "groups": ["finance"]}
    await run.decide("t1c1", "edit", **edit)
    async with inbox(client) as browser:
        for answer in (await browser.get(link), await browser.post(link, data={"about": "deny"})):
            assert (answer.status_code, "has changed" in answer.text) == (409, True)
    assert await decided_by(run) == ["bob"]


async def test_what_was_not_sealed_for_this_or_has_expired_opens_nothing(nowhere: Client) -> None:
    values = {"call": f"run/t1c1/{'d' * 64}/{'n' * 64}", "by": "grace", "groups": []}
    good = TextSealer(SECRET).seal(KIND, values, 60)
    async with inbox(nowhere) as browser:
        for token in (
            good[:-8],
            f"{good}====",  # it would count as another link
            TextSealer("another").seal(KIND, values, 60),
            TextSealer(SECRET).seal("session link", values, 60),
            TextSealer(SECRET).seal(KIND, values, -1),
            TextSealer(SECRET).seal(KIND, {**values, "call": "run"}, 60),
        ):
            for answer in (
                await browser.get(f"/decide/{token}"),
                await browser.post(f"/decide/{token}", data={"about": "approve"}),
            ):
                assert answer.status_code == 403
                assert "this link has expired, or is not complete" in answer.text.lower()
                assert answer.headers["referrer-policy"] == "no-referrer"
