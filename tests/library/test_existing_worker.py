"""Holdfast in the worker of a company that has workflows, activities and a codec of its own."""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.worker import Replayer, Worker

from holdfast import HoldfastPlugin
from holdfast.hosting.options import WorkerSettings
from holdfast.hosting.plugin import PluginSettings
from tests.library.acme.activities import REFUNDS, look_up_customer, refund_order
from tests.library.acme.encoding import ENCODING, CountingInterceptor, converter
from tests.library.acme.workflows import ImpureWorkflow, OrderWorkflow
from tests.support.backend import Run
from tests.support.eventually import eventually
from tests.support.model_server import Answer, call, serve

AGENT = """---
model: {endpoint: fake, name: any}
tools: [refund]
---
Refund broken orders.
"""
TOOL = """
_tool: refund
_activity: refund_order
_sideEffects: true
properties: {orderId: {type: string}}
required: [orderId]
"""


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    """The folder of the company's agents."""
    for name, text in {"agents/support.md": AGENT, "tools/refund.yaml": TOOL}.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return tmp_path


class Company:
    """A worker of the company, and its client."""

    def __init__(self, client: Client, task_queue: str) -> None:
        self.client, self.task_queue = client, task_queue
        self.interceptor = CountingInterceptor()

    async def start(self, workflow: Any, *args: Any) -> Run:
        """Start a workflow of the company."""
        handle = await self.client.start_workflow(
            workflow, args=args, id=f"order-{uuid.uuid4().hex[:8]}", task_queue=self.task_queue
        )
        return Run(handle, self.client)


@asynccontextmanager
async def company(client: Client, catalog: Path, **more: Any) -> AsyncIterator[Company]:
    """Run the company's worker, with an agent that refunds order 7."""
    answers = [Answer(calls=[call("refund", orderId="7")]), Answer("It is refunded.")]
    with serve(answers) as model:
        endpoints = catalog / "endpoints.yaml"
        endpoints.write_text(f"fake: {{provider: openai, baseUrl: '{model.url}'}}\n")
        plugin = HoldfastPlugin(catalog=catalog, endpoints=endpoints, **more.pop("settings", {}))
        theirs = await Client.connect(
            client.service_client.config.target_host, data_converter=converter, plugins=[plugin]
        )
        found = Company(theirs, f"company-{uuid.uuid4().hex[:8]}")
        async with Worker(
            theirs,
            task_queue=found.task_queue,
            workflows=[OrderWorkflow, ImpureWorkflow],
            activities=[look_up_customer, refund_order],
            interceptors=[found.interceptor],
            **more,
        ):
            yield found


async def test_an_agent_is_a_child_of_the_company_s_workflow(client: Client, catalog: Path) -> None:
    REFUNDS.clear()
    async with company(client, catalog) as found:
        order = await found.start(OrderWorkflow.run, "7")
        agent = Run(found.client.get_workflow_handle(f"{order.id}.support"), found.client)
        [pending] = await eventually(lambda: _pending(agent))
        assert pending["tool"] == "refund"
        assert REFUNDS == []
        await agent.decide(pending["callId"], "approve", by="ada")
        assert await order.result() == {
            "customer": "the customer of 7",
            "output": "It is refunded.",
        }
        assert REFUNDS == ["7"]
        assert found.interceptor.counts["look_up_customer"] == 1
        assert found.interceptor.counts["refund_order"] == 1
        for run in (order, agent):
            history = await run.handle.fetch_history()
            started = history.events[0].workflow_execution_started_event_attributes
            assert [each.metadata["encoding"] for each in started.input.payloads] == [ENCODING]
            replayer = Replayer(
                workflows=[OrderWorkflow], plugins=[HoldfastPlugin()], data_converter=converter
            )
            await replayer.replay_workflow(history)


def test_the_plugin_has_all_settings_but_those_that_temporal_s_worker_has() -> None:
    named = {each.name for each in fields(WorkerSettings)} - PluginSettings.__annotations__.keys()
    assert named == {"task_queue", "graceful_timeout", "version", "health", "cached_runs"}


async def _pending(run: Run) -> list[dict[str, Any]]:
    try:
        found: list[dict[str, Any]] = await run.handle.query("approvals")
    except Exception:  # it has not started yet
        return []
    return found


async def test_the_company_s_sandbox_refuses_an_impure_line_as_before(
    client: Client, catalog: Path
) -> None:
    async with company(client, catalog) as found:
        run = await found.start(ImpureWorkflow.run)

        async def is_refused() -> bool:
            return any(
                "RestrictedWorkflowAccessError"
                in event.workflow_task_failed_event_attributes.failure.application_failure_info.type
                for event in await run.history()
            )

        await eventually(is_refused)
        await run.handle.terminate()
