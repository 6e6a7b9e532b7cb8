"""Activities on orders; an agent may call the last one."""

import os
from pathlib import Path

from temporalio import activity

LEDGER = "ACME_LEDGER"


@activity.defn
async def look_up_customer(order_id: str) -> str:
    """Return the customer of an order."""
    return f"the customer of {order_id}"


@activity.defn
async def locate_order(order_id: str) -> complex:
    """Return the place of an order, as a point of the company's map."""
    return complex(int(order_id), 1)


@activity.defn
async def refund_order(arguments: dict[str, object]) -> dict[str, object]:
    """Refund an order."""
    with Path(os.environ[LEDGER]).open("a") as ledger:
        ledger.write(f"{arguments['orderId']}\n")
    return {"refunded": arguments["orderId"]}
