"""Each transcript, read as the reference of a command: what is typed, and what is printed.

`python -m tests.cli.transcripts.test_transcripts` writes all outputs again: read the difference.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from holdfast.client import remote_run
from holdfast.hosting.temporal import usable_search_attributes
from tests.cli.conftest import Start
from tests.cli.transcripts.playing import CommandTranscript
from tests.support.namespaces import new_namespace
from tests.support.text_files import compare, text_files, write_again

TRANSCRIPTS = text_files(__file__, ".txt")


@pytest.fixture
async def client(temporal: WorkflowEnvironment, request: pytest.FixtureRequest) -> Client:
    """Return a client of a namespace of its own."""
    name = f"transcript-{request.node.callspec.id.replace('/', '-')}"
    client = await new_namespace(temporal.client, name)
    await usable_search_attributes(client)
    return client


@pytest.fixture
def own_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have the modules of the folder imported, and none of the same name that a test has left."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    forget_modules(tmp_path.parent)
    yield
    forget_modules(tmp_path)


def forget_modules(folder: Path) -> None:
    for name, module in [*sys.modules.items()]:
        if (getattr(module, "__file__", None) or "").startswith(str(folder)):
            del sys.modules[name]


@pytest.mark.usefixtures("own_modules")
@pytest.mark.parametrize("name", TRANSCRIPTS)
async def test_a_command_prints_what_is_written(
    name: str, client: Client, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    program = tmp_path / "holdfast"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m holdfast "$@"\n')
    program.chmod(0o755)
    monkeypatch.chdir(folder)
    for variable, value in {"LOGNAME": "ann", "COLUMNS": "80", "LINES": "24"}.items():
        monkeypatch.setenv(variable, value)
    for variable in ("EDITOR", "VISUAL", "TRACEPARENT"):
        monkeypatch.delenv(variable, raising=False)
    written = TRANSCRIPTS[name].read_text(encoding="utf-8")
    if "\nworker" not in written:
        monkeypatch.setattr(remote_run, "NO_WORKER_SECONDS", 1)
    played = await CommandTranscript(folder, client, monkeypatch, start).play(written)
    compare(TRANSCRIPTS[name], played)


if __name__ == "__main__":
    write_again(__file__)
