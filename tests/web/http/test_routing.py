"""Addresses of runs, whose ids may hold any character: read as they were sent."""

from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Router
from temporalio.client import Client

from holdfast.web.http.requests import RunRoute
from holdfast.web.pages import address
from tests.support.backend import SIDE_BY_SIDE, backend
from tests.support.inbox import inbox
from tests.support.model_server import Answer

# Addresses that end as some of a page's own do, and what a path may hold.
IDS = ["a/news", "a/state", "changes", "a/b/changes", "events", "é#?%2F", "two\nlines", "a/entry/1"]
AGENT = {"name": "tester", "model": {"endpoint": "fake", "name": "fake"}}


async def _page(request: Request) -> Response:
    raise AssertionError(request)


def named(template: str, path: str) -> Any:
    """The id that a path names, by an address of this form; None: it is of another."""
    scope = {"type": "http", "method": "GET", "path": "/decoded", "raw_path": path.encode()}
    _, found = RunRoute(template, _page, None).matches(scope)
    return found.get("path_params", {"run": None}).get("run", "")


@pytest.mark.parametrize(
    ("template", "path", "run"),
    [
        ("/runs", "/runs", ""),
        ("/runs", "/runs/", None),
        ("/runs/{run}", "/runs/a", "a"),
        ("/runs/{run}", "/runs/a%2Fevents", "a/events"),
        ("/runs/{run}", "/runs/", None),
        ("/runs/{run}/events", "/runs/a/events", "a"),
        ("/runs/{run}/events", "/runs/a%2Fevents", None),
        ("/runs/{run}/events", "/runs/a/b/events", "a/b"),
        ("/runs/{run}/events", "/runs/events", None),
        ("/runs/{run}/events", "/runs//events", None),
        ("/runs/{run}/events", "/runs/%C3%A9%23/events", "é#"),
        ("/waiting/{run}/{call}", "/waiting/a%2Fchanges/t1c1", "a/changes"),
        ("/waiting/{run}/{call}/changes", "/waiting/a%2Ft1c1/changes", None),
    ],
)
def test_a_run_id_is_separated_from_the_rest_of_the_path(
    template: str, path: str, run: str | None
) -> None:
    assert named(template, path) == run


async def test_what_is_asked_otherwise_is_refused_and_not_taken_for_another() -> None:
    async def endpoint(request: Request) -> Response:
        return PlainTextResponse(request.path_params["run"])

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope: dict[str, Any] = {"type": "http", "method": "POST", "path": "/run/a", "headers": []}
    await Router([RunRoute("/run/{run}", endpoint, None)])(scope, _never, send)

    assert sent[0]["status"] == 405


async def _never() -> Any:
    raise AssertionError("nothing is read")


async def test_every_id_has_its_page_and_its_http(client: Client, tmp_path: Any) -> None:
    answers = [Answer("Done.") for _ in IDS]
    async with (
        inbox(client) as stage,
        backend(client, tmp_path, answers, **SIDE_BY_SIDE) as made,
    ):
        for run_id in IDS:
            whole = f"{made.task_queue}-{run_id}"
            asked = {"agent": AGENT, "input": "go"}
            run = await client.start_workflow(
                "AgentWorkflow", asked, id=whole, task_queue=made.task_queue
            )
            await run.result()
            page = await stage.get(address("run", whole))
            state = await stage.get(f"{address('run', whole)}/state")
            shown = await stage.http.get(address("runs", whole))

            assert f'data-here="{address("run", whole)}"' in page.text, whole
            assert (state.status_code, "<h1>State" in state.text) == (200, True), whole
            assert shown.json()["run"] == whole
