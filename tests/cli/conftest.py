"""The command, and a worker for it to talk about."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.service import RPCError

from tests.cli.program import Program
from tests.support import command
from tests.support.backend import SIDE_BY_SIDE, Launch
from tests.support.fixtures import backends

Holdfast = command.Holdfast
Start = Callable[..., Program]


@pytest.fixture(autouse=True)
def environment(holdfast: Holdfast, ledger: Path, quick_starts: None) -> None:
    """Set the server's address and the ledger for every test."""


@pytest.fixture
async def launch(client: Client, tmp_path: Path) -> AsyncIterator[Launch]:
    """Start a worker with these answers of the model, and end the runs that the test leaves."""
    async with backends(client, tmp_path, **SIDE_BY_SIDE) as open_:
        yield open_
        await _end_what_is_open(client)


async def _end_what_is_open(client: Client) -> None:
    """End the runs that a test has left: later ones would be asked about them in vain."""
    async for run in client.list_workflows('ExecutionStatus = "Running"'):
        with suppress(RPCError):
            await client.get_workflow_handle(run.id).terminate()


@pytest.fixture
def start() -> Iterator[Start]:
    """Start the command as a program of its own: `terminal` puts it on one of 80 columns."""
    programs: list[Program] = []

    def start_(*words: str, **options: Any) -> Program:
        programs.append(Program(words, **options))
        return programs[-1]

    yield start_
    for program in programs:
        program.close()
