"""`python -m tests.replay.upgrade [COMMIT]`: a run of one version is decided on the other.

COMMIT, by default the oldest that this version is compatible with, is checked out into a temporary
folder, with an environment from its own lock file. In both directions (an upgrade and a roll-back),
plain, encrypted and with a store: the worker of one version takes a run to a pending approval and
is killed; the worker of the other one runs it to its end, after a decision by the other one's own
command.
"""

import asyncio
import os
import secrets
import subprocess
import sys
import tempfile
import venv
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from holdfast.hosting.dev_server import DevServer, run_dev_server
from tests.replay.shelf import compatible_since

ROOT = Path(__file__).parents[2]
PENDING_TIMEOUT_SECONDS = 60
FILES = {
    "shop.py": '''\
from pydantic import BaseModel
from temporalio import activity


class Refund(BaseModel, json_schema_extra={"_sideEffects": True}):
    order: str
    note: str


@activity.defn
async def refund(arguments: Refund) -> dict[str, str]:
    """Refund an order."""
    return {"refunded": arguments.order, "receipt": "x" * 200_000}
''',
    "desk/agents/desk.md": "---\nmodel: {endpoint: demo, name: m}\ntools: [refund]\n---\nRefund.\n",
    "endpoints.yaml": "demo: {provider: script, file: answers.yaml}\n",
    "answers.yaml": (
        "- calls: [{tool: refund, arguments: {order: '7', note: late}}]\n- text: refunded\n"
    ),
    "encryption.yaml": "keys: [{id: one, env: RUN_KEY}]\n",
}
OPTIONS = ("--tools", "shop.py", "--catalog", "desk", "--endpoints", "endpoints.yaml")
MODES = {
    "plain": {},
    "encrypted": {"HOLDFAST_ENCRYPTION": "encryption.yaml", "RUN_KEY": secrets.token_hex(32)},
    "with a store": {"HOLDFAST_STORE": "store"},
}


class Version:
    """One version of Holdfast: its checkout and its Python."""

    def __init__(self, folder: Path, python: Path) -> None:
        self._folder, self._python = folder, python

    async def holdfast(self, environment: dict[str, str], *words: str) -> str:
        """Run a `holdfast` command and return its output."""
        process = await asyncio.create_subprocess_exec(
            self._python, "-m", "holdfast", *words, env=environment, stdout=-1, stderr=-2
        )
        out, _ = await process.communicate()
        if process.returncode:
            raise RuntimeError(f"{' '.join(words)}: {out.decode()}")
        return out.decode()

    @asynccontextmanager
    async def worker(self, environment: dict[str, str]) -> AsyncIterator[None]:
        """Run a worker, and kill it at the end as a crash would."""
        process = await asyncio.create_subprocess_exec(
            self._python, self._folder / "worker.py", *OPTIONS, env=environment, stdout=-1
        )
        assert process.stdout is not None
        try:
            while b"ready" not in (line := await process.stdout.readline()):
                if not line:
                    raise RuntimeError("the worker did not start")
            yield
        finally:
            process.kill()
            await process.wait()


@contextmanager
def checked_out(commit: str) -> Iterator[Version]:
    """Check a commit out and install what its lock file names."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        git = ("git", "-C", str(ROOT), "worktree")
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), commit], check=True)
        try:
            venv.create(tree / ".venv", with_pip=True)
            python = tree / ".venv/bin/python"
            pip = (str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", "install")
            lock = str(tree / "requirements/run.lock")
            subprocess.run([*pip, "--require-hashes", "-r", lock], check=True)
            build = ("--no-deps", "--no-build-isolation", "-e", str(tree))
            subprocess.run([*pip, *build], check=True)
            yield Version(tree, python)
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


async def check(first: Version, second: Version, environment: dict[str, str], run: str) -> None:
    """Start a run on one version, and decide and end it on the other."""
    async with first.worker(environment):
        await first.holdfast(
            environment, "run", "desk", "--input", "Order 7", "--id", run, "--detach"
        )
        async with asyncio.timeout(PENDING_TIMEOUT_SECONDS):
            while run not in await first.holdfast(environment, "approvals"):
                await asyncio.sleep(0.2)
    async with second.worker(environment):
        await second.holdfast(environment, "decide", run, "t1c1", "approve")
        shown = await second.holdfast(environment, "watch", run)
        assert "completed" in shown, shown


async def main(commit: str) -> None:
    """Check every mode in both directions."""
    print(f"from and to commit {commit}", flush=True)
    with checked_out(commit) as old, tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        for name, text in FILES.items():
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_text(text, encoding="utf-8")
        new = Version(ROOT, Path(sys.executable))
        async with run_dev_server(DevServer(Path("temporal.db"), port=0, ui_port=0)) as address:
            for mode, more in MODES.items():
                environment = {**os.environ, "TEMPORAL_ADDRESS": address, **more}
                name = mode.replace(" ", "-")
                await check(old, new, environment, f"up-{name}")
                await check(new, old, environment, f"back-{name}")
                print(f"{mode}: upgraded and rolled back", flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:] or [compatible_since()]))
