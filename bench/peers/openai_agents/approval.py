"""A refund that a person approves, on the OpenAI Agents SDK with Temporal's integration.

After https://docs.temporal.io/develop/python/integrations/openai-agents (the plugin, activities as
tools) and https://openai.github.io/openai-agents-python/human_in_the_loop (a run that stops with
interruptions, and continues from its state). That page's tools that need an approval are functions,
which run in the workflow, so this one executes its activity itself. The query and the signal are
the program's own.
"""

import asyncio
import os
import sys
from datetime import timedelta

from agents import Agent, Runner
from agents.decorators import tool
from agents.items import ToolApprovalItem
from pydantic import BaseModel
from scripted_model import MODEL
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.openai_agents import ModelActivityParameters, OpenAIAgentsPlugin
from temporalio.openai_agents.testing import TestModelProvider
from temporalio.openai_agents.workflow import activity_as_tool
from temporalio.worker import Worker

ONE_MINUTE = timedelta(minutes=1)


class Order(BaseModel):
    order_id: str
    total: float


class Receipt(BaseModel):
    refund_id: str


class Answer(BaseModel):
    refund_id: str
    text: str


@activity.defn
async def find_order(order_id: str) -> Order:
    """Find an order."""
    return Order(order_id=order_id, total=20)


@activity.defn
async def pay_back(order_id: str, amount: float) -> Receipt:
    print("refunded", order_id, amount, flush=True)
    return Receipt(refund_id=f"R-{order_id}")


@tool(needs_approval=True)
async def refund(order_id: str, amount: float) -> Receipt:
    """Refund an order."""
    return await workflow.execute_activity(
        pay_back,
        args=[order_id, amount],
        start_to_close_timeout=ONE_MINUTE,
        retry_policy=RetryPolicy(maximum_attempts=1),
    )


@workflow.defn
class SupportWorkflow:
    def __init__(self) -> None:
        self.pending: list[ToolApprovalItem] = []
        self.decisions: dict[str | None, bool] = {}

    @workflow.run
    async def run(self, prompt: str) -> Answer:
        agent = Agent(
            name="support",
            instructions="Refund what arrived broken.",
            tools=[activity_as_tool(find_order, start_to_close_timeout=ONE_MINUTE), refund],
            output_type=Answer,
        )
        result = await Runner.run(agent, prompt)
        while result.interruptions:
            self.pending, self.decisions = result.interruptions, {}
            await workflow.wait_condition(lambda: len(self.decisions) == len(self.pending))
            self.pending = []
            state = result.to_state()
            for item in result.interruptions:
                if self.decisions[item.call_id]:
                    state.approve(item)
                else:
                    state.reject(item)
            result = await Runner.run(agent, state)
        return result.final_output_as(Answer)

    @workflow.query
    def approvals(self) -> list[tuple[str | None, str | None, str | None]]:
        return [(item.call_id, item.name, item.arguments) for item in self.pending]

    @workflow.signal
    def decide(self, call_id: str, approved: bool) -> None:
        self.decisions[call_id] = approved


async def connect() -> Client:
    plugin = OpenAIAgentsPlugin(
        model_params=ModelActivityParameters(start_to_close_timeout=ONE_MINUTE),
        model_provider=TestModelProvider(MODEL),
    )
    return await Client.connect(os.environ["TEMPORAL_ADDRESS"], plugins=[plugin])


async def work() -> None:
    worker = Worker(
        await connect(),
        task_queue="support",
        workflows=[SupportWorkflow],
        activities=[find_order, pay_back],
    )
    print("ready", flush=True)
    await worker.run()


async def ask() -> None:
    client = await connect()
    run = await client.start_workflow(
        SupportWorkflow.run, "Order 7 arrived broken.", id="order-7", task_queue="support"
    )
    while not (pending := await run.query(SupportWorkflow.approvals)):
        await asyncio.sleep(0.1)
    for call_id, name, arguments in pending:
        answer = await asyncio.to_thread(input, f"{name} {arguments}? ")
        await run.signal(SupportWorkflow.decide, args=[call_id, answer == "y"])
    print((await run.result()).refund_id)


if __name__ == "__main__":
    asyncio.run(work() if sys.argv[1:] == ["worker"] else ask())
