"""Play a page in a folder with a shell and Temporal."""

import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from temporalio.client import Client
from temporalio.common import SearchAttributeKey
from temporalio.service import RPCError, RPCStatusCode

from holdfast.runtime.settings_files.json_and_yaml import read_yaml
from holdfast.schemas import names
from tests.docs.page import Example, File, Shell, Step
from tests.docs.terminal import COMMAND_SECONDS, Terminal
from tests.schemas.publish import PUBLISHED
from tests.support.eventually import eventually
from tests.support.process import ROOT

# What a worker prints when it has taken up a changed catalog.
_TAKEN_UP = "for new runs"
# What a page may reach of the repository, as its reader does from the repository's folder.
_REACHED = ("clients", "examples", "Makefile")
_CHECKED_BY = re.compile(r"^# yaml-language-server: \$schema=(\S+)$", re.MULTILINE)
_WAITING = ("awaiting_approval", "awaiting_message")
_STATUS = SearchAttributeKey.for_keyword(names.AGENT_STATUS)
# Where the id of a run stands: in what is typed, or alone on a line of what was printed.
_RUN = re.compile(r"--(?:workflow-)?id (\S+)|^([a-z][\w-]*)$", re.MULTILINE)


class ReaderShell:
    """A reader's folder and shell."""

    def __init__(self, folder: Path, client: Client) -> None:
        self._folder = folder
        self._client = client
        self._runs: dict[str, None] = {}
        self._terminal = Terminal(folder)
        for name in _REACHED:
            (folder / name).symlink_to(ROOT / name)

    async def play(self, step: Step) -> None:
        """Do what the page describes.

        Raises:
            AssertionError: the result is not that of the page.
        """
        match step:
            case File(name, text):
                await self._write(name, text)
            case Example(schema, text):
                assert schema in PUBLISHED, f"no schema `{schema}` is published"
                _check(json.loads(text), ROOT / "holdfast/schemas" / f"{schema}.schema.json")
            case Shell():
                await self._type(step)

    def close(self) -> None:
        """Stop what was started."""
        self._terminal.close()

    async def _write(self, name: str, text: str) -> None:
        if (ROOT / name).exists():
            check_excerpt(ROOT / name, text)
            return
        path = self._folder / name.removeprefix("~/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        if checked_by := _CHECKED_BY.search(text):
            schema = os.path.relpath(path.parent / checked_by.group(1), self._folder)
            _check(_written(text), ROOT / schema)
        worker = self._terminal.worker
        if worker is not None and name.split("/")[0] in worker.options:
            await worker.wait_for(_TAKEN_UP)

    async def _type(self, step: Shell) -> None:
        printed = ""
        for command in re.sub(r"\\\n\s*", "", step.commands).splitlines():
            if command.startswith("holdfast worker"):
                await self._terminal.start(command)
            elif command.strip():
                said = await self._terminal.type(command)
                printed += said
                await self._settle(f"{command}\n{said}")
        if step.prints is not None:
            assert prints(step.prints, printed), f"line {step.line} prints:\n{printed}"

    async def _settle(self, told: str) -> None:
        """A reader is slower than a run: the next command comes when every run waits or is over,
        and is listed so."""
        found = (typed or printed for typed, printed in _RUN.findall(told))
        self._runs |= dict.fromkeys(found)
        if self._terminal.worker is None:
            return
        for run in list(self._runs):
            status = await eventually(partial(self._status, run), COMMAND_SECONDS)
            if status != "none":
                await eventually(partial(self._is_listed, run), COMMAND_SECONDS)
            if status not in _WAITING:
                del self._runs[run]

    async def _status(self, run: str) -> str | None:
        """How a run stands; `none` where it is none, None while it is at work."""
        try:
            status = await self._client.get_workflow_handle(run).query(names.STATUS)
        except RPCError as error:
            if error.status != RPCStatusCode.NOT_FOUND:
                raise
            return "none"
        return None if status["status"] == "running" else str(status["status"])

    async def _is_listed(self, run: str) -> bool:
        """Whether Temporal's lists, which are a moment behind, have a run as it stands."""
        now = await self._client.get_workflow_handle(run).describe()
        listed = self._client.list_workflows(f'RunId = "{now.run_id}"')
        stands = (now.status, now.typed_search_attributes.get(_STATUS))
        is_settled = not now.raw_description.HasField("pending_workflow_task")
        return is_settled and stands in [
            (one.status, one.typed_search_attributes.get(_STATUS)) async for one in listed
        ]


@contextmanager
def stage(folder: Path, client: Client) -> Iterator[ReaderShell]:
    """A stage in an empty folder, which this process is in; `client` is of a namespace of its own.

    The environment is the reader's meanwhile: `holdfast` is executed in this process.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("TEMPORAL", "HOLDFAST"))]:
            patch.delenv(name)
        for name, value in _reader(folder, client).items():
            patch.setenv(name, value)
        patch.chdir(folder)
        made = ReaderShell(folder, client)
        try:
            yield made
        finally:
            made.close()


def _reader(folder: Path, client: Client) -> dict[str, str]:
    return {
        "PATH": f"{Path(sys.executable).parent}:{Path(sys.prefix) / 'bin'}:{os.environ['PATH']}",
        "HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder / ".config"),
        "TEMPORAL_ADDRESS": client.service_client.config.target_host,
        "TEMPORAL_NAMESPACE": client.namespace,
        "OPENAI_API_KEY": "sk-of-the-docs",
        "USER": "ada",
        "COLUMNS": "100",
    }


def prints(expected: str, printed: str) -> bool:
    """Whether just this was printed; `…` matches anything in a line, or alone any lines."""
    pattern = "".join(map(_pattern, _lines(expected)))
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in _lines(printed))) is not None


def _lines(text: str) -> list[str]:
    """The lines; the spaces that align a table are not the page's matter."""
    return [" ".join(line.split()) for line in text.strip().splitlines()]


def _pattern(line: str) -> str:
    if line == "…":
        return r"(?:.*\n)*?"
    return ".*?".join(map(re.escape, line.split("…"))) + r"\n"


def _written(text: str) -> Any:
    """The object that a file is, or whose front matter it is."""
    return read_yaml(text.removeprefix("---\n").partition("\n---\n")[0])[0]


def _check(value: Any, schema: Path) -> None:
    Draft202012Validator(json.loads(schema.read_text())).validate(value)


def check_excerpt(file: Path, text: str) -> None:
    """Check that a block has the lines of a file, `# …` standing for some of them."""
    whole = file.read_text(encoding="utf-8")
    body = re.sub(r"\A(---\n)?(?:#|//) \S+\n", r"\1", text)
    for piece in re.split(r"(?m)^ *(?:#|//) …\n", body):
        assert piece.strip() in whole, f"{file.name} does not hold this any more:\n{piece}"
