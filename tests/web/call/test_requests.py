"""The requests to Temporal of a call's page, with a run behind it."""

import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from temporalio import workflow
from temporalio.client import Client
from temporalio.service import ServiceClient

from holdfast.hosting.sdk_workarounds.shared_sandbox import Sandbox
from holdfast.schemas import names
from holdfast.workflows.agent import AgentWorkflow
from tests.support.backend import SIDE_BY_SIDE, Run, backend
from tests.support.inbox import Stage, inbox
from tests.support.model_server import Answer, call
from tests.web.call.test_decisions import ASKS, PAY

pytestmark = pytest.mark.usefixtures("ledger")

ROUND_TRIPS = ["describe_workflow_execution", "query_workflow call"]
APART = {
    "without_query": [
        *ROUND_TRIPS,
        *(f"query_workflow {one}" for one in ("approvals", "status", "context", "tool")),
    ],
    "without_room": [*ROUND_TRIPS, *(f"query_workflow {one}" for one in ("context", "tool"))],
}
PLAN = [Answer(calls=[call("pay_out", amount=n) for n in (1, 2)]), Answer("Paid.")]


class Requests:
    """The requests about runs that clients of this process send to Temporal."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent: list[tuple[str, str]] = []
        [kind] = ServiceClient.__subclasses__()
        send = kind._rpc_call

        async def count(client: Any, rpc: str, req: Any, *args: Any, **more: Any) -> Any:
            query = req.query.query_type if rpc == "query_workflow" else ""
            if hasattr(req, "execution"):
                self.sent.append((req.execution.workflow_id, f"{rpc} {query}".strip()))
            return await send(client, rpc, req, *args, **more)

        monkeypatch.setattr(kind, "_rpc_call", count)

    async def of_page(self, stage: Stage, run: Run, path: str = "t1c1") -> tuple[str, list[str]]:
        """The page of a call, and what was sent to show it."""
        self.sent.clear()
        answer = await stage.get(f"/waiting/{run.id}/{path}")
        assert answer.status_code == 200, answer.text
        return _text(answer.text), [request for about, request in self.sent if about == run.id]


def _text(page: str) -> str:
    """The page without what differs between two requests."""
    return re.sub(r'name="form_token" value="[^"]*"|\d+ s ago|just now', "", page)


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Requests:
    return Requests(monkeypatch)


@pytest.fixture
async def stage(client: Client) -> AsyncIterator[Stage]:
    async with inbox(client, groups=["finance"]) as stage:
        yield stage


async def test_a_page_of_a_call_is_two_round_trips_before_and_after_its_decision(
    client: Client, tmp_path: Path, stage: Stage, requests: Requests
) -> None:
    async with backend(client, tmp_path, ASKS, **SIDE_BY_SIDE) as made:
        run = await made.start([PAY])
        await run.waiting()
        page, sent = await requests.of_page(stage, run)
        assert sent == ROUND_TRIPS
        assert "Pay an amount out to a customer." in page
        await run.decide("t1c1", "approve", by="ann", groups=["finance"])
        await run.result()
        page, sent = await requests.of_page(stage, run)
        assert sent == ROUND_TRIPS
        assert "Executed." in page
        assert "<dt>Amount in EUR</dt>" in page, "the title of the schema, as before"


async def test_a_page_of_a_plan_needs_no_request_for_each_tool(
    client: Client, tmp_path: Path, stage: Stage, requests: Requests
) -> None:
    async with backend(client, tmp_path, PLAN, **SIDE_BY_SIDE) as made:
        run = await made.start([PAY], agent={"plan": "lazy"})
        await run.waiting()
        page, sent = await requests.of_page(stage, run, "t1-plan")
        assert sent == ROUND_TRIPS
        assert "A plan of 2 steps" in page


def without_query(patch: pytest.MonkeyPatch, workflow_class: Any) -> None:
    """Change a workflow to that of a worker of an earlier version."""
    known: Any = workflow._Definition.must_from_class(workflow_class).queries
    patch.delitem(known, names.CALL, raising=False)


def without_room(patch: pytest.MonkeyPatch, workflow_class: Any) -> None:
    """Change a workflow so that the parts of an answer do not fit."""
    patch.setitem(workflow_class.call.__globals__, "MAX_CALL_BYTES", 0)


@pytest.mark.parametrize("change", [without_query, without_room])
async def test_a_page_is_the_same_if_its_parts_are_queried_apart(
    client: Client,
    tmp_path: Path,
    stage: Stage,
    requests: Requests,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[pytest.MonkeyPatch, type], None],
) -> None:
    async with backend(client, tmp_path, ASKS, **SIDE_BY_SIDE) as made:
        run = await made.start([PAY])
        await run.waiting()
        page, _ = await requests.of_page(stage, run)
    sandboxed_class = Sandbox.sandboxed_class

    def changed(sandbox: Sandbox, outside: type) -> type:
        inside = sandboxed_class(sandbox, outside)
        if outside is AgentWorkflow:
            change(monkeypatch, inside)
        return inside

    monkeypatch.setattr(Sandbox, "sandboxed_class", changed)
    async with backend(client, tmp_path, ASKS, task_queue=made.task_queue, **SIDE_BY_SIDE):
        again, sent = await requests.of_page(stage, run)
        assert sent == APART[change.__name__]
        assert again == page
