"""The activities that the company has had for years; an agent may call the second one."""

from temporalio import activity

REFUNDS: list[str] = []


@activity.defn
async def look_up_customer(order_id: str) -> str:
    """Return the customer of an order."""
    return f"the customer of {order_id}"


@activity.defn
async def refund_order(arguments: dict[str, object]) -> dict[str, object]:
    """Refund an order."""
    REFUNDS.append(str(arguments["orderId"]))
    return {"refunded": arguments["orderId"]}
