"""What the cashier can do: plain activities, of which none knows of another, or of a plan."""

from pydantic import BaseModel, Field
from temporalio import activity
from temporalio.exceptions import ApplicationError

ORDERS = {"1042": {"paid": 249.0, "email": "ada@example.com", "subscription": "S-7"}}


class FindOrder(
    BaseModel, json_schema_extra={"_label": "Find an order", "_outputPath": "†state.order"}
):
    order_id: str


class Refund(
    BaseModel,
    json_schema_extra={
        "_label": "Pay money back",
        "_sideEffects": True,
        "_outputPath": "†state.refund",
    },
):
    order_id: str
    amount: float = Field(gt=0, description="In euros.")


class SendVoucher(
    BaseModel,
    json_schema_extra={
        "_label": "Send a voucher",
        "_sideEffects": True,
        "_outputPath": "†state.voucher",
    },
):
    email: str
    amount: float = Field(gt=0, le=100, description="In euros.")


class CancelSubscription(
    BaseModel, json_schema_extra={"_label": "Cancel a subscription", "_sideEffects": True}
):
    subscription_id: str


class WriteMail(
    BaseModel, json_schema_extra={"_label": "Write to a customer", "_sideEffects": True}
):
    to: str
    text: str


@activity.defn
async def find_order(arguments: FindOrder) -> dict[str, object]:
    """Find an order: what was paid, the customer's e-mail address and coffee subscription."""
    if arguments.order_id not in ORDERS:
        raise ApplicationError(f"there is no order {arguments.order_id}", non_retryable=True)
    return ORDERS[arguments.order_id]


@activity.defn
async def refund(arguments: Refund) -> dict[str, str]:
    """Pay money back for an order."""
    key = f"{activity.info().workflow_id}/{activity.info().activity_id}"
    return {"refund": f"R-{key}", "paid_back": f"{arguments.amount:.2f} euros"}


@activity.defn
async def send_voucher(arguments: SendVoucher) -> dict[str, str]:
    """Send a voucher to a customer, as an apology."""
    key = f"{activity.info().workflow_id}/{activity.info().activity_id}"
    return {"voucher": f"V-{key}", "worth": f"{arguments.amount:.2f} euros"}


@activity.defn
async def cancel_subscription(arguments: CancelSubscription) -> str:
    """Cancel a coffee subscription."""
    return f"{arguments.subscription_id} is cancelled"


@activity.defn
async def write_mail(arguments: WriteMail) -> dict[str, str]:
    """Write to a customer."""
    return {"to": arguments.to, "text": arguments.text}
