"""Trying plans: cases side by side, each judged by its scenario without faults, and counted."""

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.faults.harness.case import Case
from tests.faults.harness.case_result import CaseResult
from tests.faults.harness.checks import KINDS, Problem, judge
from tests.faults.harness.plans import MODEL, Fault, Plan
from tests.faults.harness.points import RUN
from tests.faults.harness.programs.server import Ground, firm, frail
from tests.faults.harness.programs.worker_pool import WorkerPool, worker_pool
from tests.faults.harness.scenarios import SCENARIOS


@dataclass
class Tally:
    """The counts of a pass. `not_met` are plans of which a point was not come to."""

    scenarios: int = 0
    points: int = 0
    runs: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    problems: Counter[str] = field(default_factory=Counter)
    reconciled: int = 0
    not_met: list[str] = field(default_factory=list)
    failing: dict[str, list[str]] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def clean(self) -> bool:
        """Whether nothing was wrong with any case."""
        return not self.failing

    def add(self, plan: Plan, left: CaseResult, problems: Sequence[Problem]) -> None:
        """Count a case."""
        self.runs += 1
        # A kind, without the name of a row.
        self.faults.update(
            "rude model" if fault.kind.startswith(MODEL) else fault.kind for fault in left.struck
        )
        self.reconciled += left.reconciled
        self.problems.update(problem.kind for problem in problems)
        if problems:
            self.failing[str(plan)] = [f"{one.kind}: {one.words}" for one in problems]

    def to_json(self) -> dict[str, Any]:
        """As it is written down."""
        return {
            "scenarios": self.scenarios,
            "points": self.points,
            "runs": self.runs,
            "faults": sum(self.faults.values()),
            "kinds": dict(sorted(self.faults.items())),
            "askedWhetherItHappened": self.reconciled,
            **{camel(kind): self.problems[kind] for kind in KINDS},
            "pointsNotComeTo": len(self.not_met),
            "failing": self.failing,
            "seconds": round(self.seconds),
        }

    def in_lines(self) -> str:
        """In lines for people."""
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.faults.items()))
        problems = ", ".join(f"{self.problems[kind]} {kind}" for kind in KINDS)
        lines = [
            f"{self.scenarios} scenarios, {self.points} points, {self.runs} runs,"
            f" {self.seconds:.0f} s",
            f"{sum(self.faults.values())} faults: {kinds}",
            f"{self.reconciled} times a person was asked whether it happened",
            problems,
        ]
        if self.not_met:
            lines.append(f"{len(self.not_met)} plans with points that were not come to:")
            lines += [f"  {plan}" for plan in self.not_met]
        for plan, words in self.failing.items():
            lines.append(f"FAILED  make test-faults ARGS='--only \"{plan}\"'")
            lines += [f"  {each}" for each in words]
        return "\n".join(lines)


def camel(words: str) -> str:
    """Words as the name of a field."""
    first, *rest = words.split()
    return "".join([first, *map(str.capitalize, rest)])


# Where the first point was not come to, it is tried again: what runs at once takes turns.
ATTEMPTS = 3
FRAIL_LANES = 3
TOLD_EVERY = 50

Tell = Callable[[str], None]


class Unfit(Exception):
    """A scenario without its own outcome, though no fault befalls it."""


@dataclass
class CaseRunner:
    """Where cases are lived through. On each frail ground there is one at a time."""

    ground: Ground
    worker_pool: WorkerPool
    tally: Tally
    tell: Tell
    frail: "asyncio.Queue[Ground]" = field(default_factory=asyncio.Queue)
    calm: dict[str, CaseResult] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    async def undisturbed(self, names: Iterable[str]) -> dict[str, list[str]]:
        """The points of scenarios; each has to have its own outcome.

        Raises:
            Unfit: one does not.
        """
        for name in names:
            scenario, left = SCENARIOS[name], await self._live(name, (), self.ground)
            outcome = {line["key"].replace(left.id, RUN): line["tool"] for line in left.effects}
            problems = [f"{one.kind}: {one.words}" for one in judge(left, left)]
            as_said = left.result and left.result.get("output") == scenario.output
            if problems or not as_said or outcome != scenario.effects:
                raise Unfit(f"{name} is wrong undisturbed: {left.result}, {outcome}, {problems}")
            self.calm[name] = left
            self.tally.scenarios += 1
            self.tally.points += len(left.points)
            self.tell(f"{name}: {len(left.points)} points, {left.seconds:.1f} s undisturbed")
        return {name: left.points for name, left in self.calm.items()}

    async def tried(self, plan: Plan) -> None:
        """Live through a case, and judge it; again where it did not come to its points."""
        for _ in range(ATTEMPTS):
            left = await self._tried(plan)
            problems = judge(left, self.calm[plan.scenario])
            self.tally.add(plan, left, problems)
            if problems:
                words = "".join(f"\n  {one.kind}: {one.words}" for one in problems)
                self.tell(f"FAILED {plan}{words}")
            if problems or left.struck:
                return
        self.tally.not_met.append(str(plan))

    async def _tried(self, plan: Plan) -> CaseResult:
        if not plan.frail:
            return await self._live(plan.scenario, plan.faults, self.ground)
        ground = await self.frail.get()
        try:
            return await self._live(plan.scenario, plan.faults, ground)
        finally:
            self.frail.put_nowait(ground)

    async def _live(self, name: str, faults: tuple[Fault, ...], ground: Ground) -> CaseResult:
        id = f"{name}-{next(self._numbers)}"
        return await Case(id, SCENARIOS[name], faults, ground, self.worker_pool).live()

    async def side_by_side(
        self, plans: Iterator[Plan], lanes: int, seconds: float | None = None
    ) -> None:
        """Try the plans, so many at a time, until there are no more or the time is up."""
        loop = asyncio.get_running_loop()
        began = loop.time()

        async def lane() -> None:
            for plan in plans:
                await self.tried(plan)
                self.tally.seconds = loop.time() - began
                if self.tally.runs % TOLD_EVERY == 0:
                    self.tell(f"{self.tally.runs} runs")
                if seconds is not None and self.tally.seconds > seconds:
                    return

        async with asyncio.TaskGroup() as group:
            for _ in range(lanes):
                group.create_task(lane())


@asynccontextmanager
async def stage(
    tell: Tell, ground: Ground | None = None, frail_lanes: int = FRAIL_LANES
) -> AsyncIterator[CaseRunner]:
    """A server that stays (or the one that is there), others that do not, and a zygote."""
    async with AsyncExitStack() as stack:
        stays = await stack.enter_async_context(firm()) if ground is None else ground
        on = CaseRunner(stays, await stack.enter_async_context(worker_pool()), Tally(), tell)
        for _ in range(frail_lanes):
            on.frail.put_nowait(await stack.enter_async_context(frail()))
        yield on
