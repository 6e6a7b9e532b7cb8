"""A refund that a person approves, on Holdfast: docs/python.md.

The policy, the query, the decision and the one attempt of a side effect are Holdfast's.
"""

import asyncio
import os
import sys

from pydantic import BaseModel
from temporalio.client import Client
from temporalio.worker import Worker

from holdfast import Agent, HoldfastClient, HoldfastPlugin, tool


class Order(BaseModel):
    order_id: str
    total: float


class Receipt(BaseModel):
    refund_id: str


class Answer(BaseModel):
    refund_id: str
    text: str


@tool
async def find_order(order_id: str) -> Order:
    """Find an order."""
    return Order(order_id=order_id, total=20)


@tool(side_effects=True)
async def refund(order_id: str, amount: float) -> Receipt:
    """Refund an order."""
    print("refunded", order_id, amount, flush=True)
    return Receipt(refund_id=f"R-{order_id}")


support = Agent(
    "support",
    model="demo:script",
    instructions="Refund what arrived broken.",
    tools=[find_order, refund],
    output=Answer,
)


async def connect() -> Client:
    plugin = HoldfastPlugin(agents=[support], endpoints="endpoints.yaml")
    return await Client.connect(os.environ["TEMPORAL_ADDRESS"], plugins=[plugin])


async def work() -> None:
    worker = Worker(await connect(), task_queue="support")
    print("ready", flush=True)
    await worker.run()


async def ask() -> None:
    agents = HoldfastClient(await connect(), task_queue="support")
    run = await agents.start(support, "Order 7 arrived broken.", id="order-7")
    async for call in run.approval_requests():
        if await asyncio.to_thread(input, f"{call.tool} {call.arguments}? ") == "y":
            await call.approve(by="ada")
        else:
            await call.deny(by="ada")
    print((await run.result()).refund_id)


if __name__ == "__main__":
    asyncio.run(work() if sys.argv[1:] == ["worker"] else ask())
