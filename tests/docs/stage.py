"""Where a page is played: a folder, a shell, Temporal, and a model that says what is needed."""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator
from temporalio.client import Client

from schemas import names
from tests.docs.page import Answers, Example, File, Shell, Step
from tests.support.eventually import eventually
from tests.support.model_server import Answer, ModelServer, serve
from tests.support.worker_process import READY

ROOT = Path(__file__).parents[2]
COMMAND_SECONDS = 60
# What a worker says when it has taken up a changed catalog.
_TAKEN_UP = "for new runs"
# The command, whether or not this checkout is installed.
_HOLDFAST = f'holdfast() {{ "{sys.executable}" "{ROOT}/client.py" "$@"; }}'
# What a page may reach of the repository, as its reader does from the repository's folder.
_REACHED = ("worker.py", "examples", "schemas", "Makefile")


class Stage:
    """A reader's folder and shell."""

    def __init__(self, folder: Path, client: Client, model: ModelServer) -> None:
        self._folder = folder
        self._client = client
        self._answers: list[Answer] = []
        self._exports: list[str] = []
        self._worker: _Worker | None = None
        model.answer = self._answer
        self._environment = self._reader(model)
        for name in _REACHED:
            (folder / name).symlink_to(ROOT / name)

    async def play(self, step: Step) -> None:
        """Do what the page says."""
        match step:
            case Answers(text):
                self._answers = [_answer(each) for each in yaml.safe_load(text)]
            case File(name, text):
                await self._write(name, text)
            case Example(schema, text):
                _check(schema, json.loads(text))
            case Shell():
                await self._type(step)

    def close(self) -> None:
        """Stop the worker."""
        if self._worker is not None:
            self._worker.stop()
        self._worker = None

    def _reader(self, model: ModelServer) -> dict[str, str]:
        config = self._client.service_client.config
        own = {name: value for name, value in os.environ.items() if "TEMPORAL" not in name}
        return own | {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(self._folder),
            "TEMPORAL_ADDRESS": config.target_host,
            "TEMPORAL_NAMESPACE": self._client.namespace,
            "OPENAI_API_KEY": "sk-of-the-docs",
            "OPENAI_BASE_URL": model.url,
            "PYTHONUNBUFFERED": "1",
            "USER": "ada",
            "COLUMNS": "100",
        }

    def _answer(self, turn: int, body: dict[str, Any]) -> Answer:
        return self._answers[min(turn, len(self._answers)) - 1]

    async def _write(self, name: str, text: str) -> None:
        if (ROOT / name).exists():
            whole = (ROOT / name).read_text(encoding="utf-8")
            body = re.sub(r"\A(#|//) \S+\n", "", text)
            for piece in re.split(r"(?m)^ *(?:#|//) …\n", body):
                assert piece.strip() in whole, f"{name} does not hold this any more:\n{piece}"
            return
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        if self._worker is not None and name.split("/")[0] in self._worker.options:
            await self._worker.says(_TAKEN_UP)

    async def _type(self, step: Shell) -> None:
        printed = ""
        for command in re.sub(r"\\\n\s*", "", step.commands).splitlines():
            if command.startswith("export "):
                self._exports.append(command)
            elif command.startswith("python worker.py") and "--help" not in command:
                await self._start(command)
            elif command.strip():
                printed += await self._carry_out(command)
                await self._settle()
        if step.prints is not None:
            assert _prints(step.prints, printed), f"line {step.line} prints:\n{printed}"

    async def _start(self, command: str) -> None:
        self.close()
        process = self._open(f"exec {command.replace('--dev', '')}")
        self._worker = _Worker(process, command.split())
        await self._worker.says(READY)

    async def _carry_out(self, command: str) -> str:
        expected = re.search(r"  # exit (\d)$", command)
        process = self._open(command)
        try:
            printed, _ = await asyncio.to_thread(process.communicate, timeout=COMMAND_SECONDS)
        finally:
            process.kill()
        code = int(expected.group(1)) if expected else 0
        assert process.returncode == code, f"{command}\nexit {process.returncode}\n{printed}"
        return printed

    def _open(self, command: str) -> subprocess.Popen[str]:
        bash = shutil.which("bash") or "/bin/sh"
        return subprocess.Popen(
            [bash, "-c", "\n".join([_HOLDFAST, *self._exports, command])],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    async def _settle(self) -> None:
        """A reader is slower than a run: the next command comes when every run waits or is over."""

        async def settled() -> bool:
            query = 'ExecutionStatus = "Running"'
            async for each in self._client.list_workflows(query):
                handle = self._client.get_workflow_handle(each.id)
                status = await handle.query(names.STATUS)
                if status["status"] == "running":
                    return False
            return True

        if self._worker is not None:
            await eventually(settled, COMMAND_SECONDS)


class _Worker:
    """The reader's worker, in a terminal of its own."""

    def __init__(self, process: subprocess.Popen[str], options: list[str]) -> None:
        self.options = options
        self._process = process
        self._printed = ""
        self._read = 0
        self._terminal = threading.Thread(target=self._listen)
        self._terminal.start()

    async def says(self, words: str) -> None:
        """Wait until it prints these words, behind what was waited for before."""

        async def said() -> bool:
            assert self._process.poll() is None, self._printed
            return words in self._printed[self._read :]

        await eventually(said)
        self._read = self._printed.index(words, self._read) + len(words)

    def stop(self) -> None:
        """End it, as an operator does."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(30)
        self._terminal.join()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._printed += line


@contextmanager
def stage(folder: Path, client: Client) -> Iterator[Stage]:
    """A stage in an empty folder; `client` is of a namespace of its own."""
    with serve([]) as model:
        made = Stage(folder, client, model)
        try:
            yield made
        finally:
            made.close()


def _answer(said: dict[str, Any]) -> Answer:
    assert set(said) <= {"text", "calls"}
    calls = [pair for call in said.get("calls", []) for pair in call.items()]
    return Answer(said.get("text", ""), calls)


def _check(schema: str, value: Any) -> None:
    published = json.loads((ROOT / "schemas" / f"{schema}.schema.json").read_text())
    Draft202012Validator(published).validate(value)


def _prints(expected: str, printed: str) -> bool:
    """Whether a text was printed; `…` stands for anything, a line of its own for any lines."""
    pattern = re.escape(expected.strip()).replace("…", ".*?")
    # The width of a terminal, and the spaces that align a table, are not the page's matter.
    pattern = re.sub(r"(\\ )+", r" +", pattern)
    return re.search(pattern, printed, re.DOTALL) is not None
