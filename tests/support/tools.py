"""Tools that succeed and fail; a ledger on disk records their effects.

Like any module of tools it imports nothing of ours.
"""

import asyncio
import os
import random
from base64 import b64encode
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from temporalio import activity
from temporalio.exceptions import ApplicationError

LEDGER = "HOLDFAST_TEST_LEDGER"
MAX_WAIT_SECONDS = 200
# The line that lets everything go that still waits when a test is over.
RELEASE = "release"


def write(line: str) -> None:
    """Write a line into the ledger, in one piece."""
    with Path(os.environ[LEDGER]).open("a", encoding="utf-8") as ledger:
        ledger.write(line + "\n")


def read() -> list[str]:
    """The ledger so far."""
    path = Path(os.environ[LEDGER])
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


async def until(line: str) -> None:
    """Wait for a line of the ledger, for as long as a test may take at the most."""
    async with asyncio.timeout(MAX_WAIT_SECONDS):
        while not {line, RELEASE} & set(read()):
            await asyncio.sleep(0.02)


def key() -> str:
    """What a tool may use to act once."""
    info = activity.info()
    return f"{info.workflow_id}/{info.activity_id}"


class Text(BaseModel):
    text: str = Field(description="Any text")
    times: int = 1


@activity.defn
async def echo(arguments: Text) -> str:
    """Repeat a text."""
    return arguments.text * arguments.times


class Item(BaseModel):
    model_config = ConfigDict(json_schema_extra={"_outputPath": "†state.item"})
    id: int


@activity.defn
async def look_up(arguments: Item) -> dict[str, Any]:
    """Look an item up."""
    return {"id": arguments.id, "name": f"item {arguments.id}"}


class Payment(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "_sideEffects": True,
            "_label": "Pay",
        }
    )
    amount: float


@activity.defn
async def pay(arguments: Payment) -> dict[str, Any]:
    """Pay an amount: once, or it is unknown."""
    write(f"pay {arguments.amount:g} {key()}")
    return {"paid": arguments.amount}


class Refund(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "_sideEffects": True,
            "_idempotent": True,
            "_approval": {"when": {"properties": {"amount": {"exclusiveMinimum": 100}}}},
        }
    )
    amount: float


@activity.defn
async def refund(arguments: Refund) -> dict[str, Any]:
    """Refund an amount; a second time under the same key changes nothing."""
    line = f"refund {arguments.amount:g} {key()}"
    if line not in read():
        write(line)
    return {"refunded": arguments.amount}


class Gate(BaseModel):
    name: str


@activity.defn
async def held(arguments: Gate) -> str:
    """Begin, then wait until the ledger opens the gate."""
    write(f"started {arguments.name}")
    await until(f"open {arguments.name}")
    write(f"ended {arguments.name}")
    return arguments.name


class HeldPayment(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "_sideEffects": True,
            "_approval": {"require": "never"},
        }
    )
    name: str


@activity.defn
async def held_payment(arguments: HeldPayment) -> str:
    """Pay, then wait until the ledger opens the gate: what happens in between is not known."""
    write(f"paid {arguments.name} {key()}")
    await until(f"open {arguments.name}")
    return arguments.name


class Nothing(BaseModel):
    pass


class Impatient(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "_activity": {"retry": {"maximumAttempts": 2, "initialInterval": "10ms"}}
        }
    )


@activity.defn
async def raises(arguments: Impatient) -> None:
    """Raise."""
    write("raised")
    raise ValueError("the stock is empty")


class Strict(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "_activity": {"startToCloseTimeout": "200ms", "retry": {"maximumAttempts": 1}}
        }
    )


@activity.defn
async def never_ends(arguments: Strict) -> None:
    """Take longer than is allowed."""
    await asyncio.Event().wait()


class Bytes(BaseModel):
    size: int


@activity.defn
async def big(arguments: Bytes) -> str:
    """Return many characters."""
    write("big")
    return "x" * arguments.size


class Noise(BaseModel):
    seed: int


@activity.defn
async def noise(arguments: Noise) -> str:
    """Return more than a megabyte, which hardly gets smaller in a page of a log."""
    return b64encode(random.Random(arguments.seed).randbytes(900_000)).decode()


@activity.defn
async def binary(arguments: Nothing) -> bytes:
    """Return what is no JSON."""
    return b"\x00"


class Wrong(BaseModel):
    model_config = ConfigDict(json_schema_extra={"_output": {"type": "object", "required": ["id"]}})


@activity.defn
async def misfit(arguments: Wrong) -> list[int]:
    """Return what the tool's `_output` does not allow."""
    return [1, 2]


class Elsewhere(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "_activity": {"taskQueue": "nobody-polls-this", "scheduleToCloseTimeout": "500ms"}
        }
    )


@activity.defn
async def elsewhere(arguments: Elsewhere) -> None:
    """Belongs to a worker that is not there."""


class ElsewhereOnce(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "_sideEffects": True,
            "_approval": {"require": "never"},
            "_activity": {"taskQueue": "nobody-polls-this", "scheduleToCloseTimeout": "500ms"},
        }
    )


@activity.defn
async def elsewhere_once(arguments: ElsewhereOnce) -> None:
    """Would change the world, on a worker that is not there."""


class Stubborn(BaseModel):
    model_config = ConfigDict(json_schema_extra={"_activity": {"heartbeatTimeout": "10s"}})


@activity.defn
async def stubborn(arguments: Stubborn) -> None:
    """Continue although it is cancelled, until the ledger ends it."""
    write("stubborn started")
    while RELEASE not in read():
        activity.heartbeat()
        try:
            await asyncio.sleep(0.02)
        except asyncio.CancelledError:
            write("stubborn cancelled")
    write("stubborn ended")


class Telling(BaseModel):
    model_config = ConfigDict(json_schema_extra={"_activity": {"heartbeatTimeout": "10s"}})
    steps: int


@activity.defn
async def telling(arguments: Telling) -> str:
    """Report the first step, then one more for each `step telling`, until `open telling`."""
    async with asyncio.timeout(MAX_WAIT_SECONDS):
        while not {"open telling", RELEASE} & set(read()):
            activity.heartbeat({"step": 1 + read().count("step telling"), "of": arguments.steps})
            await asyncio.sleep(0.02)
    return "told"


class StopRun(Exception):
    """Ends the run, by its name alone."""


@activity.defn
async def stops(arguments: Nothing) -> None:
    """Stop the run."""
    raise StopRun("enough")


class EchoArguments(BaseModel):
    result: Any


@activity.defn
async def says(arguments: EchoArguments) -> Any:
    """Return what it is given."""
    return arguments.result


class Ordered(BaseModel):
    model_config = ConfigDict(json_schema_extra={"_sequential": True})
    name: str


@activity.defn
async def in_order(arguments: Ordered) -> str:
    """One after the other."""
    write(f"started {arguments.name}")
    write(f"ended {arguments.name}")
    return arguments.name


class Unsure(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={"_sideEffects": True, "_approval": {"require": "never"}}
    )


@activity.defn
async def unsure(arguments: Unsure) -> None:
    """Change the world, or not: it does not know."""
    write("unsure")
    raise ApplicationError("the bank did not answer", type="outcome_unknown")


class Scoped(BaseModel):
    model_config = ConfigDict(json_schema_extra={"_requires": ["orders:write"]})


@activity.defn
async def scoped(arguments: Scoped) -> str:
    """Needs a scope."""
    return "done"


class Quick(BaseModel):
    model_config = ConfigDict(json_schema_extra={"_activity": {"local": True}})
    text: str


@activity.defn
async def quick(arguments: Quick) -> str:
    """Runs as a local activity."""
    if not arguments.text:
        raise ApplicationError("there is no text", non_retryable=True)
    return arguments.text.upper()


@activity.defn
async def whole(call: dict[str, Any], tool: dict[str, Any], scoped: dict[str, Any]) -> Any:
    """Is given the whole call; a schema makes a tool of it."""
    return {"call": call, "tool": tool["name"], "scoped": scoped}


@activity.defn
async def move(source: str, target: str) -> str:
    """Name both places."""
    return f"{source} to {target}"


@activity.defn
async def notify(waiting: dict[str, Any]) -> None:
    """Notify people of a pending approval."""
    write(f"notify {waiting['callId']} {waiting['kind']}")


# Hooks: activities that are asked about calls. They take no model, so they are no tools.


@activity.defn
async def tidy(arguments: dict[str, Any]) -> dict[str, Any]:
    """Take `n` for `id`."""
    return {"id" if key == "n" else key: value for key, value in arguments.items()}


@activity.defn
async def mend(arguments: dict[str, Any], errors: list[str]) -> dict[str, Any]:
    """Put the number 1 where something else stands."""
    write(f"mend {errors[0]}")
    return {**arguments, "id": 1}


@activity.defn
async def guard(call: dict[str, Any]) -> dict[str, Any] | None:
    """Refuse to look up 13, and stop the run at 99."""
    write(f"guard {call['tool']} {call['arguments']} {key()}")
    if call["arguments"].get("id") == 99:
        raise StopRun("99 is never looked up")
    return {"block": "13 brings no luck"} if call["arguments"].get("id") == 13 else None


@activity.defn
async def review(call: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    """Leave the name out of a result."""
    write(f"review {call['id']}")
    return {"content": {"id": result["content"]["id"]}, "details": result["content"]}


@activity.defn
async def mask(request: dict[str, Any]) -> dict[str, Any] | None:
    """Show the model no name; take `pay` away after the first turn, and stop at the ninth."""
    write(f"mask {request['turn']} {key()}")
    if request["turn"] == 9:
        raise StopRun("too many requests")
    texts = {each["n"]: each["text"] for each in request["messages"]}
    masked = {n: text.replace("Ann", "[name]") for n, text in texts.items() if "Ann" in text}
    tools = [tool for tool in request["tools"] if tool != "pay" or request["turn"] == 1]
    return {"messages": {"replace": masked}, "tools": tools}


@activity.defn
async def proofread(answer: dict[str, Any]) -> dict[str, Any] | None:
    """Send an answer that names someone back, and replace one that shouts."""
    write(f"proofread {answer['turn']} {key()}")
    if "Ann" in str(answer["output"]):
        return {"again": "Name no one."}
    return {"output": "Done."} if answer["output"] == "DONE" else None


@activity.defn
async def stand_in(failure: dict[str, Any]) -> dict[str, Any]:
    """Ask again, and then answer for the model."""
    write(f"stand_in {failure['attempt']}")
    if failure["attempt"] == 1:
        return {"retry": True, "after": "10ms"}
    return {"output": "Our model is down. A person will answer you."}
