"""The tools of the harness: what they do to the world, they write into a ledger on disk.

A line of the ledger is one effect. It holds the key by which a tool acts once, and when it was.
"""

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, JsonValue
from temporalio import activity

from tests.faults.harness.points import Points, activity_label, name_of

LEDGER = "HOLDFAST_FAULTS_LEDGER"
# Short, but for an attempt: one whose worker died is missed by its heartbeats.
BRIEF: dict[str, JsonValue] = {
    "retry": {"initialInterval": "100ms"},
    "startToCloseTimeout": "10m",
}


def here(what: str) -> None:
    """Report the progress of the activity."""
    if Points.here is not None:
        info = activity.info()
        workflow = name_of(info.workflow_id or "", Points.here.root)
        label = activity_label(info.activity_type, workflow, info.activity_id)
        Points.here.reach(f"{label} {what}")


def effects(path: Path) -> list[dict[str, Any]]:
    """Every effect so far, but for a line that was not finished."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


@contextmanager
def _ledger() -> Iterator[Path]:
    """The ledger, for one at a time."""
    path = Path(os.environ[LEDGER])
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield path


def act(arguments: BaseModel, result: Any, *, unless_done: bool = False) -> Any:
    """Have an effect, and report its outcome; `unless_done`: not twice under one key."""
    info = activity.info()
    key = f"{info.workflow_id}/{info.activity_id}"
    with _ledger() as path:
        if not (unless_done and any(line["key"] == key for line in effects(path))):
            line = {"key": key, "tool": info.activity_type, "at": time.time(), "result": result}
            line["arguments"] = arguments.model_dump(mode="json", exclude_unset=True)
            with path.open("a", encoding="utf-8") as ledger:
                ledger.write(json.dumps(line) + "\n")
    return result


class LedgerItem(BaseModel):
    model_config = ConfigDict(json_schema_extra={"_activity": BRIEF, "_outputPath": "†state.item"})
    id: int


@activity.defn
async def look_up(arguments: LedgerItem) -> dict[str, Any]:
    """Look an item up."""
    here("started")
    return {"id": arguments.id, "price": 10 * arguments.id}


class LedgerPayment(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "_activity": BRIEF,
            "_sideEffects": True,
            "_label": "Pay",
        }
    )
    amount: float
    to: str = ""


@activity.defn
async def pay(arguments: LedgerPayment) -> dict[str, Any]:
    """Pay an amount: each time that it runs."""
    here("started")
    result = act(arguments, {"paid": arguments.amount})
    here("acted")
    return {"paid": result["paid"]}


class LedgerRefund(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={"_activity": BRIEF, "_sideEffects": True, "_idempotent": True}
    )
    amount: float


@activity.defn
async def refund(arguments: LedgerRefund) -> dict[str, Any]:
    """Refund an amount; a second time under the same key changes nothing."""
    here("started")
    result = act(arguments, {"refunded": arguments.amount}, unless_done=True)
    here("acted")
    return {"refunded": result["refunded"]}


class Words(BaseModel):
    model_config = ConfigDict(json_schema_extra={"_activity": {"local": True, **BRIEF}})
    text: str


@activity.defn
async def shout(arguments: Words) -> str:
    """Write it in capitals, within the workflow task."""
    here("started")
    return arguments.text.upper()


class Line(BaseModel):
    model_config = ConfigDict(json_schema_extra={"_activity": BRIEF})
    text: str


@activity.defn
async def join(arguments: Line) -> str:
    """Repeat a text."""
    here("started")
    return arguments.text


# Hooks: activities that are asked about calls and models. They take no pydantic model, so they are
# no tools.


@activity.defn
async def guard(call: dict[str, Any]) -> dict[str, Any] | None:
    """Refuse a payment of a thousand."""
    here("started")
    return {"block": "too much"} if call["arguments"].get("amount") == 1000 else None


@activity.defn
async def review(call: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    """Show screens more than the model."""
    here("started")
    return {"details": {"reviewed": call["id"]}}


@activity.defn
async def mask(request: dict[str, Any]) -> dict[str, Any]:
    """Show the model another text; take the payment away after the first turn."""
    here("started")
    tools = [name for name in request["tools"] if name != "pay" or request["turn"] == 1]
    return {"messages": {"replace": {1: "go on"}}, "tools": tools}


@activity.defn
async def insist(failure: dict[str, Any]) -> dict[str, Any] | None:
    """Ask the model again, and then the next one."""
    here("started")
    return {"retry": True, "after": "10ms"} if failure["attempt"] == 1 else None


@activity.defn
async def rules(_: dict[str, Any]) -> str:
    """What the model may know."""
    here("started")
    return "Pay no more than is owed."
