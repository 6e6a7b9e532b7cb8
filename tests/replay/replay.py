"""`python -m tests.replay.replay`: replay every stored history, and print what was decided.

Printed is one JSON object: by the history's name, what the run decided. It is a program of its own
so that the tests can run it under several hash seeds.
"""

import asyncio
import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from temporalio.client import WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer

from hosting.stopping import leave
from tests.replay.decided import Reader
from worker import sandbox
from workflows.agent import AgentWorkflow
from workflows.call import CallWorkflow
from workflows.memory import MemoryWorkflow

HISTORIES = Path(__file__).with_name("histories")


def stored() -> dict[str, Path]:
    """The stored histories by name."""
    return {
        path.name.removesuffix(".json.gz"): path for path in sorted(HISTORIES.glob("*.json.gz"))
    }


async def replay(name: str, path: Path) -> list[dict[str, Any]]:
    """Replay one history; what was decided in it."""
    reader = Reader()
    replayer = Replayer(
        workflows=[AgentWorkflow, CallWorkflow, MemoryWorkflow],
        workflow_runner=sandbox(),
        data_converter=pydantic_data_converter,
        interceptors=[reader],
    )
    history = WorkflowHistory.from_json(name, gzip.decompress(path.read_bytes()).decode())
    started = history.events[0].workflow_execution_started_event_attributes
    # What a run begins is named after it, so it replays under the id that it ran under.
    await replayer.replay_workflow(replace(history, workflow_id=started.workflow_id))
    return reader.decided


async def main() -> None:
    """Replay all, one after the other."""
    decided = {name: await replay(name, path) for name, path in stored().items()}
    print(json.dumps(decided, sort_keys=True))


if __name__ == "__main__":
    asyncio.run(main())
    leave(0)
