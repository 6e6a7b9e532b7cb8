"""The tools of the shop in the transcripts."""

from pathlib import Path

from pydantic import BaseModel
from temporalio import activity
from temporalio.exceptions import ApplicationError

from holdfast import tool

REFUNDS = Path("refunds.txt")


@tool(output_path="†state.order")
def find_order(order_id: str) -> dict[str, str]:
    """Find an order."""
    return {"id": order_id, "item": "kettle"}


@tool(side_effects=True, title="Refund an order")
def refund(order_id: str, amount: float) -> dict[str, str]:
    """Pay money back for an order."""
    with REFUNDS.open("a", encoding="utf-8") as file:
        file.write(f"{order_id} {amount:g}\n")
    return {"order": order_id, "paid": f"{amount:g} euros"}


@tool(side_effects=True, title="Ship a parcel", approval={"require": "never"})
def ship(order_id: str) -> str:
    """Ship a parcel; the carrier never answers."""
    raise ApplicationError("the carrier did not answer", type="outcome_unknown")


@tool
def fail(why: str) -> str:
    """Fail."""
    raise ApplicationError(why, non_retryable=True)


class Size(BaseModel):
    size: int


@activity.defn
async def export(arguments: Size) -> str:
    """Return a large text."""
    return "x" * arguments.size
