"""A run is started and followed from the command line; its exit code is the run's."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.converter import DataConverter

from holdfast.schemas.internal.tracing import HEADER
from tests.cli.conftest import Holdfast
from tests.support.backend import Backend, Launch
from tests.support.model_server import Answer, call

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
LOOKS = [Answer("I look.", [call("look_up", id=7)]), Answer("It is item 7.")]
PAYS = [Answer("I pay.", [call("pay", amount=5)]), Answer("Paid.")]


@pytest.fixture
def clerk(tmp_path: Path) -> str:
    """An inline agent in a file, as `holdfast run` takes it."""
    path = tmp_path / "clerk.json"
    model = {"endpoint": "fake", "name": "fake"}
    path.write_text(json.dumps({"name": "clerk", "model": model, "tools": ["look_up", "pay"]}))
    return f"@{path}"


def on(backend: Backend, *more: str) -> list[str]:
    """Options that start a run there, with an id of its own."""
    run_id = f"run-of-{backend.task_queue}"
    return ["--task-queue", backend.task_queue, "--id", run_id, "--input", "go", *more]


async def test_a_run_is_found_by_its_agent_and_the_first_line_of_its_input(
    launch: Launch, holdfast: Holdfast, client: Client, clerk: str
) -> None:
    backend = await launch(LOOKS)

    said = await holdfast(
        "run", clerk, "--task-queue", backend.task_queue, "--detach", "--input", "Which?\nPlease."
    )

    run_id = said.out.strip()
    assert run_id.startswith("clerk-")
    assert len(run_id) == len("clerk-") + 8
    handle = client.get_workflow_handle(run_id)
    description = await handle.describe()
    assert await description.static_summary() == "clerk: Which?"
    assert await description.static_details() == (
        "Started with `holdfast`, on this:\n\n    Which?\n    Please."
    )
    assert (await handle.result())["status"] == "completed"


async def test_everything_that_a_run_is_given_reaches_it(
    launch: Launch, holdfast: Holdfast, client: Client, clerk: str
) -> None:
    backend = await launch(LOOKS)
    said = await holdfast(
        "run", clerk, *on(backend), "--detach", "--input", '{"id": 7}', "--state", '{"seen": 1}',
        "--principal", "anna", "--budget", '{"maxTurns": 3}', "--approvals", "deny",
        "--conversation", "--skill", "orders", "--context", '[{"content": "Hello."}]',
    )  # fmt: skip

    history = await client.get_workflow_handle(said.out.strip()).fetch_history()
    started = history.events[0].workflow_execution_started_event_attributes
    [request] = await client.data_converter.decode(started.input.payloads)
    assert isinstance(request.pop("agent"), dict)
    assert request == {
        "input": {"id": 7},
        "state": {"seen": 1},
        "principal": {"id": "anna"},
        "budget": {"maxTurns": 3},
        "approvals": "deny",
        "conversation": True,
        "skill": "orders",
        "context": [{"content": "Hello."}],
    }


async def test_a_run_is_given_its_timeout(
    launch: Launch, holdfast: Holdfast, client: Client, clerk: str
) -> None:
    backend = await launch(PAYS)

    started = await holdfast("run", clerk, *on(backend), "--timeout", "2s", "--detach")

    run = client.get_workflow_handle(started.out.strip())
    description = await run.describe()
    timeout = description.raw_description.execution_config.workflow_execution_timeout
    assert timeout.ToTimedelta() == timedelta(seconds=2)


async def test_a_failed_run_continues_from_its_log(
    launch: Launch, holdfast: Holdfast, clerk: str
) -> None:
    down = Answer(status=400, body={"error": {"message": "no such model"}})
    answers = [Answer("I look.", [call("look_up", id=7)]), down]
    backend = await launch(lambda turn, _: answers[turn - 1])
    failed = await holdfast("run", clerk, *on(backend, "--input", "Which item?"))
    assert (failed.code, "no such model" in failed.out) == (1, True)
    answers[1] = Answer("It is item 7.")

    again = ("--task-queue", backend.task_queue, "--continue", f"run-of-{backend.task_queue}")
    said = await holdfast("run", clerk, *again)

    assert (said.code, said.err) == (0, "")
    told = [" ".join(line.split()[1:]) for line in said.out.splitlines()]
    forked = f"forked from run-of-{backend.task_queue} after turn 1"
    assert f"{forked}; the entries above are of that run" in told
    assert "completed: 1 turn, 0 calls" in said.out
    first, second = backend.model.requests[1], backend.model.requests[-1]
    assert second["messages"] == first["messages"], "the model reads what it read before"


async def test_a_run_of_a_command_is_in_the_trace_of_its_environment(
    launch: Launch, holdfast: Holdfast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = await launch([Answer("done")])
    agent = tmp_path / "clerk.json"
    agent.write_text(json.dumps({"name": "clerk", "model": {"endpoint": "fake", "name": "fake"}}))
    queue = ("--task-queue", backend.task_queue)
    run = ("run", f"@{agent}", *queue, "--input", "go", "--detach")
    monkeypatch.delenv("TRACEPARENT", raising=False)
    alone = await holdfast(*run)
    monkeypatch.setenv("TRACEPARENT", PARENT)
    inside = await holdfast(*run)
    single = await holdfast("call", "look_up", *queue, "--arguments", '{"id": 7}', "--detach")

    assert await sent(backend, alone.out.strip()) is None
    for one in (inside, single):
        assert await sent(backend, one.out.strip()) == {"traceparent": PARENT}


async def sent(backend: Backend, run_id: str) -> Any:
    """What a run received about its starter's place in a trace."""
    history = await backend.client.get_workflow_handle(run_id).fetch_history()
    fields = history.events[0].workflow_execution_started_event_attributes.header.fields
    if HEADER not in fields:
        return None
    return DataConverter.default.payload_converter.from_payload(fields[HEADER])
