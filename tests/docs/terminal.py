"""What a reader types, and what is printed: the worker in a terminal of its own, all else here.

Python takes most of a second to start, so `holdfast` runs within this process; all else,
and what is joined by a shell's operators, is started.
"""

import asyncio
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
from pathlib import Path

from tests.support.command import holdfast
from tests.support.eventually import eventually
from tests.support.process import READY

COMMAND_SECONDS = 120
_EXPECTED = re.compile(r"  # exit (\d+)$")
_FOR_BASH = re.compile(r"[|&;<>$`*]")
# Temporal's client may abort a Python that tidies up under its threads, all of its work done
# (temporalio/sdk-python issue 300). No reader sees that, and none need to.
_ABORTED = re.compile(r"Fatal Python error: .*\nPython runtime state: finalizing.*\Z", re.DOTALL)


class Terminal:
    """A shell in the folder and the environment of this process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.worker: ReaderWorker | None = None

    async def type(self, command: str) -> str:
        """Run a command; what it prints.

        Raises:
            AssertionError: its exit code is not 0, or not the one that it names itself.
        """
        said = _EXPECTED.search(command)
        code, printed = await self._execute(_EXPECTED.sub("", command))
        expected = int(said.group(1)) if said else 0
        assert code == expected, f"{command}\nexit {code}\n{printed}"
        return printed

    async def start(self, command: str) -> None:
        """Start a worker in place of the one before, if there is one.

        `--dev` is left out: the server is there already.
        """
        self.close()
        command = re.sub(r" --dev(?= |$)", "", command)
        self.worker = ReaderWorker(
            _open(
                command.replace("holdfast", f"exec {sys.executable} -m holdfast", 1), self._folder
            ),
            command.split(),
        )
        await self.worker.wait_for(READY)

    def close(self) -> None:
        """End the worker, if there is one."""
        if self.worker is not None:
            self.worker.end()
        self.worker = None

    async def _execute(self, command: str) -> tuple[int, str]:
        is_ours = command.startswith("holdfast ") and not _FOR_BASH.search(_unquoted(command))
        if is_ours:
            said = await holdfast(*shlex.split(command)[1:])
            return said.code, said.out + said.err
        return await asyncio.to_thread(_ended, _open(command, self._folder))


class ReaderWorker:
    """A reader's worker. `options` are the words that it was started with."""

    def __init__(self, process: subprocess.Popen[str], options: list[str]) -> None:
        self.options = options
        self._process = process
        self._printed = ""
        self._read = 0
        self._terminal = threading.Thread(target=self._listen)
        self._terminal.start()

    async def wait_for(self, words: str) -> None:
        """Wait until it prints these words, behind what was waited for before."""

        async def is_printed() -> bool:
            assert self._process.poll() is None, self._printed
            return words in self._printed[self._read :]

        await eventually(is_printed)
        self._read = self._printed.index(words, self._read) + len(words)

    def end(self) -> None:
        """End it at once: a polite stop takes seconds, and a run does not notice either."""
        self._process.kill()
        self._process.wait(120)
        self._terminal.join()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._printed += line


def _unquoted(command: str) -> str:
    return re.sub(r"'[^']*'", "", command)


def _open(command: str, folder: Path) -> subprocess.Popen[str]:
    bash = shutil.which("bash") or "/bin/sh"
    return subprocess.Popen(
        # The command, whether or not this checkout is installed.
        [bash, "-c", f'holdfast() {{ "{sys.executable}" -m holdfast "$@"; }}\n{command}'],
        cwd=folder,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    try:
        printed, _ = process.communicate(timeout=COMMAND_SECONDS)
    finally:
        process.kill()
    done = _ABORTED.sub("", printed)
    return (process.returncode if done == printed else 0), done
