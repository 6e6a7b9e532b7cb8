"""The list of pending approvals (§11, §13): its rows, its updates, several decisions at once."""

import re
from collections.abc import AsyncIterator
from datetime import timedelta
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from temporalio.client import Client

from holdfast.schemas import names
from holdfast.schemas.internal.selected_call import SelectedCall
from holdfast.schemas.settings.inbox import PermissionRule
from holdfast.web.auth.permissions import Permissions
from tests.client.crowd import Asks, Crowd
from tests.support.backend import SIDE_BY_SIDE, Backend, Run, backend
from tests.support.eventually import eventually
from tests.support.inbox import Stage, inbox
from tests.support.model_server import Answer, call

pytestmark = pytest.mark.usefixtures("ledger")

LONG = "dear ada, " * 60
TOOLS: list[dict[str, Any]] = [
    {"_tool": "refund_it", "_label": "Refund <it>", "_activity": "pay", "_sideEffects": True},
    {"_tool": "tell", "_activity": "echo", "_approval": {"require": "always"}},
    {
        "_tool": "wipe",
        "_activity": "echo",
        "_approval": {"require": "always", "approvers": ["ops"]},
    },
    {"_tool": "sign", "_activity": "echo", "_approval": {"require": "always", "signed": True}},
    {
        "_tool": "both",
        "_activity": "echo",
        "_approval": {"require": "always", "approvers": ["finance"], "quorum": 2},
    },
]
ASKS = [
    call("refund_it", amount=20),
    call("tell", text=LONG),
    call("wipe", text="all"),
    call("sign", text="x"),
    call("both", text="x"),
]


def answers(turn: int, _: dict[str, Any]) -> Answer:
    return Answer(calls=ASKS)


@pytest.fixture
async def made(client: Client, tmp_path: Path) -> AsyncIterator[Backend]:
    async with backend(client, tmp_path, answers, **SIDE_BY_SIDE) as made:
        yield made


@pytest.fixture
async def stage(client: Client) -> AsyncIterator[Stage]:
    async with inbox(client, groups=["finance"]) as stage:
        yield stage


async def run_of(made: Backend, agent: str) -> Run:
    run = await made.start(TOOLS, agent={"name": agent}, principal={"id": "ada"})
    await run.waiting(len(ASKS))
    await run.listed()
    return run


def rows_of(page: httpx.Response) -> list[str]:
    assert page.status_code == 200, page.text
    found = re.findall(r"<li class=\"(?:row|card).*?</li>", page.text, re.S)
    return [" ".join(unescape(re.sub(r"<[^>]+>", " ", row)).split()) for row in found]


def choices_of(page: httpx.Response) -> list[str]:
    return re.findall(r'name="chosen" value="([^"]+)"', page.text)


async def test_what_is_selected_in_a_row_is_what_its_run_asks(made: Backend, stage: Stage) -> None:
    run = await run_of(made, "desk")
    page = await stage.get(f"/?run={run.id}")
    assert ">5 pending approvals of 1 run that match the filter<" in page.text
    assert re.search(r"<title>\([0-9]+\) Approvals · ", page.text)
    assert [SelectedCall.parse(one) for one in choices_of(page)] == [
        SelectedCall(run.id, one["callId"], one["digest"], one["nonce"])
        for one in await run.waiting(5)
        if one["callId"] in ("t1c1", "t1c5")
    ]


async def test_who_may_only_decide_sees_and_decides_what_is_for_their_groups(
    client: Client, made: Backend
) -> None:
    run = await run_of(made, "desk")
    path = f"/waiting/{quote(run.id, safe='')}"
    rules = Permissions([PermissionRule(agents=["desk"], may=["decide"])])
    async with inbox(client, groups=["ops"], permissions=rules) as stage:
        found = rows_of(await stage.get(f"/?run={run.id}"))
        assert [row.split(" ")[0] for row in found] == ["Refund", "tell", "wipe", "sign"]
        told = (await stage.http.get(f"/runs/{run.id}/approvals")).json()["approvals"]
        [wipe] = [one for one in told if one["tool"] == "wipe"]
        assert f"{path}/t1c5" not in (await stage.get(f"{path}/t1c3")).text
        for call in ("t1c5", "t9c9"):
            assert (await stage.get(f"{path}/{call}")).status_code == 404
        form = {"about": "deny", "reason": "No.", "digest": wipe["digest"]}
        form["nonce"] = wipe["nonce"]
        assert (await stage.post(f"{path}/t1c5", form)).status_code == 404
        assert (await stage.post(f"{path}/t1c3", form)).status_code == 303
        assert "Denied by you" in (await stage.get(f"{path}/t1c3")).text
        assert (await stage.get(f"/run/{run.id}")).status_code == 403
        again = {"callId": "t1c3", "decision": "deny", "digest": wipe["digest"]}
        repeated = await stage.send(f"/runs/{run.id}/decisions", again)
        assert (repeated.status_code, repeated.json()["code"]) == (409, "already_decided")
    of_another = Permissions([PermissionRule(agents=["others"], may=["read", "decide"])])
    async with inbox(client, groups=["ops"], permissions=of_another) as stage:
        assert (await stage.get(f"{path}/t1c1")).status_code == 404
        assert run.id not in (await stage.get("/")).text + (await stage.get("/run")).text


async def test_several_are_decided_at_once_and_each_shows_its_outcome(
    made: Backend, stage: Stage
) -> None:
    first, second, third = [await run_of(made, "desk") for _ in range(3)]
    chosen = []
    for run in (first, second, third):
        chosen += choices_of(await stage.get(f"/?run={run.id}"))
    marked = rows_of(await stage.get(f"/?run={third.id}"))
    twins = "and 1 more. They are never approved together without a second confirmation."
    assert [twins in row for row in marked] == [True] * 5
    await second.decide("t1c1", "deny", reason="No.", by="bob")
    changed = {"text": "y"}
    await third.decide("t1c5", "edit", arguments=changed, by="bob", groups=["finance"])

    approve = {"decision": "approve"}
    page = await stage.post("/?agent=desk", {"chosen": chosen, **approve})
    assert "Nothing is decided yet." in page.text, "those of the first and the third are identical"
    page = await stage.post("/?agent=desk", {"identical": chosen, **approve})
    said = rows_of(page)
    assert "Approved. Show the outcome" in said[0]
    assert f'<a href="/waiting/{quote(first.id, safe="")}/t1c1">Show the outcome' in page.text
    assert "Recorded; 1 more must approve." in said[1]
    assert "Not decided by you: it is no longer pending." in said[2]
    assert "Not decided: it has changed since it was shown to you." in said[5]
    assert "Your decision was accepted for 4 of 6 calls." in page.text
    assert '<a href="/?agent=desk">Pending approvals</a>' in page.text
    [waiting] = [one for one in await first.waiting() if one["callId"] == "t1c5"]
    [given] = waiting["decisions"]
    assert (given["by"], given["groups"], given["decision"]) == ("ann", ["finance"], "approve")
    again = rows_of(await stage.get(f"/?run={first.id}"))
    assert "You have already decided; other approvers must agree." in again[-1]
    call = f"/waiting/{quote(first.id, safe='')}/t1c5"
    assert "You have already decided" in (await stage.get(call)).text
    await first.decide("t1c5", "edit", arguments=changed, by="bob", groups=["finance"])
    assert "You have already decided" not in (await stage.get(call)).text, "an edit restarts it"
    later = await run_of(made, "desk")
    page = await stage.get(f"/waiting/{quote(later.id, safe='')}/t1c1")
    assert "An identical call was approved here" in page.text
    assert f'<a href="/waiting/{quote(first.id, safe="")}/t1c1">' in page.text


async def test_without_a_worker_everything_is_listed_with_that_reason_in_time(
    crowd: Crowd, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.client.remote_run.NO_WORKER_SECONDS", 4)
    await crowd.start(Asks(f"{n:02}", timedelta(minutes=n), tools=["ship.it"]) for n in range(30))
    page = await stage.get(f"/?agent={crowd.agent}")
    rows = rows_of(page)
    assert [row for row in rows if "Querying the run" in row] == rows
    assert "ship.it" in rows[0]
    assert [row.split()[-1] for row in rows] == [crowd.id(f"{n:02}") for n in range(25)]
    assert f'href="/run/{quote(crowd.id("00"), safe="")}"' in page.text
    assert ">30 runs with pending approvals that match the filter<" in page.text
    further = re.search(r'href="([^"]+)">Next page', page.text)
    assert further is not None
    rest = rows_of(await stage.get(unescape(further[1])))
    assert [row.split()[-1] for row in rest] == [crowd.id(f"{n:02}") for n in range(25, 30)]

    async def are_shown() -> bool:
        told = rows_of(await stage.get(f"/?agent={crowd.agent}"))
        return all("No worker answers queries on task queue unserved-" in row for row in told)

    assert await eventually(are_shown)


async def test_the_first_to_expire_is_first_with_its_expiry_in_words(
    crowd: Crowd, stage: Stage
) -> None:
    await crowd.start(
        [
            Asks("later", left=timedelta(days=2)),
            Asks("over", left=timedelta(minutes=-9)),
            Asks("soon", left=timedelta(minutes=50), groups=["finance", "the board"]),
            Asks("a-tenth", ago=timedelta(hours=20), left=timedelta(hours=2)),
            Asks("before", placed=False),
        ]
    )
    rows = rows_of(await stage.get(f"/?agent={crowd.agent}&order=expiring"))
    assert [row.split()[-1].rpartition("/")[2] for row in rows] == [
        "over",
        "soon",
        "a-tenth",
        "later",
        "before",
    ]
    assert ["expires soon" in row for row in rows] == [False, True, True, False, False]
    newest = await stage.get(f"/?agent={crowd.agent}")
    assert "2 runs need a decision within the hour" in newest.text
    assert f'href="/?order=expiring&amp;agent={crowd.agent}">sort by expiry' in newest.text
    of_board = await stage.get(f"/?agent={crowd.agent}&group=group:the+board")
    assert "1 run needs a decision within the hour" in of_board.text
    board = rows_of(of_board)
    assert [row.split()[-1] for row in board] == [crowd.id("soon")]


async def test_a_namespace_without_the_attributes_is_asked_run_by_run(
    made: Backend, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await stage.get("/")
    assert "namespace lacks" not in before.text
    older, newer = [await run_of(made, made.task_queue) for _ in range(2)]
    monkeypatch.setattr(names, "WAITING_ATTRIBUTES", ("NobodyKnows",))

    async def lacks(what: str) -> bool:
        return f"lacks search attributes for {what}" in (await stage.get("/?agent=x")).text

    await eventually(lambda: lacks("the times and approvers of pending calls"))

    async def rows(query: str, count: int) -> list[str] | None:
        """The rows, once all runs have answered: a page does not wait for one that is slow."""
        found = rows_of(await stage.get(f"/?{query}"))
        return found if len(found) == count else None

    of_both = f"agent={made.task_queue}&group=group:"
    found = await eventually(lambda: rows(f"{of_both}ops", 10))
    assert [newer.id in row.partition("Identical")[0] for row in found] == [True] * 5 + [False] * 5
    assert "10 pending approvals of 2 runs" in (await stage.get(f"/?{of_both}ops")).text
    strangers = await stage.get(f"/?{of_both}strangers")
    assert rows_of(strangers) == []
    assert "No pending approval matches this filter." in strangers.text

    monkeypatch.setattr(names, "AGENT_STATUS", "NobodyKnowsThis")
    await eventually(lambda: lacks("pending calls"))
    await eventually(lambda: rows(f"run={older.id}", 5))
