"""The tools of the support desk: orders in an SQLite file, sent mail in a folder.

Every function marked `@activity.defn` is a tool. Its docstring is what the model reads, its one
parameter says what it takes, and `json_schema_extra` how it is handled. The module needs
`temporalio`, `pydantic` and the standard library. The folder is `SUPPORT_DESK_DIR`.

None of them takes long, so Temporal is told not to wait long for one whose worker has died.
"""

import hashlib
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict
from temporalio import activity
from temporalio.exceptions import ApplicationError

# People read an amount as €249.00.
EUROS: JsonDict = {"format": "money", "currency": "EUR"}
OrderId = Annotated[int, Field(description="The order's number, such as 1042.")]
MAX_FOUND = 50


class SearchOrders(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "_label": "Search orders",
            "_activity": {"startToCloseTimeout": "5s"},
        }
    )

    customer: Annotated[
        str,
        Field(min_length=2, description="E-mail address or name of the customer, or a part of it."),
    ]
    limit: Annotated[
        int, Field(ge=1, le=MAX_FOUND, description="How many orders to return, newest first.")
    ] = 10


class LookUpOrder(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "_label": "Look up an order",
            "_activity": {"startToCloseTimeout": "5s"},
        }
    )

    order_id: OrderId


class RefundOrder(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "_label": "Refund an order",
            "_activity": {"startToCloseTimeout": "5s"},
            "_sideEffects": True,
            "_idempotent": True,
            "_approval": {
                "when": {"properties": {"amount": {"exclusiveMinimum": 100}}},
                "timeout": "24h",
                "effect": "refund of {amount}",
            },
            "_outputPath": "†state.refund",
        }
    )

    order_id: OrderId
    amount: Annotated[
        float,
        Field(gt=0, description="How much to pay back, in euros.", json_schema_extra=EUROS),
    ]
    reason: Annotated[str, Field(min_length=3, description="Why, in a few words, for the books.")]


class CancelShipment(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "_label": "Cancel a shipment",
            "_activity": {"startToCloseTimeout": "10s"},
            "_sideEffects": True,
            "_idempotent": False,
            "_outputPath": "†state.cancelled",
        }
    )

    shipment_id: Annotated[str, Field(description="The shipment's id, such as S-2077.")]
    reason: Annotated[str, Field(min_length=3, description="Why, in a few words.")]


class SendMail(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "_label": "Send a mail",
            "_activity": {"startToCloseTimeout": "5s"},
            "_sideEffects": True,
            "_idempotent": True,
            "_outputPath": "†state.mail",
        }
    )

    to: Annotated[str, Field(description="The customer's e-mail address, as their order has it.")]
    subject: Annotated[str, Field(min_length=3, max_length=200, description="One line.")]
    body: Annotated[str, Field(min_length=10, description="The whole mail, as plain text.")]


class FoundOrder(BaseModel):
    order_id: int
    customer: str
    email: str
    ordered_on: str
    total: float
    items: list[str]


class Shipment(BaseModel):
    shipment_id: str
    status: str


class Order(FoundOrder):
    shipments: list[Shipment]
    refunded: float
    note: str


class Refund(BaseModel):
    refund_id: str
    order_id: int
    paid_back: str


class Cancellation(BaseModel):
    shipment_id: str
    status: str
    fee: float


class SentMail(BaseModel):
    mail_id: str
    to: str


@activity.defn
def search_orders(search: SearchOrders) -> list[FoundOrder]:
    """Find a customer's orders by name or e-mail address, newest first."""
    with _database() as db:
        rows = db.execute(
            "SELECT o.id FROM orders o JOIN customers c ON c.id = o.customer_id"
            " WHERE instr(lower(c.name || ' <' || c.email || '>'), lower(?)) > 0"
            " ORDER BY o.id DESC LIMIT ?",
            (search.customer.strip(), search.limit),
        ).fetchall()
        found = [_order(db, row["id"]) for row in rows]
    if not found:
        raise _refusal("not_found", f"no orders of '{search.customer}'; try the e-mail address")
    return [FoundOrder.model_validate(order.model_dump()) for order in found]


@activity.defn
def look_up_order(look_up: LookUpOrder) -> Order:
    """Read one order: its customer, items, shipments, and what was refunded of it."""
    with _database() as db:
        return _order(db, look_up.order_id)


@activity.defn
def refund_order(refund: RefundOrder) -> Refund:
    """Pay an order back, in full or in part, the way it was paid. It cannot be taken back."""
    key, cents = _key(), _cents(refund.amount)
    with _database() as db:
        # The lock is taken before the check, so two refunds at once cannot both pass it.
        db.execute("BEGIN IMMEDIATE")
        if db.execute("SELECT 1 FROM refunds WHERE key = ?", (key,)).fetchone() is None:
            _check_refundable(_order(db, refund.order_id), cents)
            db.execute(
                "INSERT INTO refunds (key, order_id, cents, reason, at) VALUES (?, ?, ?, ?, ?)",
                (key, refund.order_id, cents, refund.reason, _now()),
            )
        row = db.execute("SELECT * FROM refunds WHERE key = ?", (key,)).fetchone()
    return Refund(
        refund_id=f"R-{row['id']}",
        order_id=row["order_id"],
        paid_back=f"{row['cents'] / 100:.2f} EUR",
    )


@activity.defn
def cancel_shipment(cancel: CancelShipment) -> Cancellation:
    """Have the carrier stop a shipment that is not delivered yet. The carrier charges for it."""
    with _database() as db:
        row = db.execute("SELECT * FROM shipments WHERE id = ?", (cancel.shipment_id,)).fetchone()
        if row is None:
            message = f"no shipment {cancel.shipment_id}; look up the order first, it lists them"
            raise _refusal("not_found", message)
        if row["status"] in ("delivered", "cancelled"):
            message = f"shipment {row['id']} is {row['status']} already and cannot be cancelled"
            raise _refusal("too_late", message)
    fee_cents = _ask_carrier(cancel)
    # The demonstration kills the worker here: the carrier was asked, and nobody heard its answer.
    time.sleep(float(os.environ.get("SUPPORT_DESK_CARRIER_SECONDS", "0")))
    with _database() as db:
        db.execute("UPDATE shipments SET status = 'cancelled' WHERE id = ?", (cancel.shipment_id,))
    return Cancellation(shipment_id=cancel.shipment_id, status="cancelled", fee=fee_cents / 100)


@activity.defn
def send_mail(mail: SendMail) -> SentMail:
    """Send a plain-text mail to a customer, from the support desk."""
    with _database() as db:
        row = db.execute(
            "SELECT email FROM customers WHERE lower(email) = lower(?)", (mail.to.strip(),)
        ).fetchone()
    if row is None:
        message = f"no customer has the address '{mail.to}'; take it from the order"
        raise _refusal("not_found", message)
    mail_id = hashlib.sha256(_key().encode()).hexdigest()[:16]
    _put_in_outbox(mail_id, _compose(mail_id, row["email"], mail))
    return SentMail(mail_id=mail_id, to=row["email"])


def _key() -> str:
    """What a call is recognised by when Temporal runs it again."""
    info = activity.info()
    return f"{info.workflow_id}/{info.activity_id}"


def no_order(order_id: int) -> ApplicationError:
    """The error of an order that the caller cannot see."""
    return _refusal("not_found", f"no order {order_id}; search by customer first")


def _refusal(kind: str, message: str) -> ApplicationError:
    # Trying again would change nothing: the model is to read it and do something else.
    return ApplicationError(message, type=kind, non_retryable=True)


def _folder() -> Path:
    return Path(os.environ.get("SUPPORT_DESK_DIR", ".holdfast/demo"))


@contextmanager
def _database() -> Iterator[sqlite3.Connection]:
    """The orders, in one transaction: kept when the block ends, undone when it raises."""
    path = _folder().absolute() / "orders.db"
    if not path.is_file():
        message = f"no orders database at {path}; run the demo once, or set SUPPORT_DESK_DIR"
        raise _refusal("not_found", message)
    with closing(sqlite3.connect(path, timeout=3)) as db, db:
        db.row_factory = sqlite3.Row
        yield db


def _order(db: sqlite3.Connection, order_id: int) -> Order:
    row = db.execute(
        "SELECT o.*, c.name, c.email FROM orders o JOIN customers c ON c.id = o.customer_id"
        " WHERE o.id = ?",
        (order_id,),
    ).fetchone()
    if row is None:
        raise no_order(order_id)

    def of_order(columns: str, table: str) -> list[sqlite3.Row]:
        query = f"SELECT {columns} FROM {table} WHERE order_id = ?"
        return db.execute(query, (order_id,)).fetchall()

    return Order(
        order_id=order_id,
        customer=row["name"],
        email=row["email"],
        ordered_on=row["ordered_on"],
        total=row["cents"] / 100,
        items=[f"{item['quantity']} × {item['title']}" for item in of_order("*", "items")],
        shipments=[
            Shipment(shipment_id=shipment["id"], status=shipment["status"])
            for shipment in of_order("*", "shipments")
        ],
        refunded=sum(refund["cents"] for refund in of_order("cents", "refunds")) / 100,
        note=row["note"],
    )


def _cents(amount: float) -> int:
    cents = round(amount * 100)
    if abs(amount * 100 - cents) > 0.001:
        raise _refusal("invalid_amount", f"{amount} has fractions of a cent; round it")
    return cents


def _check_refundable(order: Order, cents: int) -> None:
    left = round(order.total * 100) - round(order.refunded * 100)
    if cents > left:
        raise _refusal(
            "invalid_amount",
            f"at most {left / 100:.2f} of order {order.order_id} can be refunded"
            f" ({order.total:.2f} paid, {order.refunded:.2f} refunded already)",
        )


def _ask_carrier(cancel: CancelShipment) -> int:
    """Stand in for the carrier, who takes no key and charges for every request: cents."""
    fee_cents = 450
    with _database() as db:
        db.execute(
            "INSERT INTO carrier_requests (shipment_id, reason, fee_cents, at) VALUES (?, ?, ?, ?)",
            (cancel.shipment_id, cancel.reason, fee_cents, _now()),
        )
    return fee_cents


def _compose(mail_id: str, to: str, mail: SendMail) -> EmailMessage:
    message = EmailMessage()
    message["From"] = "Support Desk <support@kettle-and-bean.example>"
    message["To"] = to
    # A header is one line, whatever the model wrote.
    message["Subject"] = " ".join(mail.subject.split())
    message["Date"] = format_datetime(datetime.now(UTC))
    message["Message-ID"] = f"<{mail_id}@kettle-and-bean.example>"
    message.set_content(mail.body)
    return message


def _put_in_outbox(mail_id: str, message: EmailMessage) -> None:
    """Write the mail once: under one name, and whole or not at all."""
    outbox = _folder() / "outbox"
    outbox.mkdir(parents=True, exist_ok=True)
    final = outbox / f"{mail_id}.eml"
    if not final.exists():
        draft = final.with_suffix(".part")
        draft.write_bytes(message.as_bytes())
        draft.replace(final)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
