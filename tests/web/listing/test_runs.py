"""The runs (§11): those that are open first, how each stands, and of those that failed, why."""

import re
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from temporalio.client import Client

from holdfast.schemas.run import RunStatus
from tests.client.crowd import Asks, Crowd
from tests.support.backend import SIDE_BY_SIDE, Backend, Run, backend
from tests.support.eventually import eventually
from tests.support.inbox import Stage
from tests.support.model_server import Answer
from tests.web.listing.test_page import rows_of


@pytest.fixture
async def made(client: Client, tmp_path: Path) -> AsyncIterator[Backend]:
    async with backend(client, tmp_path, [Answer("Done.")] * 100, **SIDE_BY_SIDE) as made:
        yield made


async def shown(stage: Stage, query: str, rows: int) -> list[str]:

    async def enough() -> list[str] | None:
        found = rows_of(await stage.get(f"/run?{query}"))
        return found if len(found) == rows else None

    return await eventually(enough)


async def test_runs_show_their_status_and_why_they_failed(made: Backend, stage: Stage) -> None:
    prefix = made.task_queue
    done = await start(made, f"{prefix}/done", "completed", "Says <done>")
    failed = await start(made, f"{prefix}/failed", "failed", tools=["nonesuch"])
    waits = await start(made, f"{prefix}/waits", "awaiting_message", conversation=True)
    rows = await shown(stage, f"run={quote(prefix)}", 3)
    assert [prefix in row for row in rows] == [True] * 3
    assert rows[0].startswith(f"{waits} waiting for a message")
    assert (
        f"{failed} failed invalid_request: `agent.tools[0]`: there is no tool `nonesuch`" in rows[1]
    )
    assert rows[2].startswith("Says <done> completed")
    assert rows[2].endswith(done)

    assert len(await shown(stage, f"run={quote(prefix)}&status=failed", 1)) == 1
    only = await shown(stage, f"agent={made.task_queue}&status=awaiting_message", 1)
    assert waits in only[0]
    await made.client.get_workflow_handle(waits).terminate(reason="It was <wrong>.")
    [ended] = await shown(stage, f"run={quote(waits)}&status=failed", 1)
    assert "terminated It was <wrong>." in ended


async def start(made: Backend, id: str, stands: RunStatus, summary: str = "", **agent: Any) -> str:
    """Start a run, and see it listed as it is to stand."""
    conversation = agent.pop("conversation", False)
    handle = await made.client.start_workflow(
        "AgentWorkflow",
        {
            "agent": {
                "name": made.task_queue,
                "instructions": "Test.",
                "model": {"endpoint": "fake", "name": "fake"},
                **agent,
            },
            "input": "go",
            "conversation": conversation,
        },
        id=id,
        task_queue=made.task_queue,
        static_summary=summary or None,
    )
    await Run(handle, made.client).listed(stands)
    return id


async def test_earlier_runs_stand_on_further_pages(crowd: Crowd, stage: Stage) -> None:
    for n in range(0, 28, 7):
        await crowd.start(Asks(f"{n + k:02}") for k in range(7))
    first = await stage.get(f"/run?agent={crowd.agent}")
    earlier = re.search(r'href="([^"]+)">Next page', first.text)
    assert earlier is not None
    second = await stage.get(unescape(earlier[1]))
    rows = rows_of(first) + rows_of(second)
    assert [len(rows_of(first)), len(rows_of(second))] == [25, 3]
    assert len({row.split()[0] for row in rows}) == 28
    assert "First page" in second.text
    assert {row.split()[0] for row in rows_of(second)} <= {crowd.id(f"{n:02}") for n in range(7)}


async def test_a_filter_without_matches_is_reported(stage: Stage) -> None:
    page = await stage.get("/run?agent=none-of-this-name")
    assert "No run matches this filter." in page.text
    # A status that cannot be searched for is none, and no part of a query.
    odd = await stage.get('/run?agent=none-of-this-name&status=x" OR "a" = "a')
    assert odd.status_code == 200
    assert "No run matches this filter." in odd.text
