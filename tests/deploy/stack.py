"""What `deploy/compose.yaml` starts, without Docker: containers of ours, the others natively.

Each has the command, the environment and the files that it has there. `own_network.sh` has made the
networks, the names and an /etc that may be written. Temporal's UI and the collector are left out.
"""

import asyncio
import os
import re
import shutil
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

from bench.cluster.programs import MODULE, VERSION, Programs
from holdfast.hosting.dev_server import temporal_binary
from tests.deploy.image import Container, Image, run
from tests.deploy.reading import DEPLOY, ROOT, compose
from tests.support.eventually import eventually

SERVICES: dict[str, dict[str, Any]] = compose()["services"]
PERSON = "ada"
START_SECONDS = 120
STOP_SECONDS = 60
# Where the image of `schema` has it.
_SCHEMA = Path("/etc/temporal/schema")
_VARIABLE = re.compile(r"\$\{(\w+)(?::[-?]([^}]*))?\}")


class Stack:
    """The services, in a folder of their own that other users may enter."""

    def __init__(self, folder: Path, image: Image, programs: Programs) -> None:
        self._folder, self._image, self._programs = folder, image, programs
        self._processes: list[subprocess.Popen[bytes]] = []
        deploy = folder / "deploy"
        shutil.copytree(DEPLOY, deploy, ignore=shutil.ignore_patterns(".env", "secret"))
        (folder / "examples").symlink_to(ROOT / "examples")
        said = run("sh", deploy / "prepare.sh", PERSON)
        [self.password] = re.findall(r"with the password (\w+)", said)
        self.certificate = deploy / "secret/gate.crt"
        lines = (deploy / ".env").read_text("utf-8").splitlines()
        self._secrets = dict(line.split("=", 1) for line in lines if not line.startswith("#"))
        (folder / "bin").mkdir()
        (folder / "bin/temporal").symlink_to(temporal_binary())
        (folder / "bin/temporal-sql-tool").symlink_to(programs.temporal / "sql")

    async def start_temporal(self) -> None:
        """Start PostgreSQL and Temporal, with its schema and its namespace."""
        await self._start_postgresql()
        _SCHEMA.parent.mkdir(exist_ok=True)
        _SCHEMA.symlink_to(Path(run("go", "env", "GOMODCACHE"), f"{MODULE}@v{VERSION}/schema"))
        await self._run_script("schema")
        # The entry point of the server's image sets it where the server listens on all addresses.
        own = f"TEMPORAL_BROADCAST_ADDRESS={socket.gethostbyname('temporal')}"
        self._start("temporal", "env", own, str(self._programs.temporal / "server"), "start")

        async def listens() -> bool:
            try:
                socket.create_connection(("temporal", 7233), timeout=1).close()
            except OSError:
                return False
            return True

        await eventually(listens, START_SECONDS)
        await self._run_script("namespace")

    def start_gate(self) -> None:
        """Start nginx at the gate's address."""
        self._start("gate", "nsenter", "--net=/run/netns/gate", "nginx", "-g", "daemon off;")

    def start(self, name: str) -> Container:
        """Start one of our services."""
        made = Container(
            name,
            self._image,
            SERVICES[name],
            self._environment(name),
            self._volumes(name),
            self._folder,
        )
        self._processes.append(made.start())
        return made

    async def complete(self, name: str) -> None:
        """Run one of our services to its end."""
        log = self.start(name).log
        await self._ended(self._processes.pop(), log)

    def stop(self) -> list[int]:
        """Stop all that runs, the last started first; return the exit codes."""
        for process in reversed(self._processes):
            process.send_signal(signal.SIGTERM)
            process.wait(STOP_SECONDS)
        return [process.returncode for process in self._processes]

    async def _start_postgresql(self) -> None:
        """Create the database as PostgreSQL's image does, and start it."""
        environment = self._environment("postgresql")
        data, password = self._folder / "database", self._folder / "password"
        data.mkdir()
        password.write_text(environment["POSTGRES_PASSWORD"])
        for each in (data, password):
            shutil.chown(each, "postgres", "postgres")
        user = (f"--username={environment['POSTGRES_USER']}", f"--pwfile={password}")
        run(*self._postgresql("initdb", *user, "--auth=scram-sha-256", "--pgdata", str(data)))
        with (data / "pg_hba.conf").open("a") as access:
            access.write("host all all all scram-sha-256\n")
        options = ("-c", "listen_addresses=*", "-c", "unix_socket_directories=")
        self._start("postgresql", *self._postgresql("postgres", "-D", str(data), *options))
        check = SERVICES["postgresql"]["healthcheck"]["test"][1:]

        async def healthy() -> bool:
            checked = await asyncio.create_subprocess_exec(
                *self._postgresql(*check, "--quiet", "--host", "postgresql")
            )
            return await checked.wait() == 0

        await eventually(healthy, START_SECONDS)

    def _postgresql(self, program: str, *words: str) -> list[str]:
        """A command of PostgreSQL's, as its user."""
        return [*self._programs.as_postgres, str(self._programs.postgresql / program), *words]

    def _environment(self, name: str) -> dict[str, str]:
        """A service's variables, with the secrets in place of their names."""
        written: dict[str, str] = SERVICES[name].get("environment", {})
        return {
            key: _VARIABLE.sub(lambda found: self._secrets.get(found[1], found[2] or ""), value)
            for key, value in written.items()
        }

    def _volumes(self, name: str) -> list[tuple[Path, str, str]]:
        """A service's volumes: source, target, and `ro` or `rw`; a named one is a folder."""
        volumes = []
        for each in SERVICES[name].get("volumes", []):
            source, target, *mode = each.split(":")
            place = self._folder / ("deploy" if source.startswith(".") else "volumes") / source
            if not source.startswith("."):
                place.mkdir(parents=True, exist_ok=True)
            volumes.append((place.resolve(), target, *(mode or ["rw"])))
        return volumes

    async def _run_script(self, name: str) -> None:
        """Run a service that is a script to its end."""
        places = {target: str(source) for source, target, _ in self._volumes(name)}
        log = self._start(name, *(places.get(word, word) for word in SERVICES[name]["command"]))
        await self._ended(self._processes.pop(), log)

    def _start(self, name: str, *command: str) -> Path:
        """Start a program of this machine as a service; return its log."""
        for source, target, _ in self._volumes(name):
            if target.startswith("/etc/"):
                Path(target).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, target)
        path = f"{self._folder}/bin:{os.environ['PATH']}"
        log = self._folder / f"{name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                env={"PATH": path, **self._environment(name)},
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self._processes.append(process)
        return log

    async def _ended(self, process: "subprocess.Popen[bytes]", log: Path) -> None:
        code = await asyncio.to_thread(process.wait, START_SECONDS)
        assert code == 0, log.read_text("utf-8")
