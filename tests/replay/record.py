"""`python -m tests.replay.record`: walk paths on a real server and store their histories.

    record                      the paths without a history
    record approved denied      these again
    record --all                every path again
    record --commit             write the id of the last commit of histories to recorded_at.txt
    record --release 0.1.0      move what was recorded since the last release to the new one

Histories of a release are never recorded again.
"""

import asyncio
import gzip
import json
import os
import sys
import tempfile
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment

from holdfast.hosting.dev_server import temporal_binary
from holdfast.hosting.process_exit import exit_process
from tests.replay.paths import PATHS
from tests.replay.replay import replay
from tests.replay.shelf import (
    CHANGELOG,
    HISTORIES,
    HISTORY,
    RECORDED_AT,
    golden,
    last_commit,
    release,
    releases,
    stored,
)
from tests.support import tools
from tests.support.backend import SIDE_BY_SIDE, backend


async def record(client: Client, name: str, folder: Path) -> None:
    """Walk one path; store its history and what it decided."""
    os.environ[tools.LEDGER] = str(folder / f"ledger-{name}")
    path = PATHS[name]
    async with path.settings_in(folder) as told:
        settings = {"task_queue": name, **SIDE_BY_SIDE, **path.settings, **told}
        serve = partial(backend, client, folder, path.answers, **settings)
        async with AsyncExitStack() as stack:
            open_ = await stack.enter_async_context(serve())
            run = await path.start(open_)
            if path.outage is not None:
                await run.waiting()
                await stack.aclose()
                await path.outage(run)
                await stack.enter_async_context(serve())
            await path.walk(run)
            history = await path.stored(run, client).fetch_history()
            tools.write("open a")
    target = HISTORIES / f"{name}{HISTORY}"
    target.write_bytes(gzip.compress(history.to_json().encode(), mtime=0))
    decided = (await replay(name))[name]
    text = json.dumps(decided, indent=1, sort_keys=True, ensure_ascii=False)
    golden(name).write_text(text + "\n", encoding="utf-8")
    print(f"recorded {name}")


async def main(*named: str) -> None:
    """Record the paths without a history, and those that are named."""
    HISTORIES.mkdir(exist_ok=True)
    there = set() if "--all" in named else {name.rpartition("/")[2] for name in stored()}
    wanted = [name for name in PATHS if name in named or name not in there]
    async with await WorkflowEnvironment.start_local(
        dev_server_existing_path=str(temporal_binary()), data_converter=pydantic_data_converter
    ) as environment:
        with tempfile.TemporaryDirectory() as folder:
            for name in wanted:
                await record(environment.client, name, Path(folder))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--release", version]:
            if version not in releases(CHANGELOG.read_text(encoding="utf-8")):
                sys.exit(f"{CHANGELOG.name} has no heading `## [{version}]`; write it first")
            release(version)
        case ["--commit"]:
            RECORDED_AT.write_text(f"{last_commit(HISTORIES)}\n", encoding="utf-8")
        case named:
            asyncio.run(main(*named))
    exit_process(0)
