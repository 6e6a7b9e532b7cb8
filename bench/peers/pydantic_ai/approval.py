"""A refund that a person approves, on Pydantic AI with its Temporal durability.

After https://ai.pydantic.dev/durable_execution/temporal (the agent, its plugin, the settings of one
tool) and https://ai.pydantic.dev/deferred-tools (a run that ends with its requests for approval,
and continues with the decisions; the page's other way, a handler, takes as many lines). The query
and the signal are the program's own.
"""

import asyncio
import os
import sys
from datetime import timedelta

from pydantic import BaseModel
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ToolCallPart
from pydantic_ai.durable_exec.temporal import (
    PydanticAIPlugin,
    PydanticAIWorkflow,
    TemporalDurability,
)
from scripted_model import MODEL
from temporalio import workflow
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.worker import Worker
from temporalio.workflow import ActivityConfig


class Order(BaseModel):
    order_id: str
    total: float


class Receipt(BaseModel):
    refund_id: str


class Answer(BaseModel):
    refund_id: str
    text: str


ONCE = ActivityConfig(
    start_to_close_timeout=timedelta(minutes=1), retry_policy=RetryPolicy(maximum_attempts=1)
)
agent: Agent[None, Answer | DeferredToolRequests] = Agent(
    MODEL,
    name="support",
    instructions="Refund what arrived broken.",
    output_type=[Answer, DeferredToolRequests],
    capabilities=[TemporalDurability()],
)


@agent.tool_plain
async def find_order(order_id: str) -> Order:
    """Find an order."""
    return Order(order_id=order_id, total=20)


@agent.tool_plain(requires_approval=True, metadata={"temporal": ONCE})
async def refund(order_id: str, amount: float) -> Receipt:
    """Refund an order."""
    print("refunded", order_id, amount, flush=True)
    return Receipt(refund_id=f"R-{order_id}")


@workflow.defn
class SupportWorkflow(PydanticAIWorkflow):
    __pydantic_ai_agents__ = [agent]

    def __init__(self) -> None:
        self.pending: list[ToolCallPart] = []
        self.decisions: dict[str, bool] = {}

    @workflow.run
    async def run(self, prompt: str) -> Answer:
        result = await agent.run(prompt)
        while isinstance(result.output, DeferredToolRequests):
            self.pending, self.decisions = result.output.approvals, {}
            await workflow.wait_condition(lambda: len(self.decisions) == len(self.pending))
            self.pending = []
            result = await agent.run(
                message_history=result.all_messages(),
                deferred_tool_results=DeferredToolResults(approvals=dict(self.decisions)),
            )
        return result.output

    @workflow.query
    def approvals(self) -> list[ToolCallPart]:
        return self.pending

    @workflow.signal
    def decide(self, call_id: str, approved: bool) -> None:
        self.decisions[call_id] = approved


async def connect() -> Client:
    return await Client.connect(os.environ["TEMPORAL_ADDRESS"], plugins=[PydanticAIPlugin()])


async def work() -> None:
    worker = Worker(await connect(), task_queue="support", workflows=[SupportWorkflow])
    print("ready", flush=True)
    await worker.run()


async def ask() -> None:
    client = await connect()
    run = await client.start_workflow(
        SupportWorkflow.run, "Order 7 arrived broken.", id="order-7", task_queue="support"
    )
    while not (pending := await run.query(SupportWorkflow.approvals)):
        await asyncio.sleep(0.1)
    for call in pending:
        answer = await asyncio.to_thread(input, f"{call.tool_name} {call.args}? ")
        await run.signal(SupportWorkflow.decide, args=[call.tool_call_id, answer == "y"])
    print((await run.result()).refund_id)


if __name__ == "__main__":
    asyncio.run(work() if sys.argv[1:] == ["worker"] else ask())
