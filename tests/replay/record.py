"""`python -m tests.replay.record`: walk every path on a real server and store its history.

A path that is stored already is left as it is, unless it is named: `… record approved denied`.
"""

import asyncio
import gzip
import json
import os
import sys
import tempfile
from pathlib import Path

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment

from hosting.dev_server import temporal_binary
from hosting.stopping import leave
from tests.replay.paths import PATHS
from tests.replay.replay import HISTORIES, replay, stored
from tests.support import tools
from tests.support.house import SIDE_BY_SIDE, house


async def record(client: Client, name: str, folder: Path) -> None:
    """Walk one path; store its history and what it decided."""
    os.environ[tools.LEDGER] = str(folder / f"ledger-{name}")
    path = PATHS[name]
    async with house(client, folder, path.answers, **SIDE_BY_SIDE, **path.settings) as open_:
        run = await path.start(open_)
        await path.walk(run)
        history = await path.stored(run, client).fetch_history()
        tools.write("open a")
    target = HISTORIES / f"{name}.json.gz"
    target.write_bytes(gzip.compress(history.to_json().encode(), mtime=0))
    decided = (await replay(name))[name]
    golden = json.dumps(decided, indent=1, sort_keys=True, ensure_ascii=False)
    (HISTORIES / f"{name}.golden.json").write_text(golden + "\n", encoding="utf-8")
    print(f"recorded {name}")


async def main() -> None:
    """Record what is missing, and what is named."""
    HISTORIES.mkdir(exist_ok=True)
    wanted = [name for name in PATHS if name in sys.argv[1:] or name not in stored()]
    async with await WorkflowEnvironment.start_local(
        dev_server_existing_path=str(temporal_binary()), data_converter=pydantic_data_converter
    ) as environment:
        with tempfile.TemporaryDirectory() as folder:
            for name in wanted:
                await record(environment.client, name, Path(folder))


if __name__ == "__main__":
    asyncio.run(main())
    leave(0)
