"""Two runs side by side, on a page and over HTTP: for a person who may read both."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from holdfast.client.records.run_diff import RecordedRun, compare
from holdfast.schemas.internal.run_comparison import ComparedRun
from holdfast.schemas.settings.inbox import PermissionRule
from holdfast.web.auth.permissions import Permissions
from holdfast.web.run.comparison import MAX_SHOWN_CHARS, comparison_view
from tests.client.records.test_run_diff import called
from tests.client.records.test_run_diff import run as recorded
from tests.support.backend import SIDE_BY_SIDE, Run, backend
from tests.support.inbox import Stage, inbox
from tests.support.model_server import Answer, call

pytestmark = pytest.mark.usefixtures("ledger")
SECRET = "for bob alone"
RULES = Permissions(
    [
        PermissionRule(principals=["ann"], may=["read", "decide"]),
        PermissionRule(principals=["eve"], may=["message"]),
    ]
)


@pytest.fixture
async def stage(client: Client) -> AsyncIterator[Stage]:
    async with inbox(client, permissions=RULES) as made:
        yield made


async def test_it_needs_read_of_both_runs(client: Client, stage: Stage, tmp_path: Path) -> None:
    def answer(_: int, body: dict[str, Any]) -> Answer:
        has_result = any(one["role"] == "tool" for one in body["messages"])
        return Answer("Done.") if has_result else Answer(calls=[call("echo", text=SECRET)])

    async with backend(client, tmp_path, answer, **SIDE_BY_SIDE) as made:
        runs = dict[str, Run]()
        for name in ("ann", "ann", "bob", "eve"):
            run = await made.start(["echo"], principal={"id": name})
            await run.result()
            runs["other" if name in runs else name] = run
        own = runs["ann"].id
        codes = {}
        for name, run in runs.items():
            told = await stage.http.get(f"/runs/{own}/diff/{run.id}")
            shown = await stage.get(f"/run/{own}/diff?other={run.id}")
            codes[name] = (told.status_code, shown.status_code)
            if name == "other":
                found = told.json()
                assert found["equal"]
                assert found["calls"][0]["first"]["arguments"]["text"] == SECRET
                assert "Calls: 1 equal. The runs are equal." in shown.text
            elif name != "ann":
                assert SECRET not in told.text + shown.text
        assert codes == {
            "ann": (200, 200),
            "other": (200, 200),
            "bob": (404, 404),
            "eve": (403, 403),
        }
        missing = await stage.http.get(f"/runs/{own}/diff/unknown")
        assert (missing.status_code, missing.json()["code"]) == (404, "no_such_run")
        hidden = await stage.http.get(f"/runs/{runs['bob'].id}/diff/{own}")
        assert hidden.status_code == 404
        empty = await stage.get(f"/run/{own}/diff")
        assert 'name="other"' in empty.text


def test_a_page_has_a_bound() -> None:
    long = "x" * 3_000
    turns = [[("pay", {"note": f"{number}{long}"})] for number in range(300)]
    others = [[("pay", {"note": f"{number}{long}y"})] for number in range(300)]
    found = compare(recorded("a", called(*turns)), recorded("b", called(*others)))
    values = comparison_view(found)
    texts = [
        one.before + one.after
        for _, rows in values["turns"]
        for row in rows
        for one in row.differences
    ]
    assert sum(map(len, texts)) <= MAX_SHOWN_CHARS
    assert values["first_hidden"] == len(values["turns"]) + 1
    empty = RecordedRun(ComparedRun(run="a", status="completed"))
    assert comparison_view(compare(empty, empty))["first_hidden"] is None
