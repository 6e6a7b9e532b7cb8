"""A run that may be ahead of its history is put out of the cache, and told from those that are
not."""

import asyncio
from typing import Any

import pytest
from temporalio.bridge.proto.workflow_activation import WorkflowActivation, WorkflowActivationJob
from temporalio.client import Client
from temporalio.worker import WorkflowInstance, WorkflowRunner

from holdfast.hosting.sdk_workarounds.cache_eviction import CacheEvictingRunner
from holdfast.hosting.worker import WorkerSettings, build_worker
from tests.support.eventually import eventually

RESOLVED, UPDATED, READ = "resolve_activity", "do_update", "initialize_workflow"
ALONE, WITH_A_TASK = "legacy_query", "c0ffee"


class Recorded(WorkflowRunner, WorkflowInstance):
    """A runner of one run, which writes down what the run is given."""

    def __init__(self) -> None:
        self.given: list[Any] = []

    def prepare_workflow(self, defn: Any) -> None:
        raise AssertionError("nobody prepares it")

    def create_instance(self, det: Any) -> WorkflowInstance:
        return self

    def activate(self, act: Any) -> Any:
        self.given.append(act)
        return f"done {len(self.given)}"

    def get_serialization_context(self, command_info: Any) -> Any:
        return command_info

    def get_external_store_context(self, command_info: Any) -> Any:
        return command_info

    def get_info(self) -> Any:
        return "info"

    def get_thread_id(self) -> int:
        return 7


def activation(job: str, *, again: bool = False) -> WorkflowActivation:
    """One job; a query by its id. `again`: it is replayed."""
    made = WorkflowActivationJob()
    if job in (ALONE, WITH_A_TASK):
        made.query_workflow.query_id = job
    else:
        getattr(made, job).SetInParent()
    return WorkflowActivation(run_id="run-1", is_replaying=again, jobs=[made])


def put_out(*activations: WorkflowActivation) -> list[str]:
    """The runs that are put out after these."""
    recorded, out, details = Recorded(), list[str](), Any
    runner = CacheEvictingRunner(recorded)
    runner._put_out = out.append
    run = runner.create_instance(details)  # type: ignore[arg-type]  # nobody looks at them
    for n, each in enumerate(activations, start=1):
        assert run.activate(each) == f"done {n}"
    assert recorded.given == list(activations)
    return out


READ_ANEW = activation(READ, again=True)


@pytest.mark.parametrize(
    ("activations", "out"),
    [
        ([READ_ANEW, activation(RESOLVED), activation(ALONE)], ["run-1"]),
        ([READ_ANEW, activation(RESOLVED), activation(ALONE), activation(ALONE)], ["run-1"]),
        # It only read, or never had to.
        ([READ_ANEW, activation(ALONE)], []),
        ([activation(READ), activation(RESOLVED), activation(ALONE)], []),
        # A task came, with which all is sent.
        ([READ_ANEW, activation(RESOLVED), activation(WITH_A_TASK)], []),
        ([READ_ANEW, activation(RESOLVED), activation(UPDATED), activation(ALONE)], []),
    ],
)
def test_which_are_put_out(activations: list[WorkflowActivation], out: list[str]) -> None:
    assert put_out(*activations) == out


async def test_a_worker_puts_them_out_in_its_own_loop(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = (await build_worker(client, WorkerSettings(task_queue="steady"))).main
    runner, asked = made.config()["workflow_runner"], list[str]()
    assert isinstance(runner, CacheEvictingRunner)
    monkeypatch.setattr(made._bridge_worker, "request_workflow_eviction", asked.append)
    runner.serve(made)
    await asyncio.to_thread(runner._put_out, "run-1")

    async def has_asked() -> bool:
        return asked == ["run-1"]

    await eventually(has_asked)
