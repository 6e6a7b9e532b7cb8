"""Workflows that try the sandbox: lines that are to be refused, and two runs that meet."""

import random
import time
import uuid
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from temporalio import workflow
from temporalio.workflow import NondeterminismError

with workflow.unsafe.imports_passed_through():
    from tests.support.sandbox.meeting import meet

IMPURE: dict[str, Callable[[], Any]] = {
    "clock": lambda: time.time(),
    "date": lambda: datetime.now(),  # noqa: DTZ005
    "chance": lambda: random.random(),
    "id": lambda: uuid.uuid4(),
    "file": lambda: open(__file__),  # noqa: PTH123, SIM115
    "path": lambda: Path(__file__).read_text(encoding="utf-8"),
}
# What a module has of a run, every run of its has: this is what `workflows` must not do.
runs_here: list[str] = []


@workflow.defn(failure_exception_types=[NondeterminismError])
class Impure:
    """A workflow with a line that a replay would not repeat."""

    @workflow.run
    async def run(self, line: str) -> str:
        """What came of the line."""
        return str(IMPURE[line]())


@workflow.defn(failure_exception_types=[NondeterminismError])
class Late:
    """An impure line, once another run is over that began later."""

    @workflow.run
    async def run(self) -> str:
        """What came of the line."""
        if not meet():
            raise RuntimeError("the other run did not end meanwhile: Temporal repeats this task")
        return str(time.time())


@workflow.defn
class RunCounter:
    """How many runs there were, as the module knows it."""

    @workflow.run
    async def run(self) -> int:
        """Their number."""
        runs_here.append(workflow.info().run_id)
        return len(runs_here)
