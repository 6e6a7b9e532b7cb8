"""What is tried on what: every point of every scenario in turn; or what seeded chance picks.

A scenario is first lived through undisturbed: that lists its points, and is what every later case
of it is judged by.
"""

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.faults.stage.kinds import (
    ANYWHERE,
    BACKWARDS,
    CONTRADICT,
    CUT,
    EARLY,
    MODEL,
    REPEAT,
    ROWS,
    SERVER,
    is_request,
    kinds_at,
)
from tests.faults.stage.left import Fault

# Besides a kill at each point, in the systematic pass: every so many-th point sees these.
CUT_EVERY, SERVER_EVERY = 6, 24
MAX_FAULTS = 4
# By chance, a fault comes so many points after the one before it at the most.
MAX_LATER = 25
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
        """Whether the server is to die."""
        return any(fault.kind == SERVER for fault in self.faults)


def systematic(points: Mapping[str, Sequence[str]]) -> Iterator[Plan]:
    """A kill at every point of every scenario; and of all else, some at each part of them."""
    for name, of_it in points.items():
        yield from (Plan(name, (Fault(point),)) for point in of_it)
    all_points = [(name, point) for name, of_it in points.items() for point in of_it]
    for kind, every in ((CUT, CUT_EVERY), (SERVER, SERVER_EVERY)):
        for name, point in all_points[::every]:
            yield Plan(name, (Fault(point, kind),))
    yield from _rude_models(all_points)
    yield from _rude_people(all_points)


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


def by_chance(points: Mapping[str, Sequence[str]], seed: int) -> Iterator[Plan]:
    """One plan after the other, without end: the same for the same seed and points."""
    chance = random.Random(seed)
    while True:
        name = chance.choice(list(points))
        yield Plan(name, tuple(_faults(points[name], chance)))


def _faults(points: Sequence[str], chance: random.Random) -> Iterator[Fault]:
    """A fault at some point, and perhaps others behind it."""
    likes = chance.choices((is_request, _is_decision, bool), (25, 15, 60))[0]
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


def _is_decision(point: str) -> bool:
    return point.startswith("person decides")


def _one_of(kinds: Sequence[str], chance: random.Random) -> str:
    """A kind; that the server dies takes long, and is rare."""
    return chance.choices(kinds, [1 if kind == SERVER else 4 for kind in kinds])[0]
