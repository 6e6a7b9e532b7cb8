"""The home page: what each number counts, where it leads, and that many readers cost as one."""

import asyncio
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from temporalio.client import Client

from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.run import Run
from holdfast.client.run_lists import RunListing
from holdfast.schemas.names import AGENT_NAME
from holdfast.schemas.settings.inbox import PermissionRule
from holdfast.web import home
from holdfast.web.auth.permissions import Permissions
from holdfast.web.auth.sessions import Person
from holdfast.web.home import EndedRun, Figures, HomePage, costs
from holdfast.web.listing.page_query import AGES, ListView, find_page
from holdfast.web.listing.pending_runs import PendingList
from holdfast.web.services import Services
from tests.client.crowd import Asks, Crowd
from tests.support.backend import SIDE_BY_SIDE, backend
from tests.support.inbox import Stage
from tests.support.model_server import Answer
from tests.web.pages.rendering import response_of
from tests.web.pages.stated_runs import StatedRuns

NOW = datetime.now(UTC)


def ended(code: str, agent: str = "desk", cost: float | None = None, **more: Any) -> EndedRun:
    parent = more.pop("parent", None)
    run = RunListing(more.pop("id", "a"), "q", NOW, "failed", agent, parent=parent)
    return EndedRun(run, code, more.pop("turns", 1), cost)


def test_cost_is_by_agent_with_that_of_delegates_counted_once() -> None:
    runs = [
        ended("completed", "a&b", 0.5),
        ended("failed", "a&b", 0.25),
        ended("completed", "a&b"),
        ended("completed", "clerk", 0.2, id="x.t1c1", parent="x"),
        ended("completed", "clerk", 2, id="y", parent="another workflow"),
        ended("completed", "", turns=0),
    ]
    unstated = "(no currency)"
    assert costs(runs) == [
        ["clerk", 2, f"2.0000 {unstated}", 1, 0, None],
        ["a&b", 0.75, f"0.7500 {unstated}", 2, 1, None],
    ]


def test_a_run_is_listed_by_the_age_of_its_newest_approval() -> None:
    runs = [
        RunListing(str(hours), "q", NOW, "awaiting_approval", since=NOW - timedelta(hours=hours))
        for hours in (0, 2, 25, 100)
    ]
    pending = PendingList([*runs, RunListing("", "q", NOW, "awaiting_approval")], 5)
    views = [ListView.parse({"age": age}) for age in AGES]
    found = [find_page(pending, view, ()) for view in views]
    assert [[run.id for run in page.runs] for page in found] == [["0"], ["2"], ["25"], ["100"]]
    assert [page.count for page in found] == [1, 1, 1, 1]


async def test_each_number_is_that_of_its_link_and_is_read_once_for_all(
    client: Client, crowd: Crowd, stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_crowd = f' AND {AGENT_NAME} = "{crowd.agent}"'
    monkeypatch.setattr(home, "_ENDED", home._ENDED + of_crowd)
    await crowd.start([Asks("1"), Asks("2", ago=timedelta(days=2))])
    async with backend(client, tmp_path, [Answer("Done.")], **SIDE_BY_SIDE) as made:
        done = await made.start(agent={"name": crowd.agent})
        await done.result()
        await done.listed("completed")
    holdfast = HoldfastClient(client)
    shown = Figures(holdfast)
    found = await asyncio.gather(shown.read(of_crowd), shown.read(of_crowd))
    counts, before, [end] = found[0]
    assert before == 0
    assert {name: count for name, count in counts if count} == {
        "awaiting_approval": 2,
        "completed": 1,
    }
    assert (end.run.id, end.code, end.turns, end.cost) == (done.id, "completed", 1, None)

    async def of_another_program(*_: object, **__: object) -> None:
        raise RuntimeError("unknown encoding")

    with monkeypatch.context() as patched:
        patched.setattr(Run, "ending", of_another_program)
        assert await Figures(holdfast).read(None) == ([], 0, [EndedRun(end.run)])
    monkeypatch.setattr(holdfast, "count_runs", None)
    monkeypatch.setattr(holdfast, "list_runs", None)
    assert [await shown.read(of_crowd), found[1]] == [found[0]] * 2

    parts = Services(HoldfastClient(client))
    all_ = await shown_to(parts)
    links = [unescape(link) for link in re.findall(r'<th scope="row"><a href="([^"]+)"', all_)]
    assert {"/?age=hour", "/?age=days"} <= {*links}
    for link in links:
        assert (await stage.get(link)).status_code == 200, link
    assert (await stage.get("/?age=old")).status_code == 400

    of_agent = PermissionRule(agents=[crowd.agent], may=["read"])
    own = await shown_to(replace(parts, permissions=Permissions([of_agent])))
    rows = re.findall(r'<th scope="row"><a [^>]+>([^<]+)</a></th><td>([^<]+)</td>', own)
    assert {name: number for name, number in rows if number != "0"} == {
        "under 1 hour": "1",
        "1 to 3 days": "1",
        "waiting for approval": "2",
        "completed": "1",
        crowd.agent: "1 unknown",
    }
    none = await shown_to(replace(parts, permissions=Permissions([])))
    assert not re.findall(r"</th><td>([^<]+)</td>", none)
    assert "Runs by status" not in none


async def shown_to(parts: Services) -> str:
    """The home page of a person in no group."""
    scope: dict[str, Any] = {"type": "http", "path": "/home", "query_string": b"", "headers": []}
    scope["state"] = {"person": Person("ann")}
    return bytes((await HomePage(parts).show(Request(scope))).body).decode()


async def test_bars_compare_the_costs_of_one_currency() -> None:
    costs = {"EUR": 4, "JPY": 5_000, None: 0.5}
    ended = [
        {"code": "completed", "turns": 1, "cost": cost, "currency": code}
        for code, cost in costs.items()
    ]
    said = {"figures": {"ended": ended}, "open": "/home"}
    runs = StatedRuns(said, "order-7")
    with runs.answering():
        page = (await response_of(runs, said)).text
    chart = page[page.index("Cost by agent") :]
    assert re.findall(r'<rect width="([\d.]+)"', chart) == ["100.0"] * 3


async def test_figures_that_are_late_are_on_a_later_page(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(home, "ANSWER_SECONDS", 0.0)
    page = await stage.get("/home")
    assert (page.status_code, "still being read" in page.text) == (200, True)
    assert "Waiting for you" in page.text
