"""The shop that the demonstration plays in: its orders before, and what was done to them after."""

import sqlite3
from contextlib import closing
from email import message_from_bytes, policy
from pathlib import Path
from typing import NamedTuple

DATABASE = "orders.db"
OUTBOX = "outbox"

_TABLES = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL UNIQUE);
CREATE TABLE orders (
    id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL REFERENCES customers,
    ordered_on TEXT NOT NULL, cents INTEGER NOT NULL, note TEXT NOT NULL DEFAULT '');
CREATE TABLE items (
    order_id INTEGER NOT NULL REFERENCES orders, quantity INTEGER NOT NULL, title TEXT NOT NULL);
CREATE TABLE shipments (
    id TEXT PRIMARY KEY, order_id INTEGER NOT NULL REFERENCES orders, status TEXT NOT NULL);
CREATE TABLE refunds (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, order_id INTEGER NOT NULL REFERENCES orders,
    cents INTEGER NOT NULL, reason TEXT NOT NULL, at TEXT NOT NULL);
CREATE TABLE carrier_requests (
    id INTEGER PRIMARY KEY, shipment_id TEXT NOT NULL REFERENCES shipments,
    reason TEXT NOT NULL, fee_cents INTEGER NOT NULL, at TEXT NOT NULL);
"""

_CUSTOMERS = [
    (1, "Ada Lovelace", "ada@example.com"),
    (2, "Grace Hopper", "grace@example.com"),
    (3, "Alan Turing", "alan@example.com"),
]
_ORDERS = [
    (1031, 1, "2026-01-12", 1890, ""),
    (1038, 3, "2026-02-02", 5400, ""),
    (1042, 1, "2026-02-10", 24900, "Espresso machine. Delivered, signed for by A. Lovelace."),
    (1049, 2, "2026-02-16", 3980, ""),
    (1057, 1, "2026-02-20", 0, "Free replacement for order 1042, reported broken by telephone."),
]
_ITEMS = [
    (1031, 1, "Coffee beans, 1 kg"),
    (1038, 1, "Milk jug"),
    (1038, 1, "Tamper"),
    (1042, 1, "Espresso machine Classico"),
    (1049, 2, "Coffee beans, 1 kg"),
    (1057, 1, "Espresso machine Classico"),
]
_SHIPMENTS = [
    ("S-2031", 1031, "delivered"),
    ("S-2038", 1038, "delivered"),
    ("S-2042", 1042, "delivered"),
    ("S-2049", 1049, "on its way"),
    ("S-2057", 1057, "being packed"),
]


class Deed(NamedTuple):
    """One thing that was done: where it is recorded, and what it was."""

    where: str
    what: str


def open_shop(folder: Path) -> None:
    """Write the orders of a fresh shop into `folder`, which may not have any yet.

    Raises:
        sqlite3.OperationalError: the folder holds a shop already.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(folder / DATABASE)) as db, db:
        db.executescript(_TABLES)
        db.executemany("INSERT INTO customers VALUES (?, ?, ?)", _CUSTOMERS)
        db.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?)", _ORDERS)
        db.executemany("INSERT INTO items VALUES (?, ?, ?)", _ITEMS)
        db.executemany("INSERT INTO shipments VALUES (?, ?, ?)", _SHIPMENTS)


def deeds(folder: Path) -> list[Deed]:
    """What the database and the outbox in `folder` say was done since the shop was opened."""
    with closing(sqlite3.connect(folder / DATABASE)) as db:
        refunds = db.execute("SELECT id, order_id, cents, reason FROM refunds ORDER BY id")
        found = [
            Deed(
                f"{DATABASE}, refunds", f"R-{number}: {cents / 100:.2f} for order {order}, {reason}"
            )
            for number, order, cents, reason in refunds
        ]
        cancelled = db.execute("SELECT id FROM shipments WHERE status = 'cancelled' ORDER BY id")
        found += [Deed(f"{DATABASE}, shipments", f"{row[0]} is cancelled") for row in cancelled]
        requests = db.execute("SELECT shipment_id, fee_cents FROM carrier_requests ORDER BY id")
        found += [
            Deed(
                f"{DATABASE}, carrier_requests", f"asked to stop {shipment}, fee {cents / 100:.2f}"
            )
            for shipment, cents in requests
        ]
    return found + [_mail(path) for path in sorted((folder / OUTBOX).glob("*.eml"))]


def _mail(path: Path) -> Deed:
    message = message_from_bytes(path.read_bytes(), policy=policy.default)
    return Deed(f"{OUTBOX}/{path.name}", f"to {message['To']}: {message['Subject']}")
