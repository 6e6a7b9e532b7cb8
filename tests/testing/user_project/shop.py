"""The agents of a user: one with a tool that waits for an approval, and one that delegates."""

from typing import Annotated

from annotated_types import Gt
from pydantic import BaseModel
from temporalio import activity

from holdfast import Agent, Approval, CallContext, tool


class ShopAnswer(BaseModel):
    text: str
    refunded: float = 0


@tool
async def find_order(context: CallContext, order_id: str) -> dict[str, str]:
    """Find an order."""
    return {"order_id": order_id, "run": context.run_id}


@tool(side_effects=True, approval={"timeout": "24h", "remind": "12h"})
async def refund(order_id: str, amount: Annotated[float, Gt(0)]) -> str:
    """Refund an order."""
    return f"R-{order_id}"


@tool(
    side_effects=True,
    approval=[
        Approval(when={"properties": {"amount": {"maximum": 50}}}, require="never"),
        {"name": "finance", "approvers": ["finance"]},
    ],
)
async def pay(amount: float) -> str:
    """Pay an amount."""
    return f"paid {amount:g}"


@activity.defn
async def pay_far(_: dict[str, str]) -> str:
    """Pay, on a task queue of others."""
    return "paid"


support = Agent(
    "support",
    model="openai:gpt-5",
    tools=[find_order, refund],
    output=ShopAnswer,
    instructions="Help.",
)
composed = Agent(
    "composed", model="a:b", calling="composed", tools=[find_order, refund], output=ShopAnswer
)
payer = Agent("payer", model="a:b", tools=[pay])
far = Agent(
    "far",
    model="a:b",
    tools=[
        {
            "_tool": "pay_far",
            "_activity": {"type": "pay_far", "taskQueue": "payments"},
            "type": "object",
        }
    ],
)
lead = Agent(
    "lead", model=["a:b", "c:d"], tools=[{"_tool": "ask", "_delegate": "support", "type": "object"}]
)
