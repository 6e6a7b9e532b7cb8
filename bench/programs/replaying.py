"""`python bench/programs/replaying.py MODULE REPEATS HISTORY…`: the processor time of a replay.

Run by the Python of the engine whose histories they are. `MODULE` is a file whose `REPLAYED` says
with what they are replayed; the histories are the parts of one run. Printed are the seconds that
replaying them all took each time, after a first time that is not counted.
"""

import asyncio
import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer

MAX_LATE = 5


async def main(module: Path, repeats: int, files: list[Path]) -> None:
    """Replay, and print."""
    sys.path.insert(0, str(module.parent))
    options: dict[str, Any] = importlib.import_module(module.stem).REPLAYED
    texts = [file.read_text(encoding="utf-8") for file in files]
    histories = [WorkflowHistory.from_json("replayed", text) for text in texts]
    taken, late = list[float](), 0
    while len(taken) <= repeats:
        try:
            taken.append(await _replay(Replayer(**options), histories))
        except RuntimeError:  # on a busy machine, what is loaded first can take too long
            late += 1
            if late == MAX_LATE:
                raise
    # On a line of its own, whatever else was said before.
    print(f"\n{json.dumps(taken[1:])}", flush=True)


async def _replay(replayer: Replayer, histories: list[WorkflowHistory]) -> float:
    began = time.process_time()
    for history in histories:
        await replayer.replay_workflow(history)
    return time.process_time() - began


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), [Path(file) for file in sys.argv[3:]]))
    # Temporal's core, which has threads of its own, can abort a Python that is clearing up.
    os._exit(0)
