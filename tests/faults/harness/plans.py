"""The kinds of faults, how each is caused, and which faults are tried at which points.

A fault begins while the point that it strikes at is held. What is undone is undone a little later,
while everything continues. A scenario runs without faults first: that lists its points, and is what
every later case of it is judged by.
"""

import asyncio
import itertools
import random
import signal
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from operator import methodcaller
from typing import TYPE_CHECKING

from temporalio.service import RPCError

from tests.faults.harness.points import READY
from tests.faults.harness.responses import Again, Read, Row
from tests.faults.harness.rude_responses import rows_for
from tests.support.identity.operators import Operator

if TYPE_CHECKING:
    from tests.faults.harness.case import Case

KILL = "kill"
# The worker and its server.
PAUSE, CUT, REFUSE, DELAY, SILENCE, SERVER = (
    *("pause", "cut", "refuse", "delay", "silence", "server"),
)
ON_THE_WIRE = (CUT, REFUSE, DELAY, SILENCE)
# A part of a cluster, or its database's disk.
HISTORY, MATCHING, POSTGRESQL, FULL_DISK = "history", "matching", "postgresql", "full disk"
OF_A_CLUSTER = (HISTORY, MATCHING, POSTGRESQL, FULL_DISK)
# People, and how they misbehave.
PEOPLE = ("ada", "bob")
REPEAT, CONTRADICT, EARLY, BACKWARDS = "repeat", "contradict", "early", "backwards"
# No worker runs at an expiry, a forward and reminders; decisions are sent twice meanwhile.
OUTAGE, DEADLINE = "outage", "deadline"
# The scenarios that the passes by chance and on a cluster leave out.
SYSTEMATIC_ALONE = (DEADLINE, "loop", "fork")
# An operator, by commands on all activities of the case that have not ended.
PAUSE_ACTIVITY, UNPAUSE_ACTIVITY = "pause activity", "unpause activity"
RESET_ACTIVITY, UPDATE_OPTIONS = "reset activity", "update activity options"
BY_OPERATORS = (PAUSE_ACTIVITY, UNPAUSE_ACTIVITY, RESET_ACTIVITY, UPDATE_OPTIONS)
# A model that is rude, by the name of the row.
MODEL = "model: "

PAUSE_SECONDS = 3.5
WIRE_SECONDS = 3.0
# Longer than the approvals of the scenario `DEADLINE` wait.
OUTAGE_SECONDS = 35.0
DELAY_SECONDS = 0.3
# An operator leaves an activity paused for so long.
OPERATOR_SECONDS = 1.5
SOON = timedelta(seconds=1)
# No one waits here for longer than that for a model that names a delay.
MAX_AGAIN_SECONDS = 8.0
ANYWHERE = (KILL, PAUSE, *ON_THE_WIRE, SERVER, *BY_OPERATORS)


def is_request(point: str) -> bool:
    """Return whether a request to a model is running whose answer has not started."""
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


# Those after which the run has to have the outcome that it has undisturbed.
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
        case "outage":
            on.begin_outage()
            return lambda: _after(OUTAGE_SECONDS, on.end_outage)
        case "repeat" | "contradict" | "early" | "backwards":
            await on.person.misbehave(kind)
        case _ if kind == SERVER or kind in OF_A_CLUSTER:
            return await on.ground.inflict(kind)
        case _ if kind in ON_THE_WIRE:
            return _on_the_wire(kind, on)
        case _ if kind in BY_OPERATORS:
            return await _by_operators(kind, on)
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


async def _by_operators(kind: str, on: "Case") -> Callable[[], Awaitable[None]] | None:
    """Have an operator command what runs, and undo a pause: some of it may have ended meanwhile."""

    async def each(command: Callable[[Operator], Awaitable[None]]) -> None:
        for one in operators:
            with suppress(RPCError):
                await command(one)

    operators = await on.operators()
    match kind:
        case "reset activity":
            await each(Operator.reset)
        case "update activity options":
            await each(lambda one: one.retry(5, SOON, SOON))
        case _:
            await each(Operator.pause)
            afresh = kind == UNPAUSE_ACTIVITY

            async def unpause() -> None:
                await asyncio.sleep(OPERATOR_SECONDS)
                await each(lambda one: one.unpause(afresh=afresh))

            return unpause
    return None


async def _after(seconds: float, undo: Callable[[], object]) -> None:
    await asyncio.sleep(seconds)
    undo()


@dataclass(frozen=True)
class Fault:
    """A fault at a point: by its name, or as `+3`, the third after the last fault."""

    point: str
    kind: str = KILL

    def __str__(self) -> str:
        return f"{self.kind} at {self.point}"

    @property
    def later(self) -> int | None:
        """How many points after the fault before it."""
        return int(self.point) if self.point.startswith("+") else None


# Besides a kill at each point, in the systematic pass: every so many-th point sees these, and every
# point of an activity one of an operator's commands.
CUT_EVERY, SERVER_EVERY = 6, 24
# On a cluster, one fault at every so many-th point.
CLUSTER_EVERY = 8
MAX_FAULTS = 4
# By chance, a fault comes so many points after the one before it at the most.
MAX_LATER = 25
KILLED_AFTER = 12
_SEPARATOR, _AT = "; ", " at "


@dataclass(frozen=True)
class Plan:
    """A scenario, by its name, and what is to befall it, one after the other."""

    scenario: str
    faults: tuple[Fault, ...]

    def __str__(self) -> str:
        return f"{self.scenario}: {_SEPARATOR.join(map(str, self.faults))}"

    @classmethod
    def read(cls, text: str) -> "Plan":
        """A plan as it is written.

        Raises:
            ValueError: it is none.
        """
        scenario, colon, rest = text.partition(": ")
        faults = [one.rpartition(_AT) for one in rest.split(_SEPARATOR)]
        if not colon or not all(point and kind for kind, _, point in faults):
            raise ValueError(f"{text!r} is no plan; write `SCENARIO: KIND at POINT; …`")
        return cls(scenario, tuple(Fault(point, kind) for kind, _, point in faults))

    @property
    def frail(self) -> bool:
        """Whether the server, or a part of it, is to die."""
        return self.of_a_cluster or any(fault.kind == SERVER for fault in self.faults)

    @property
    def of_a_cluster(self) -> bool:
        """Whether it needs a cluster."""
        return any(fault.kind in OF_A_CLUSTER for fault in self.faults)


def systematic(points: Mapping[str, Sequence[str]]) -> Iterator[Plan]:
    """A kill at every point of every scenario; and of all else, some at each part of them."""
    for name, of_it in points.items():
        yield from (Plan(name, (Fault(point),)) for point in of_it)
    all_points = [(name, point) for name, of_it in points.items() for point in of_it]
    for kind, every in ((CUT, CUT_EVERY), (SERVER, SERVER_EVERY)):
        for name, point in all_points[::every]:
            yield Plan(name, (Fault(point, kind),))
    of_activities = [each for each in all_points if each[1].startswith("activity")]
    for (name, point), kind in zip(of_activities, itertools.cycle(BY_OPERATORS)):
        yield Plan(name, (Fault(point, kind),))
    yield from _rude_models(all_points)
    yield from _rude_people(all_points)
    yield from _outages(points.get(DEADLINE, ()))


def on_cluster(points: Mapping[str, Sequence[str]], kinds: Sequence[str]) -> Iterator[Plan]:
    """A kill of the worker, or a fault of the cluster, at points of every scenario."""
    all_points = [(name, point) for name, of_it in points.items() for point in of_it]
    for (name, point), kind in zip(all_points[::CLUSTER_EVERY], itertools.cycle((KILL, *kinds))):
        yield Plan(name, (Fault(point, kind),))


def _rude_models(all_points: Sequence[tuple[str, str]]) -> Iterator[Plan]:
    """Every way to be rude, and every request: each at least once."""
    requests = [(name, point) for name, point in all_points if is_request(point)]
    if requests:
        times = range(max(len(requests), len(ROWS)))
        for _, (name, point), row in zip(times, itertools.cycle(requests), itertools.cycle(ROWS)):
            yield Plan(name, (Fault(point, MODEL + row),))


def _rude_people(all_points: Sequence[tuple[str, str]]) -> Iterator[Plan]:
    """Every decision is repeated, and contradicted; in every scenario, all come early."""
    for name, point in all_points:
        for kind in (REPEAT, CONTRADICT, EARLY, BACKWARDS):
            if kind in kinds_at(point):
                yield Plan(name, (Fault(point, kind),))


def _outages(points: Sequence[str]) -> Iterator[Plan]:
    """An outage at every decision, alone, and with a kill at each point of what follows."""
    for point in points:
        if point.startswith("person decides") and point.split(" ")[-1] in PEOPLE:
            outage = Fault(point, OUTAGE)
            yield Plan(DEADLINE, (outage,))
            yield from (Plan(DEADLINE, (outage, Fault(f"+{n}"))) for n in range(1, KILLED_AFTER))


def by_chance(points: Mapping[str, Sequence[str]], seed: int) -> Iterator[Plan]:
    """One plan after the other, without end: the same for the same seed and points."""
    chance = random.Random(seed)
    while True:
        name = chance.choice(list(points))
        yield Plan(name, tuple(_faults(points[name], chance)))


def _faults(points: Sequence[str], chance: random.Random) -> Iterator[Fault]:
    """A fault at some point, and perhaps others behind it."""
    is_decision = methodcaller("startswith", "person decides")
    likes = chance.choices((is_request, is_decision, bool), (25, 15, 60))[0]
    point = chance.choice([point for point in points if likes(point)] or points)
    # Of rude models there are so many that they would drown all else.
    kinds = kinds_at(point)
    rude = [kind for kind in kinds if kind.startswith(MODEL)]
    if rude and chance.random() < 0.5:
        yield Fault(point, chance.choice(rude))
    else:
        yield Fault(point, _one_of([kind for kind in kinds if kind not in rude], chance))
    for _ in range(chance.randrange(MAX_FAULTS)):
        yield Fault(f"+{chance.randrange(1, MAX_LATER)}", _one_of(ANYWHERE, chance))


def _one_of(kinds: Sequence[str], chance: random.Random) -> str:
    """A kind; that the server dies takes long, and is rare."""
    return chance.choices(kinds, [1 if kind == SERVER else 4 for kind in kinds])[0]
