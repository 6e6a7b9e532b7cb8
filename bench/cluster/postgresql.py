"""A PostgreSQL server of its own, with the schemas of Temporal's server."""

import asyncio
import os
import shutil
import subprocess
from asyncio.subprocess import DEVNULL
from collections.abc import Sequence
from pathlib import Path

from bench.cluster.daemon import Daemon
from bench.cluster.programs import SYSTEM_USER, Programs
from holdfast.hosting.dev_server import HOST, free_port

USER = "temporal"
PLUGIN = "postgres12_pgx"
# By the name of a database, its schema in the server's SQL tool.
_SCHEMAS = {"temporal": "temporal", "temporal_visibility": "visibility"}
# Each of the four services opens up to 30.
_CONNECTIONS = 200
_ANSWER_SECONDS = 2


class Postgresql:
    """A server on loopback, with its data in a folder; each connection is trusted."""

    def __init__(self, programs: Programs, folder: Path, settings: Sequence[str] = ()) -> None:
        self.data = folder / "postgresql"
        self.port = free_port()
        self._programs = programs
        on_loopback = (f"listen_addresses={HOST}", "unix_socket_directories=")
        settings = [*on_loopback, f"max_connections={_CONNECTIONS}", *settings]
        command = ["postgres", "-D", str(self.data), "-p", str(self.port)]
        command += [option for each in settings for option in ("-c", each)]
        self.daemon = Daemon(self._as_its_user(command), folder / "postgresql.log", {})

    def create(self) -> None:
        """Create its data; the folder may be there, and empty."""
        self.data.mkdir(exist_ok=True)
        if not os.geteuid():
            shutil.chown(self.data, SYSTEM_USER, SYSTEM_USER)
            self.data.parent.chmod(0o711)  # a temporary folder is closed to other users
        command = ["initdb", "-D", str(self.data), "-U", USER, "--auth=trust", "--encoding=UTF8"]
        _run(self._as_its_user([*command, "--locale=C", "--no-sync"]), self.data.parent)

    async def answers(self) -> bool:
        """Whether it accepts connections."""
        return await self._asked("pg_isready", "-t", str(_ANSWER_SECONDS))

    async def execute(self, sql: str) -> bool:
        """Execute a statement; whether it could be."""
        return await self._asked("psql", "-d", "postgres", "-c", sql)

    def create_databases(self) -> None:
        """Create Temporal's databases, by its server's own tool."""
        where = ["--plugin", PLUGIN, "--ep", HOST, "-p", str(self.port), "-u", USER]
        for name, schema in _SCHEMAS.items():
            source = f"postgresql/v12/{schema}"
            for step in (
                ["create"],
                ["setup-schema", "-v", "0.0"],
                ["update-schema", "--schema-name", source],
            ):
                tool = self._programs.temporal / "sql"
                _run([tool, *where, "--db", name, *step], self.data.parent)

    async def _asked(self, program: str, *arguments: str) -> bool:
        where = ("-q", "-h", HOST, "-p", str(self.port), "-U", USER)
        path = self._programs.postgresql / program
        asked = await asyncio.create_subprocess_exec(
            path, *where, *arguments, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL
        )
        return not await asked.wait()

    def _as_its_user(self, command: Sequence[str]) -> list[str | Path]:
        name, *arguments = command
        return [*self._programs.as_postgres, self._programs.postgresql / name, *arguments]


def _run(command: Sequence[str | Path], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{command} failed: {done.stdout}{done.stderr}")
