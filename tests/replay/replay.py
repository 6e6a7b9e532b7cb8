"""`python -m tests.replay.replay`: replay every stored history, and print what was decided.

Printed is one JSON object: by the history's name, what the run decided. It is a program of its own
so that the tests can run it under several hash seeds.
"""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from temporalio.client import WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer

from holdfast.hosting.process_exit import exit_process
from holdfast.hosting.sdk_workarounds.workflow_runner import workflow_runner
from holdfast.workflows.absences import AbsencesWorkflow
from holdfast.workflows.agent import AgentWorkflow
from holdfast.workflows.base_workflow import CallWorkflow
from holdfast.workflows.budget import BudgetWorkflow
from holdfast.workflows.memory import MemoryWorkflow
from tests.replay.decided import DecisionReader
from tests.replay.shelf import stored


async def replay(*names: str) -> dict[str, list[dict[str, Any]]]:
    """Replay stored histories, all by one worker; by name, what was decided in each."""
    reader = DecisionReader()
    replayer = Replayer(
        workflows=[AgentWorkflow, CallWorkflow, MemoryWorkflow, BudgetWorkflow, AbsencesWorkflow],
        workflow_runner=workflow_runner(),
        data_converter=pydantic_data_converter,
        interceptors=[reader],
    )
    paths = stored()
    histories = {name: _history(name, paths[name]) for name in names}
    await replayer.replay_workflows(_each(histories.values()))
    return {name: reader.decided(history.run_id) for name, history in histories.items()}


def _history(name: str, path: Path) -> WorkflowHistory:
    history = WorkflowHistory.from_json(name, gzip.decompress(path.read_bytes()).decode())
    started = history.events[0].workflow_execution_started_event_attributes
    # What a run begins is named after it, so it replays under the id that it ran under.
    return replace(history, workflow_id=started.workflow_id)


async def _each(histories: Iterable[WorkflowHistory]) -> AsyncIterator[WorkflowHistory]:
    for history in histories:
        yield history


async def main() -> None:
    """Replay all."""
    print(json.dumps(await replay(*stored()), sort_keys=True))


if __name__ == "__main__":
    asyncio.run(main())
    exit_process(0)
