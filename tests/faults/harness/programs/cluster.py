"""A cluster for cases, whose services, database and disk can fail one at a time.

What is killed is started again at once, as an orchestrator does, and so is what ends by itself. The
database's disk is a file system of its own, in memory, which only root can mount.
"""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from temporalio.client import Client

from bench.cluster.cluster import START_TIMEOUT_SECONDS, Cluster, runs_workflows
from bench.cluster.daemon import Daemon
from bench.cluster.programs import programs
from holdfast.hosting.temporal import usable_search_attributes
from holdfast.runtime.data_converter import data_converter
from tests.faults.harness.plans import FULL_DISK, HISTORY, MATCHING, POSTGRESQL
from tests.faults.harness.programs.server import Ground
from tests.support.eventually import eventually

DISK_MB = 512
# The write-ahead log needs new space in each of its segments, and little of the disk.
DISK_SETTINGS = ("wal_recycle=off", "max_wal_size=64MB")
FULL_SECONDS = 3.0


class ClusterGround(Ground):
    """A cluster and a client of it; `kinds` are the faults that it can have."""

    def __init__(self, client: Client, cluster: Cluster, *, has_own_disk: bool) -> None:
        super().__init__(client)
        self._cluster = cluster
        self._killable: dict[str, Daemon] = {
            HISTORY: cluster.services["history"],
            MATCHING: cluster.services["matching"],
            POSTGRESQL: cluster.postgresql.daemon,
        }
        self.kinds = [*self._killable, *([FULL_DISK] if has_own_disk else [])]

    async def inflict(self, kind: str) -> Callable[[], Awaitable[None]]:
        """Kill a part, or fill the disk; what has the cluster whole again."""
        if kind == FULL_DISK:
            return await self._fill_disk()
        await self._killable[kind].kill()
        return self._repair

    async def _fill_disk(self) -> Callable[[], Awaitable[None]]:
        database = self._cluster.postgresql
        filler = database.data / "filler"
        await asyncio.to_thread(_fill, filler)

        async def free() -> None:
            try:
                with suppress(TimeoutError):
                    async with asyncio.timeout(FULL_SECONDS):
                        # It cannot start the next segment of its log, and ends, or waits for room.
                        await database.execute("SELECT pg_switch_wal()")
                        await asyncio.Event().wait()
            finally:
                filler.unlink()
            await self._repair()

        return free

    async def _repair(self) -> None:
        async def works() -> bool:
            for daemon in self._cluster.daemons:
                if not daemon.runs:
                    await daemon.start()
            return await runs_workflows(self.client)

        await eventually(works, START_TIMEOUT_SECONDS)


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(1 << 20))


@contextmanager
def _own_disk(folder: Path) -> Iterator[bool]:
    """Whether a small file system is mounted there: root may."""
    if os.geteuid():
        yield False
        return
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "holdfast-faults", str(folder)]
    subprocess.run(mount, check=True)
    try:
        yield True
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@asynccontextmanager
async def cluster_ground() -> AsyncIterator[ClusterGround]:
    """A cluster on a new database.

    Raises:
        Unavailable: Go or PostgreSQL is missing.
    """
    found = await asyncio.to_thread(programs)
    with TemporaryDirectory(prefix="holdfast-cluster-") as name:
        cluster = Cluster(found, Path(name), DISK_SETTINGS)
        with _own_disk(cluster.postgresql.data) as has_own_disk:
            try:
                client = await cluster.start(data_converter)
                await usable_search_attributes(client)
                yield ClusterGround(client, cluster, has_own_disk=has_own_disk)
            finally:
                await cluster.kill()
