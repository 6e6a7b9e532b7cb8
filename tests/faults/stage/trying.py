"""Trying plans: several cases side by side, each judged by its scenario undisturbed."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from tests.faults.stage.case import Case
from tests.faults.stage.checks import judge
from tests.faults.stage.ground import Ground, firm, frail
from tests.faults.stage.left import Fault, Left
from tests.faults.stage.nursery import Nursery, nursery
from tests.faults.stage.passes import Plan
from tests.faults.stage.points import RUN
from tests.faults.stage.scenarios import SCENARIOS
from tests.faults.stage.tally import Tally

# Where the first point was not come to, it is tried again: what runs at once takes turns.
ATTEMPTS = 3
FRAIL_LANES = 3
TOLD_EVERY = 50

Tell = Callable[[str], None]


class Unfit(Exception):
    """A scenario that does not come to what it says, though nothing befalls it."""


@dataclass
class Stage:
    """Where cases are lived through. On each frail ground there is one at a time."""

    ground: Ground
    nursery: Nursery
    tally: Tally
    tell: Tell
    frail: "asyncio.Queue[Ground]" = field(default_factory=asyncio.Queue)
    calm: dict[str, Left] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    async def undisturbed(self, names: Iterable[str]) -> dict[str, list[str]]:
        """The points of scenarios; each has to come to what it says that it comes to.

        Raises:
            Unfit: one does not.
        """
        for name in names:
            scenario, left = SCENARIOS[name], await self._live(name, (), self.ground)
            came_to = {line["key"].replace(left.id, RUN): line["tool"] for line in left.effects}
            problems = [f"{one.kind}: {one.words}" for one in judge(left, left)]
            as_said = left.result and left.result.get("output") == scenario.output
            if problems or not as_said or came_to != scenario.effects:
                raise Unfit(f"{name} is wrong undisturbed: {left.result}, {came_to}, {problems}")
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

    async def _tried(self, plan: Plan) -> Left:
        if not plan.frail:
            return await self._live(plan.scenario, plan.faults, self.ground)
        ground = await self.frail.get()
        try:
            return await self._live(plan.scenario, plan.faults, ground)
        finally:
            self.frail.put_nowait(ground)

    async def _live(self, name: str, faults: tuple[Fault, ...], ground: Ground) -> Left:
        id = f"{name}-{next(self._numbers)}"
        return await Case(id, SCENARIOS[name], faults, ground, self.nursery).live()

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
) -> AsyncIterator[Stage]:
    """A server that stays (or the one that is there), others that do not, and a zygote."""
    async with AsyncExitStack() as stack:
        stays = await stack.enter_async_context(firm()) if ground is None else ground
        on = Stage(stays, await stack.enter_async_context(nursery()), Tally(), tell)
        for _ in range(frail_lanes):
            on.frail.put_nowait(await stack.enter_async_context(frail()))
        yield on
