"""The kinds of faults, and how each is inflicted.

A fault begins while the point that it strikes at stands still. What is to be undone is undone a
little later, while everything goes on.
"""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from tests.faults.stage.points import READY
from tests.faults.stage.rude import rows_for
from tests.faults.stage.speech import Again, Read, Row

if TYPE_CHECKING:
    from tests.faults.stage.case import Case

KILL = "kill"
# The worker and its server.
PAUSE, CUT, REFUSE, DELAY, SILENCE, SERVER = (
    *("pause", "cut", "refuse", "delay", "silence", "server"),
)
ON_THE_WIRE = (CUT, REFUSE, DELAY, SILENCE)
# People.
REPEAT, CONTRADICT, EARLY, BACKWARDS = "repeat", "contradict", "early", "backwards"
# A model that is rude, by the name of the row.
MODEL = "model: "

PAUSE_SECONDS = 3.5
WIRE_SECONDS = 3.0
DELAY_SECONDS = 0.3
# Longer than that nobody waits here for a model that says when to come again.
MAX_AGAIN_SECONDS = 8.0
ANYWHERE = (KILL, PAUSE, *ON_THE_WIRE, SERVER)


def is_request(point: str) -> bool:
    """Whether a model is asked for an answer there, and has not begun with it."""
    return point.startswith("model asked") and "halfway" not in point


def _tried(row: Row) -> bool:
    match row.demands:
        case Again(after_seconds=(_, most)):
            return most <= MAX_AGAIN_SECONDS
        case Again():
            return True
        case Read(more=more, cut=cut):
            return not more and not cut
        case _:
            return False


# Those after which the run has to come to what it comes to undisturbed.
ROWS = {row.name: row for row in rows_for("openai") if _tried(row)}


def kinds_at(point: str) -> list[str]:
    """What can strike at a point."""
    if is_request(point):
        return [*ANYWHERE, *(MODEL + name for name in ROWS)]
    if point.startswith("person decides") and point.split(" #")[0].endswith("done"):
        return [*ANYWHERE, REPEAT]
    if point.startswith("person decides") and point.split(" #")[0].endswith("all"):
        return [*ANYWHERE, CONTRADICT]
    if point == READY:
        return [*ANYWHERE, EARLY, BACKWARDS]
    return [*ANYWHERE]


async def inflict(kind: str, on: "Case") -> Callable[[], Awaitable[None]] | None:
    """Inflict a fault; what has to be done later, if something has."""
    match kind:
        case "kill":
            on.kill_worker()
        case "pause":
            on.signal_worker(signal.SIGSTOP)
            return lambda: _after(PAUSE_SECONDS, lambda: on.signal_worker(signal.SIGCONT))
        case "server":
            await on.ground.kill()
            return on.ground.start
        case "repeat" | "contradict" | "early" | "backwards":
            await on.person.misbehave(kind)
        case _ if kind in ON_THE_WIRE:
            return _on_the_wire(kind, on)
    # Of a rude model, the model's server sees to it.
    return None


def _on_the_wire(kind: str, on: "Case") -> Callable[[], Awaitable[None]] | None:
    proxy = on.proxy
    match kind:
        case "cut":
            proxy.cut()
            return None
        case "refuse":
            proxy.refuse()
            proxy.cut()
            return lambda: _after(WIRE_SECONDS, proxy.accept)
        case "delay":
            proxy.delay(DELAY_SECONDS)
            return lambda: _after(WIRE_SECONDS, lambda: proxy.delay(0))
        case _:
            proxy.blackhole()
            return lambda: _after(WIRE_SECONDS, proxy.restore)


async def _after(seconds: float, undo: Callable[[], object]) -> None:
    await asyncio.sleep(seconds)
    undo()
