"""Runs share one sandbox: it refuses what Temporal's own refuses, and keeps nothing of any run."""

import asyncio
import sys
import uuid
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from enum import Enum
from functools import _lru_cache_wrapper
from types import FunctionType, ModuleType
from typing import Any

import pytest
from temporalio.client import Client, WorkflowFailureError
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker
from temporalio.worker.workflow_sandbox import (
    RestrictedWorkflowAccessError,
    SandboxRestrictions,
)

from holdfast.hosting.sdk_workarounds.shared_sandbox import Sandbox, SharedSandboxRunner
from holdfast.hosting.sdk_workarounds.workflow_runner import workflow_runner
from tests.replay.replay import replay
from tests.replay.shelf import stored
from tests.support.backend import SIDE_BY_SIDE, Launch
from tests.support.model_server import Answer, call
from tests.support.sandbox import meeting, probes
from tests.support.sandbox.impure_module import ImpureModule
from tests.support.sandbox.slow_module import SlowModule

PROBES = [probes.Impure, probes.Late, probes.RunCounter]


def runner() -> SharedSandboxRunner:
    """A sandbox of its own."""
    return SharedSandboxRunner(SandboxRestrictions.default)


@pytest.fixture
async def queue(client: Client) -> AsyncIterator[str]:
    """The task queue of a worker that runs the probes."""
    queue = f"probes-{uuid.uuid4().hex[:8]}"
    async with Worker(client, task_queue=queue, workflows=PROBES, workflow_runner=runner()):
        yield queue


async def refusal(run: Any) -> str:
    """What a run failed with that was refused something."""
    with pytest.raises(WorkflowFailureError) as failed:
        await run
    assert isinstance(failed.value.cause, ApplicationError)
    assert failed.value.cause.type == "RestrictedWorkflowAccessError"
    return failed.value.cause.message


async def test_impure_lines_are_refused_at_work(client: Client, queue: str) -> None:
    runs = {
        line: refusal(
            client.execute_workflow("Impure", line, id=f"{queue}-{line}", task_queue=queue)
        )
        for line in probes.IMPURE
    }
    refused = dict(zip(runs, await asyncio.gather(*runs.values()), strict=True))
    assert {line: said.split()[2] for line, said in refused.items()} == {
        "clock": "time.time.__call__",
        "date": "datetime.datetime.now.__call__",
        "chance": "random.random.__call__",
        "id": "uuid.uuid4.__call__",
        "file": "__builtins__.open",
        "path": "pathlib.Path.read_text.__call__",
    }


async def test_an_impure_line_is_refused_while_modules_are_read(client: Client) -> None:
    with pytest.raises(RuntimeError, match="ImpureModule") as refused:
        Worker(client, task_queue="none", workflows=[ImpureModule], workflow_runner=runner())
    assert "Cannot access random.random" in str(refused.value.__cause__)


async def test_a_run_stays_restricted_when_another_ends_beside_it(
    client: Client, queue: str
) -> None:
    meeting.here.clear()
    meeting.go_on.clear()
    late = asyncio.create_task(
        refusal(client.execute_workflow("Late", id=f"{queue}-late", task_queue=queue))
    )
    assert await asyncio.to_thread(meeting.here.wait, 60)
    await client.execute_workflow("RunCounter", id=f"{queue}-other", task_queue=queue)
    meeting.go_on.set()
    assert "time.time" in await late


async def test_modules_are_read_once_and_not_those_outside(client: Client, queue: str) -> None:
    counted = [
        await client.execute_workflow("RunCounter", id=f"{queue}-{n}", task_queue=queue)
        for n in range(3)
    ]
    assert counted == [1, 2, 3]
    assert probes.runs_here == []


def test_a_workflow_that_is_passed_through_is_no_workflow_in_a_sandbox(client: Client) -> None:
    restrictions = SandboxRestrictions.default.with_passthrough_modules(probes.__name__)
    with pytest.raises(RuntimeError) as refused:
        Worker(
            client,
            task_queue="none",
            workflows=[probes.Impure],
            workflow_runner=SharedSandboxRunner(restrictions),
        )
    assert "would not be restricted" in str(refused.value.__cause__)


def test_only_the_thread_that_reads_a_module_may_do_what_modules_may() -> None:
    inside = Sandbox(SandboxRestrictions.default)

    def is_refused() -> bool:
        with inside.entered, suppress(RestrictedWorkflowAccessError):
            return not __import__("time").time()
        return True

    meeting.here.clear()
    meeting.go_on.clear()
    with ThreadPoolExecutor(1) as reader:
        reading = reader.submit(inside.sandboxed_class, SlowModule)
        assert meeting.here.wait(60)
        assert is_refused()
        meeting.go_on.set()
        assert reading.result() is not SlowModule
        assert reader.submit(is_refused).result()


async def test_no_run_leaves_anything_in_a_module() -> None:
    await replay("approved")
    before = _kept(_shared())
    assert len(before) > 50
    assert "QUESTIONS" in before["holdfast.workflows.ui_details.questions"]
    await replay(*stored())
    assert _kept(_shared()) == before


async def test_what_modules_remember_is_bounded() -> None:
    await replay("approved")
    caches = [
        value
        for module in _modules(_shared()).values()
        for value in vars(module).values()
        if isinstance(value, _lru_cache_wrapper)
    ]
    assert all(cache.cache_info().maxsize is not None for cache in caches)


async def test_runs_at_once_do_not_see_each_other(launch: Launch) -> None:
    backend = await launch(_pays_what_it_is_asked, **SIDE_BY_SIDE)
    before = _kept(_shared())
    amounts = range(1, 6)
    runs = [await backend.start(["pay"], input=str(n), state={"order": n}) for n in amounts]
    waiting = [await run.waiting() for run in runs]
    assert [[call["arguments"]["amount"] for call in calls] for calls in waiting] == [
        [n] for n in amounts
    ]
    await runs[0].decide("t1c1", "deny", reason="not this one")
    for run in runs[1:]:
        await run.decide("t1c1", "approve")
    ends = [await run.result() for run in runs]
    assert [end["state"] for end in ends] == [{"order": n} for n in amounts]
    results = [(await run.results())["t1c1"] for run in runs]
    assert _kept(_shared()) == before
    assert "not this one" in results[0]
    assert results[1:] == [f'{{"paid": {n:.1f}}}' for n in amounts[1:]]


def _pays_what_it_is_asked(turn: int, body: dict[str, Any]) -> Answer:
    if turn > 1:
        return Answer("done")
    told, *_ = [each["content"] for each in body["messages"] if each["role"] == "user"]
    return Answer(calls=[call("pay", amount=int(told))])


def _shared() -> Sandbox:
    """The sandbox of this process."""
    runner = workflow_runner()
    assert isinstance(runner, SharedSandboxRunner)
    return runner.sandbox


def _modules(inside: Sandbox) -> dict[str, ModuleType]:
    """The modules that are imported inside, by name."""
    found = inside._importer.new_modules
    return {name: one for name, one in found.items() if sys.modules.get(name) is not one}


def _kept(inside: Sandbox) -> dict[str, dict[str, str]]:
    """What the modules of workflows hold, in words: by module, and by name in it."""
    return {
        name: {
            key: _words(_own(value) if isinstance(value, type) else value)
            for key, value in _own(module).items()
        }
        for name, module in _modules(inside).items()
    }


def _own(holder: ModuleType | type) -> dict[str, Any]:
    return {key: value for key, value in vars(holder).items() if key[:2] != "__"}


def _words(value: Any) -> str:
    """A value in words that are others when anything in it is."""
    match value:
        case dict():
            return str({_words(key): _words(held) for key, held in value.items()})
        case list() | tuple():
            return str([_words(held) for held in value])
        case set() | frozenset():
            return str(sorted(map(_words, value)))
        case FunctionType():
            return f"{value.__qualname__} {_words([value.__defaults__, value.__kwdefaults__])}"
        case _ if type(value).__module__.startswith("holdfast.workflows") and not isinstance(
            value, Enum
        ):
            return f"{type(value).__qualname__} {_words(getattr(value, '__dict__', {}))}"
    return repr(value)


def test_a_thread_that_has_left_the_sandbox_is_not_restricted() -> None:
    entered = Sandbox(SandboxRestrictions.default).entered
    outside = sys.modules
    with entered, entered:
        assert __import__("time") is not outside["time"]
    assert __import__("time") is outside["time"]
    assert all(override.maybe_current is None for _, _, override, _ in entered._overrides)
