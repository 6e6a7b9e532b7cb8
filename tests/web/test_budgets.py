"""What people see of the budgets that runs share: in the terminal, over HTTP and in the inbox."""

import uuid
from typing import Any

import pytest
from temporalio.client import Client

from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.shared_budgets import read_budgets
from holdfast.schemas.internal.shared_budgets import BudgetView
from holdfast.schemas.names import BUDGET_WORKFLOW
from holdfast.web import home
from holdfast.web.api import lists
from holdfast.web.auth.permissions import Permissions
from holdfast.web.services import Services
from tests.support.backend import Launch
from tests.support.command import Holdfast
from tests.support.eventually import eventually
from tests.support.inbox import Stage
from tests.support.model_server import Answer
from tests.web.test_home import shown_to
from tests.workflows.commands.test_over_budget import FIFTY, budget, start, uses


async def test_what_is_used_is_listed(
    launch: Launch, holdfast: Holdfast, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = budget(max_tokens=1_000, max_runs=9)
    backend = await start(launch, own, [Answer("Done.", usage=FIFTY)])
    await (await backend.start()).result()
    await uses(backend.client, own)

    [view] = [
        each for each in await read_budgets(HoldfastClient(backend.client)) if each.name == own.name
    ]
    assert (view.scope, view.lines()) == ("all", ["50 of 1,000 tokens", "1 of 9 runs"])
    table = (await holdfast("budgets")).out
    [row, _] = [line.split() for line in table.splitlines() if own.name in line]
    assert row == [own.name, "all", view.window, "50", "of", "1,000", "tokens"]
    assert own.name in (await holdfast("budgets", "--json")).out
    answer = (await stage.http.get("/budgets?limit=100")).json()
    assert view.to_json() in answer["budgets"]
    # The budgets of other tests, whose workers have stopped, are in this namespace too.
    monkeypatch.setattr(home, "MAX_BUDGETS", 1_000)
    monkeypatch.setattr(home, "_RUN_SECONDS", 60)
    monkeypatch.setattr(home, "ANSWER_SECONDS", 60)
    page = await shown_to(Services(HoldfastClient(backend.client)))
    assert f"{own.name} <small>all, {view.window}</small></th><td>50 of 1,000 tokens</td>" in page
    none = await shown_to(Services(HoldfastClient(backend.client), permissions=Permissions([])))
    assert own.name not in none


async def test_pages_of_the_api_have_each_window_once(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [("ada@x.com", "2026-03"), ("ada2@x.com", "2026-03"), ("ada2@x.com", "2026-04")]
    views = [BudgetView(name="b", scope=scope, window=window) for scope, window in places]

    async def read(*_: Any) -> list[BudgetView]:
        return views

    monkeypatch.setattr(lists, "read_budgets", read)
    found = list[tuple[str, str]]()
    after: Any = ""
    for _ in places:
        answer = (await stage.http.get("/budgets", params={"limit": 1, "after": after})).json()
        found += [(each["scope"], each["window"]) for each in answer["budgets"]]
        after = answer.get("next")
    assert (found, after) == (sorted(places), None)


async def test_a_budget_whose_worker_does_not_answer_is_listed_without_its_use(
    client: Client, holdfast: Holdfast
) -> None:
    id = f"holdfast-budget/left-{uuid.uuid4().hex[:8]}/ann%40acme%2Eorg/2026-03"
    await client.start_workflow(BUDGET_WORKFLOW, {}, id=id, task_queue="nobody")

    async def listed() -> list[str] | None:
        lines = (await holdfast("budgets")).out.splitlines()
        return next((line.split() for line in lines if id.split("/")[1] in line), None)

    row = await eventually(listed)
    assert " ".join(row[1:]) == "ann@acme.org 2026-03 its worker does not answer"
    await client.get_workflow_handle(id).terminate()
