"""What the page of a run is filled in with (§11): its name, its place in the log, its state."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
from starlette.requests import Request
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from holdfast.client.errors import NoWorkerError
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.schemas.run import RunReport
from holdfast.web.auth.permissions import RunAccess
from holdfast.web.auth.sessions import Person
from holdfast.web.run import routes
from holdfast.web.run.routes import RunPages
from holdfast.web.run.snapshot import LoadedRun, RunInfo
from holdfast.web.run.view import MAX_OUTPUT_CHARS, build_run_view, state_sections
from holdfast.web.services import Services

ACCESS = RunAccess(Person("ann"))
AT = datetime(2026, 3, 1, 14, 3, tzinfo=UTC)


class NoDelegates:
    """A server that lists none."""

    data_converter = pydantic_data_converter

    async def list_workflows(self, query: str, limit: int, **_: Any) -> AsyncIterator[Any]:
        nothing: list[Any] = []
        for none in nothing:
            yield none


async def shown(known: RunInfo, **more: Any) -> dict[str, Any]:
    server: Any = NoDelegates()
    return await build_run_view(
        Services(HoldfastClient(server)), LoadedRun(known, **more, has_answered=True), ACCESS
    )


def notice(n: int) -> dict[str, Any]:
    return {"n": n, "type": "notice", "at": "2026-03-01T14:03:07Z", "text": "So."}


@pytest.mark.parametrize(
    ("lead", "entries", "length", "last", "more"),
    [
        ([], [], 0, 0, False),
        ([notice(6), notice(7)], [], 7, 7, False),
        ([notice(6)], [notice(7), notice(8)], 8, 8, False),
        ([notice(6)], [notice(7), notice(8)], 9, 8, True),
    ],
    ids=["none", "nothing new", "all of it", "a part"],
)
async def test_a_page_knows_how_far_it_has_come(
    lead: list[Any], entries: list[Any], length: int, last: int, more: bool
) -> None:
    report = RunReport.read({"status": "running", "log": {"entries": length}})
    found = await shown(
        RunInfo("a", "desk", AT, "running"), report=report, earlier_entries=lead, entries=entries
    )
    assert (found["last"], found["has_more"]) == (last, more)


def test_state_is_shown_in_part() -> None:
    [(shared, text), (own, _)] = state_sections({"a": "x" * 50_000}, {"n\u202e1": 1})
    assert (shared, own, len(text)) == ("State", "State of n1", MAX_OUTPUT_CHARS)
    assert [name for name, _ in state_sections({}, {"n1": 1})] == ["State of n1"]
    assert [name for name, _ in state_sections(None, {})] == ["State"]


async def test_earlier_entries_without_an_answer_are_an_error(
    nowhere: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def silent(*_: Any) -> LoadedRun:
        return LoadedRun(RunInfo("a", "desk", AT, "running"), problem=NoWorkerError("q"))

    monkeypatch.setattr(routes, "take_snapshot", silent)
    asked = {"type": "http", "query_string": b"before=9", "path_params": {"run": "a"}}
    with pytest.raises(NoWorkerError):
        await RunPages(Services(HoldfastClient(nowhere))).earlier(Request(asked))
