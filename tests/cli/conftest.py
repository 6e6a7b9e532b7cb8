"""The command, and a worker for it to talk about."""

import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.service import RPCError

from tests.cli.program import Program
from tests.support import command, tools
from tests.support.house import Answers, House, OpenHouse, house

Holdfast = command.Holdfast
Start = Callable[..., Program]


@pytest.fixture(autouse=True)
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which the test's tools write down what they did."""
    path = tmp_path / "ledger"
    monkeypatch.setenv(tools.LEDGER, str(path))
    return path


@pytest.fixture(autouse=True)
def reached_by_the_environment(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command finds the server as every Temporal program does."""
    monkeypatch.setenv("TEMPORAL_ADDRESS", client.service_client.config.target_host)
    monkeypatch.setenv("TEMPORAL_NAMESPACE", client.namespace)
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", os.devnull)


@pytest.fixture
async def open_house(client: Client, tmp_path: Path) -> AsyncIterator[OpenHouse]:
    """Open a house with these answers of the model."""
    async with AsyncExitStack() as stack:

        async def open_(answers: Answers, **settings: Any) -> House:
            made = {"max_cached_workflows": 100, **settings}
            return await stack.enter_async_context(house(client, tmp_path, answers, **made))

        yield open_
        await _end_what_is_open(client)


async def _end_what_is_open(client: Client) -> None:
    """End the runs that a test has left: later ones would be asked about them in vain."""
    async for run in client.list_workflows('ExecutionStatus = "Running"'):
        with suppress(RPCError):
            await client.get_workflow_handle(run.id).terminate()


@pytest.fixture
def holdfast() -> Holdfast:
    """Give the command some words, one command at a time, and have what it says."""
    return command.holdfast


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
