"""Whatever a person gets wrong around a run: one line states it, and how to fix it.

One server, one worker and one run of each kind serve every row, since what is refused changes
nothing; and no row may take long.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from operator import attrgetter
from pathlib import Path

import pytest
from temporalio.client import Client, WorkflowQueryFailedError, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError

from tests.contract.wrong_inputs.running import CommandRow, Query, Request, Signal, Update, filled
from tests.contract.wrong_inputs.running_commands import COMMANDS, SETTINGS
from tests.contract.wrong_inputs.running_decisions import DECISIONS, ON_OTHERS
from tests.contract.wrong_inputs.running_requests import AGENTS, REQUESTS
from tests.contract.wrong_inputs.running_signals import KEPT, QUERIES, SAID, SENT, SIGNALS
from tests.contract.wrong_inputs.running_worker import PreparedRuns, stage
from tests.support import tools
from tests.support.backend import Run
from tests.support.command import holdfast

MAX_ROW_SECONDS = 120
STARTED = [*REQUESTS, *AGENTS]
COMMANDED = [*COMMANDS, *SETTINGS]
NAMES = attrgetter("name")
UPDATES = [*DECISIONS, *ON_OTHERS, *SENT, *SAID]


def check_line(text: str) -> None:
    """Check that a message is one line, and nothing of Python's own."""
    assert text
    assert "\n" not in text
    assert "Traceback" not in text
    assert "pydantic" not in text


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The file in which the tools write down what they did."""
    path = tmp_path_factory.mktemp("ledger") / "ledger"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(tools.LEDGER, str(path))
        yield path


@pytest.fixture(scope="module")
async def staged(
    client: Client, ledger: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[PreparedRuns]:
    """The worker and its runs."""
    async with stage(client, tmp_path_factory.mktemp("stage")) as made:
        yield made


@pytest.fixture(scope="module")
async def plain(client: Client) -> Client:
    """A client of any program, which knows nothing of us."""
    return await Client.connect(client.service_client.config.target_host)


@pytest.fixture
def environment(client: Client, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Nothing but the server's address is set for the command."""
    for name in [name for name in os.environ if name.startswith("TEMPORAL_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TEMPORAL_ADDRESS", client.service_client.config.target_host)
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", os.devnull)
    return monkeypatch


async def history_length(run: Run) -> int:
    """How many events the run's history has."""
    return (await run.handle.describe()).history_length


@pytest.mark.parametrize("rows", [STARTED, UPDATES, [*SIGNALS, KEPT], QUERIES, COMMANDED])
def test_no_row_is_there_twice(
    rows: Sequence[Request | Update | Signal | Query | CommandRow],
) -> None:
    keys = [
        (type(row), getattr(row, "update", getattr(row, "signal", "")), row.name) for row in rows
    ]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("row", STARTED, ids=NAMES)
async def test_an_impossible_run_is_refused_with_a_reason(
    staged: PreparedRuns, plain: Client, row: Request
) -> None:
    async with asyncio.timeout(MAX_ROW_SECONDS):
        handle = await plain.start_workflow(
            "AgentWorkflow",
            args=row.given,
            id=f"wrong-{os.urandom(6).hex()}",
            task_queue=staged.backend.task_queue,
        )
        failure = await Run(handle).failure()
    check_line(failure.message)
    assert (failure.type, failure.message) == ("invalid_request", row.says)
    assert failure.failure is not None
    assert failure.failure.stack_trace == ""
    assert not failure.failure.HasField("cause")


@pytest.mark.parametrize("row", UPDATES, ids=NAMES)
async def test_what_a_run_refuses_leaves_no_trace(
    staged: PreparedRuns, plain: Client, row: Update
) -> None:
    run: Run = getattr(staged, row.to)
    before = await history_length(run)
    handle = plain.get_workflow_handle(run.id)
    async with asyncio.timeout(MAX_ROW_SECONDS):
        with pytest.raises(WorkflowUpdateFailedError) as refused:
            await handle.execute_update(row.update, args=row.given)
    cause = refused.value.cause
    assert isinstance(cause, ApplicationError)
    check_line(cause.message)
    assert (cause.type, cause.message) == (row.type, row.says)
    assert await history_length(run) == before


@pytest.mark.parametrize("row", SIGNALS, ids=NAMES)
async def test_what_a_signal_has_wrong_is_in_the_log(
    staged: PreparedRuns, plain: Client, row: Signal
) -> None:
    before = len(await staged.waiting.context())
    async with asyncio.timeout(MAX_ROW_SECONDS):
        handle = plain.get_workflow_handle(staged.waiting.id)
        await handle.signal(row.signal, args=row.given)
        [entry] = (await staged.waiting.context())[before:]
    said = entry["text"] if entry["type"] == "notice" else entry["ignored"]
    check_line(said)
    assert said == row.says


@pytest.mark.parametrize("row", QUERIES, ids=NAMES)
async def test_an_invalid_query_is_refused_with_a_reason(
    staged: PreparedRuns, plain: Client, row: Query
) -> None:
    async with asyncio.timeout(MAX_ROW_SECONDS):
        with pytest.raises(WorkflowQueryFailedError) as refused:
            await plain.get_workflow_handle(staged.waiting.id).query(row.query, args=row.given)
    check_line(str(refused.value))
    assert str(refused.value) == row.says


@pytest.mark.parametrize("row", COMMANDED, ids=NAMES)
async def test_a_command_reports_what_is_wrong_and_what_to_do(
    staged: PreparedRuns, environment: pytest.MonkeyPatch, tmp_path: Path, row: CommandRow
) -> None:
    marks = {**staged.marks, "folder": str(tmp_path)}
    for name, text in row.files.items():
        (tmp_path / name).write_text(text)
    for name, value in row.environment.items():
        environment.setenv(name, filled(value, marks))
    async with asyncio.timeout(MAX_ROW_SECONDS):
        said = await holdfast(*filled(row.words, marks))
    message = said.out.splitlines()[-1] if row.on_screen else said.err.removesuffix("\n")
    check_line(message)
    assert (said.code, message) == (row.code, filled(row.says, marks))
    assert "Traceback" not in said.out + said.err


async def test_a_signal_before_a_run_has_started_is_logged_too(
    staged: PreparedRuns, plain: Client
) -> None:
    handle = await plain.start_workflow(
        "AgentWorkflow",
        {"agent": "helper", "input": "go"},
        id=f"early-{os.urandom(6).hex()}",
        task_queue=staged.backend.task_queue,
        start_signal="message",
        start_signal_args=[7],
    )
    assert (await handle.result())["status"] == "completed"
    noted = [entry.get("text") for entry in await Run(handle).context()]
    assert 'a message was ignored: `7` does not fit; write one JSON object: {"content": …}' in noted


async def test_after_all_of_it_the_run_continues_and_logs_what_it_ignored(
    staged: PreparedRuns, plain: Client
) -> None:
    run = staged.waiting
    await plain.get_workflow_handle(run.id).signal(KEPT.signal, args=KEPT.given)
    await run.decide("t1c1", "approve")
    await run.decide("t1c2", "approve", by="carl", groups=["finance"])
    assert (await run.result())["status"] == "completed"
    assert KEPT.says in [entry.get("text") for entry in await run.context()]
    assert sorted(tools.read()) == [f"pay 5 {run.id}/t1c1", f"pay 7 {run.id}/t1c2"]
