"""A case of the fault harness repairs what it broke, whatever becomes of the run meanwhile."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults.harness import case as harness
from tests.faults.harness.plans import FULL_DISK, Fault
from tests.faults.harness.scenarios import SCENARIOS


async def test_a_fault_is_undone_though_who_strikes_is_cancelled_in_the_middle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run may end while a person fills the disk: people are not waited for then."""
    started, undone = asyncio.Event(), asyncio.Event()

    async def inflict(*_: object) -> Callable[[], Awaitable[None]]:
        async def undo() -> None:
            undone.set()

        started.set()
        await asyncio.sleep(0)
        return undo

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(harness, "inflict", inflict)
    nothing: Any = None
    made = harness.Case("c", SCENARIOS["payment"], (Fault("a point", FULL_DISK),), nothing, nothing)
    made._arm()
    striking = asyncio.create_task(made.reach("a point"))
    await started.wait()
    striking.cancel()
    async with asyncio.timeout(120):
        await undone.wait()
