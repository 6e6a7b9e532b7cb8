"""Holdfast in the worker of a company that has work, plugins and a codec of its own."""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from temporalio import activity
from temporalio.client import Client
from temporalio.common import WorkerDeploymentVersion
from temporalio.plugin import SimplePlugin
from temporalio.worker import Worker, WorkerDeploymentConfig

from holdfast import HoldfastPlugin
from holdfast.hosting.options import WorkerSettings
from holdfast.hosting.plugin import PluginSettings
from holdfast.hosting.process_exit import StartError
from holdfast.testing import assert_replays
from tests.encryption.keys import NEW, key_file
from tests.encryption.reader import plain
from tests.library.acme.encoding import ENCODING, converter
from tests.library.acme.plugins import ACTIVITIES, WORKFLOWS, CompanyPlugin
from tests.library.acme.worker import plugins
from tests.library.acme.workflows.orders import ImpureWorkflow, OrderWorkflow
from tests.library.acme.workflows.triage import TriageWorkflow
from tests.support.backend import Run
from tests.support.eventually import eventually

BUILD = WorkerDeploymentConfig(WorkerDeploymentVersion("orders", "1"), use_worker_versioning=True)


class Company:
    """A client of the company."""

    def __init__(self, client: Client, task_queue: str) -> None:
        self.client, self.task_queue = client, task_queue

    async def start(self, workflow: Any, *args: Any) -> Run:
        """Start a workflow of the company."""
        handle = await self.client.start_workflow(
            workflow, args=args, id=f"order-{uuid.uuid4().hex[:8]}", task_queue=self.task_queue
        )
        return Run(handle, self.client)

    async def support(self, order: Run) -> Run:
        """Return the agent that is the child of an order, once it waits for its approval."""
        agent = Run(self.client.get_workflow_handle(f"{order.id}.support"), self.client)
        assert await eventually(lambda: _is_waiting(agent))
        return agent


@asynccontextmanager
async def company(
    client: Client, endpoints: Path, *, is_first: bool = False, task_queue: str = ""
) -> AsyncIterator[tuple[Company, CompanyPlugin]]:
    """Run the company's worker; with `is_first`, its other plugins follow that of Holdfast."""
    with_plugins = plugins(endpoints, is_first=is_first)
    [own] = [each for each in with_plugins if isinstance(each, CompanyPlugin)]
    theirs = await Client.connect(
        client.service_client.config.target_host, data_converter=converter, plugins=with_plugins
    )
    found = Company(theirs, task_queue or f"company-{uuid.uuid4().hex[:8]}")
    async with Worker(
        theirs, task_queue=found.task_queue, workflows=WORKFLOWS, activities=ACTIVITIES
    ):
        yield found, own


async def replay(*runs: Run, is_first: bool = False) -> None:
    """Replay the histories of runs with all plugins; none has a payload without the codec."""
    for run in runs:
        history = await run.handle.fetch_history()
        found = [place for event in history.events for place in plain(event, ENCODING)]
        # In the marker of a local activity, the SDK itself notes when it ran.
        assert [place for place in found if "marker_recorded_event_attributes" not in place] == []
        encoding = SimplePlugin("encoding", data_converter=converter)
        assert_replays(
            history, workflows=WORKFLOWS, plugins=[encoding, *plugins(is_first=is_first)]
        )


@pytest.mark.parametrize("is_first", [False, True], ids=["after-the-others", "before-the-others"])
async def test_agents_of_both_kinds_run_on_the_company_s_worker(
    client: Client, endpoints: Path, refunds: Path, is_first: bool
) -> None:
    async with company(client, endpoints, is_first=is_first) as (found, own):
        order = await found.start(OrderWorkflow.run, "7")
        triage = await found.start(TriageWorkflow.run, "It is broken!")
        agent = await found.support(order)
        [pending] = await agent.waiting()
        assert refunds.read_text() == ""
        await agent.decide(pending["callId"], "approve", by="ada")
        assert await triage.handle.result() == "urgent"
        customer = {"customer": "the customer of 7", "row": 7.0}
        assert await order.result() == {**customer, "reply": "It is refunded."}
        assert refunds.read_text() == "7\n"
        for kind in ("look_up_customer", "refund_order", "invoke_model_activity"):
            assert own.interceptor.counts[kind] == 1
        await replay(order, triage, agent, is_first=is_first)


async def test_a_run_continues_in_a_new_worker_of_the_company(
    client: Client, endpoints: Path, refunds: Path
) -> None:
    async with company(client, endpoints) as (found, _):
        order = await found.start(OrderWorkflow.run, "7")
        agent = await found.support(order)
        [pending] = await agent.waiting()
    async with company(client, endpoints, task_queue=found.task_queue):
        await agent.decide(pending["callId"], "approve", by="ada")
        assert (await order.result())["reply"] == "It is refunded."
    assert refunds.read_text() == "7\n"
    await replay(order, agent)


async def test_the_company_s_sandbox_refuses_an_impure_line_as_before(
    client: Client, endpoints: Path
) -> None:
    async with company(client, endpoints) as (found, _):
        run = await found.start(ImpureWorkflow.run)

        async def is_refused() -> bool:
            return any(
                "RestrictedWorkflowAccessError"
                in event.workflow_task_failed_event_attributes.failure.application_failure_info.type
                for event in await run.history()
            )

        await eventually(is_refused)
        await run.handle.terminate()


SHOP = """
from temporalio import activity

@activity.defn
async def refund(order_id: str) -> str:
    return order_id
"""


@pytest.mark.parametrize(
    ("settings", "more", "wrong"),
    [
        ({"encryption": "encryption.yaml"}, {}, "another plugin replaces our codec"),
        ({}, {"deployment_config": BUILD}, "`default_versioning_behavior` must be PINNED"),
    ],
    ids=["codec", "build"],
)
async def test_what_would_be_lost_on_the_worker_keeps_it_from_being_made(
    client: Client,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: PluginSettings,
    more: dict[str, Any],
    wrong: str,
) -> None:
    key_file(tmp_path, [NEW])
    monkeypatch.chdir(tmp_path)
    with_plugins = [HoldfastPlugin(**settings), SimplePlugin("theirs", data_converter=converter)]
    address = client.service_client.config.target_host
    theirs = await Client.connect(address, plugins=with_plugins)
    with pytest.raises(ValueError, match=wrong):
        Worker(theirs, task_queue="orders", **more)


async def test_an_activity_with_the_name_of_a_tool_keeps_the_worker_from_being_made(
    client: Client, endpoints: Path, tmp_path: Path
) -> None:
    """It would replace the tool; that of the tool itself may be registered twice."""
    (tmp_path / "shop.py").write_text(SHOP)
    found: dict[str, Any] = {}
    exec(compile(SHOP, str(tmp_path / "shop.py"), "exec"), found)  # as a second import

    @activity.defn(name="refund")
    async def other(order_id: str) -> str:
        return order_id

    plugin = HoldfastPlugin(tools=[str(tmp_path / "shop.py")], endpoints=endpoints)
    theirs = await Client.connect(client.service_client.config.target_host, plugins=[plugin])
    with pytest.raises(StartError, match=r"shop.py:4: .*another activity `refund`, which would"):
        Worker(theirs, task_queue="orders", activities=[other])
    worker = Worker(theirs, task_queue="orders", activities=[found["refund"]])
    assert worker.task_queue == "orders"


def test_the_plugin_has_all_settings_but_those_that_temporal_s_worker_has() -> None:
    named = {each.name for each in fields(WorkerSettings)} - PluginSettings.__annotations__.keys()
    of_client = {"converter", "plugins"}
    of_worker = {"task_queue", "graceful_timeout", "deployment", "build", "health", "cached_runs"}
    of_worker |= {"processes", "sticky_timeout"}
    assert named == of_client | of_worker


async def _is_waiting(run: Run) -> bool:
    try:
        return bool(await run.handle.query("approvals"))
    except Exception:  # it has not started yet
        return False
