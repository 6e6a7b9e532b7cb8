"""What the dispatcher can do: six plain activities, of which none knows of another.

What each one takes is an argument, wherever it comes from. What it returns is written to its
`_outputPath`, where another call of the same answer may read it.
"""

from typing import TypeVar

from pydantic import BaseModel, Field
from temporalio import activity
from temporalio.exceptions import ApplicationError

ORDERS = {
    "7": {"customer_id": "c1", "item": "kettle", "paid": 20.0},
    "8": {"customer_id": "c2", "item": "grinder", "paid": 149.0},
}
CUSTOMERS = {
    "c1": {"name": "Ada Lovelace", "email": "ada@example.com", "address": "1 Mill Lane, Ely"},
    "c2": {"name": "Alan Turing", "email": "alan@example.com", "address": "9 Park Row, Leeds"},
}
SHELVES = {"kettle": "B-12"}
Kept = TypeVar("Kept")


class FindOrder(BaseModel, json_schema_extra={"_outputPath": "†state.order"}):
    order_id: str


class FindCustomer(BaseModel, json_schema_extra={"_outputPath": "†state.customer"}):
    customer_id: str


# The first place is for a result, the second for an error.
class CheckStock(BaseModel, json_schema_extra={"_outputPath": "†state.stock || †state.error"}):
    item: str


class BookParcel(
    BaseModel, json_schema_extra={"_sideEffects": True, "_outputPath": "†state.parcel"}
):
    shelf: str
    address: str


class Refund(BaseModel, json_schema_extra={"_sideEffects": True, "_outputPath": "†state.refund"}):
    order_id: str
    amount: float = Field(gt=0)
    reason: str


class WriteMail(
    BaseModel,
    json_schema_extra={
        "_sideEffects": True,
        "_approval": {"require": "never"},
        "_outputPath": "†state.mail",
    },
):
    to: str
    text: str


@activity.defn
async def find_order(arguments: FindOrder) -> dict[str, object]:
    """Find an order: what was bought, by whom, and what was paid."""
    return _look_up(ORDERS, arguments.order_id, "order")


@activity.defn
async def find_customer(arguments: FindCustomer) -> dict[str, str]:
    """Find a customer: name, e-mail address and postal address."""
    return _look_up(CUSTOMERS, arguments.customer_id, "customer")


@activity.defn
async def check_stock(arguments: CheckStock) -> dict[str, str]:
    """Find the shelf that an item stands on; an error, if none is left."""
    if arguments.item not in SHELVES:
        raise ApplicationError(f"no {arguments.item} is left until March", non_retryable=True)
    return {"shelf": SHELVES[arguments.item]}


@activity.defn
async def book_parcel(arguments: BookParcel) -> dict[str, str]:
    """Have what stands on a shelf sent to an address."""
    key = f"{activity.info().workflow_id}/{activity.info().activity_id}"
    return {"parcel": f"P-{key}", "news": f"A parcel is on its way to {arguments.address}."}


@activity.defn
async def refund(arguments: Refund) -> dict[str, str]:
    """Pay money back for an order."""
    key = f"{activity.info().workflow_id}/{activity.info().activity_id}"
    news = f"We paid {arguments.amount:.2f} euros back: {arguments.reason}."
    return {"refund": f"R-{key}", "news": news}


@activity.defn
async def write_mail(arguments: WriteMail) -> dict[str, str]:
    """Write to a customer."""
    return {"to": arguments.to, "text": arguments.text}


def _look_up(kept: dict[str, Kept], key: str, what: str) -> Kept:
    if key not in kept:
        raise ApplicationError(f"there is no {what} {key}", non_retryable=True)
    return kept[key]
