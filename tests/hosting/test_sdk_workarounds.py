"""Workarounds for temporalio: a run ahead of its history, and versions that are not known."""

import ast
import asyncio
import logging
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel
from temporalio import activity
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.bridge.proto.workflow_activation import WorkflowActivation, WorkflowActivationJob
from temporalio.bridge.proto.workflow_commands import WorkflowCommand
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.client import Client
from temporalio.common import RawValue
from temporalio.contrib.pydantic import PydanticPayloadConverter
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment
from temporalio.worker import WorkflowInstance, WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, _importer

from holdfast.hosting.plugin import HoldfastRunner
from holdfast.hosting.sdk_workarounds import shared_sandbox
from holdfast.hosting.sdk_workarounds import workflow_runner as selection
from holdfast.hosting.sdk_workarounds.activity_definitions import with_raw_arguments
from holdfast.hosting.sdk_workarounds.cached_runs import TrackingRunner
from holdfast.hosting.sdk_workarounds.query_divergence import DivergenceDetector
from holdfast.hosting.worker import WorkerSettings, build_worker
from holdfast.schemas.names import AHEAD_OF_HISTORY
from holdfast.schemas.run import CallContext, CallPrincipal
from tests.replay import replay as replaying
from tests.support.backend import Launch
from tests.support.eventually import eventually

ROOT = Path(__file__).parents[2]


def private_names(path: Path) -> set[str]:
    """Return the private names of temporalio that a module uses."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    imported = {
        each.asname or each.name.partition(".")[0]: f"{module}.{each.name}".strip(".")
        for node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        for module in [getattr(node, "module", "") or ""]
        for each in node.names
        if f"{module}.{each.name}".strip(".").startswith("temporalio")
    }
    attributes = {ast.unparse(node) for node in nodes if isinstance(node, ast.Attribute)}
    used = {each for each in attributes if re.split(r"\W", each)[0] in imported}
    return {
        each
        for each in {*imported.values(), *used}
        if re.search(r"\._[^_]|^temporalio\.bridge\b", each)
    }


def test_private_names_of_temporalio_are_used_in_one_place() -> None:
    files = (ROOT / "holdfast").rglob("*.py")
    using = {
        file.relative_to(ROOT).parent.as_posix(): private_names(file)
        for file in files
        if private_names(file)
    }
    assert list(using) == ["holdfast/hosting/sdk_workarounds"], using


class Transfer(BaseModel):
    amount: int


@activity.defn
def move(transfer: Transfer, principal: str) -> int:
    return transfer.amount


@activity.defn
def move_own(transfer: Transfer, tool: dict[str, Any], context: CallContext) -> str:
    whose = context.principal
    return f"{transfer.amount} of {whose and whose.id} for {context.run_id}"


def run_as_activity(run: Any, *values: Any) -> Any:
    """What an activity returns that decodes these values itself."""
    environment, converter = ActivityEnvironment(), PydanticPayloadConverter()
    environment.payload_converter = converter
    raw = [RawValue(each) for each in converter.to_payloads(values)]
    return environment.run(with_raw_arguments(run), *raw)


def test_arguments_that_a_model_rejects_are_an_error_with_the_field_and_no_retry() -> None:
    assert run_as_activity(move, {"amount": 5}, "ada") == 5
    with pytest.raises(ApplicationError, match="`amount`: Input should be") as refused:
        run_as_activity(move, {"amount": "much"}, "ada")
    assert (refused.value.type, refused.value.non_retryable) == ("invalid_arguments", True)


def test_the_arguments_of_a_call_precede_its_context() -> None:
    context = CallContext(
        run_id="r", call_id="t1c1", idempotency_key="r/t1c1", principal=CallPrincipal(id="ann")
    )
    call = {"id": "t1c1", "tool": "move_own", "arguments": {"amount": 5}, "reasoning": None}

    assert run_as_activity(move_own, call, {}, {"_call": context.to_json()}) == "5 of ann for r"
    with pytest.raises(ApplicationError, match="`amount`: Field required"):
        run_as_activity(move_own, {**call, "arguments": {}}, {}, {"_call": context.to_json()})


def test_an_activity_without_the_context_may_be_left_alone() -> None:
    assert with_raw_arguments(move, only_with_context=True) is move
    assert with_raw_arguments(move_own, only_with_context=True) is not move_own


def test_a_workflow_of_theirs_passes_the_arguments_themselves() -> None:
    context = CallContext(run_id="r", call_id="a1", idempotency_key="r/a1")

    assert run_as_activity(move_own, Transfer(amount=5), {}, context) == "5 of None for r"


def _is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "KNOWN_VERSIONS", ("0.1",))


def _lacks_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "holdfast.hosting.sdk_workarounds.shared_sandbox", False)
    monkeypatch.delattr(_importer, "Importer")


def _lets_builtins_through(monkeypatch: pytest.MonkeyPatch) -> None:
    make = _importer.Importer.__init__

    def without_builtins(importer: Any, *settings: Any) -> None:
        make(importer, *settings)
        importer.restricted_builtins = []

    monkeypatch.setattr(_importer.Importer, "__init__", without_builtins)


def _lets_modules_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_importer.Importer, "_maybe_restrict_module", lambda *_: None)


@pytest.mark.parametrize(
    "change", [_is_not_known, _lacks_a_name, _lets_builtins_through, _lets_modules_through]
)
async def test_a_version_that_is_not_known_falls_back_to_the_sdks_own_runner(
    change: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    change(monkeypatch)
    monkeypatch.setattr(selection, "workflow_runner", selection.workflow_runner.__wrapped__)
    with caplog.at_level(logging.WARNING):
        runner = HoldfastRunner.beside(SandboxedWorkflowRunner()).ours
    monkeypatch.undo()
    assert type(runner) is SandboxedWorkflowRunner
    warnings = [each.getMessage() for each in caplog.records]
    assert len(warnings) == 6
    assert all("off with temporalio 1." in warning for warning in warnings)
    monkeypatch.setattr(replaying, "workflow_runner", lambda: runner)
    await replaying.replay("approved")


def activation(
    length: int, *jobs: WorkflowActivationJob, replaying: bool = False, task: int = 0
) -> Any:
    """What the SDK hands over, with a history of this length; its task started at second `task`."""
    made = WorkflowActivation(history_length=length, jobs=jobs, is_replaying=replaying)
    made.timestamp.FromSeconds(task)
    return made


def decided(*commands: WorkflowCommand) -> WorkflowActivationCompletion:
    """What the workflow answers."""
    completion = WorkflowActivationCompletion()
    completion.successful.commands.extend(commands)
    return completion


def job(kind: str) -> WorkflowActivationJob:
    """A job of a kind, with nothing in it."""
    made = WorkflowActivationJob()
    getattr(made, kind).SetInParent()
    return made


def ended(*, local: bool = False, how: str = "completed") -> WorkflowActivationJob:
    """That an activity ended."""
    made = job("resolve_activity")
    made.resolve_activity.is_local = local
    getattr(made.resolve_activity.result, how).SetInParent()
    return made


def command(kind: str, seq: int = 1) -> WorkflowCommand:
    """A command of a kind."""
    made = WorkflowCommand()
    getattr(made, kind).seq = seq
    return made


def answered(how: str) -> WorkflowCommand:
    """The answer to an update."""
    made = WorkflowCommand()
    getattr(made.update_response, how).SetInParent()
    return made


UPSERT = WorkflowCommand()
UPSERT.upsert_workflow_search_attributes.SetInParent()
ANSWER = WorkflowCommand()
ANSWER.respond_to_query.succeeded.response.data = b"1"
COMPLETE = WorkflowCommand()
COMPLETE.complete_workflow_execution.SetInParent()
UPDATE, SIGNAL, TIMER = job("do_update"), job("signal_workflow"), job("fire_timer")
SCHEDULE, START = command("schedule_activity"), command("start_timer")


def comes(at: int, made: list[WorkflowCommand], then: int, *jobs: WorkflowActivationJob) -> None:
    """A run decides something with `at` events of history; then this comes, with `then` of them."""
    detector = DivergenceDetector()
    first = activation(at, ended())
    detector.check(first)
    detector.record(first, decided(*made))
    detector.check(activation(then, *jobs))


# With 25 events, a worker died with the task. It timed out (26), is scheduled, and started again.
@pytest.mark.parametrize(
    ("made", "then", "jobs"),
    [
        ([SCHEDULE], 28, [UPDATE]),
        ([START, UPSERT], 29, [SIGNAL]),
        ([SCHEDULE], 30, [ended(), UPDATE]),
        ([SCHEDULE], 28, [ended(local=True)]),
        ([SCHEDULE, START, command("cancel_timer", 7)], 29, [TIMER]),
    ],
)
def test_what_does_not_follow_on_what_is_written_is_not_decided(
    made: list[WorkflowCommand], then: int, jobs: list[WorkflowActivationJob]
) -> None:
    with pytest.raises(ApplicationError, match="is replayed") as failed:
        comes(25, made, then, *jobs)
    assert (failed.value.type, failed.value.non_retryable) == (AHEAD_OF_HISTORY, False)


# The task was completed (26), what it made is written, and another is scheduled and started.
@pytest.mark.parametrize(
    ("made", "then", "jobs"),
    [
        ([SCHEDULE], 29, [UPDATE]),
        ([START, UPSERT], 31, [SIGNAL]),
        ([SCHEDULE], 31, [ended(), UPDATE]),
        ([SCHEDULE], 30, [ended(how="failed")]),
        ([START, command("cancel_timer")], 28, [UPDATE]),
        ([answered("accepted"), answered("completed")], 30, [UPDATE]),
        ([answered("rejected")], 28, [UPDATE]),
        ([command("schedule_local_activity")], 28, [ended(local=True)]),
        ([], 28, [UPDATE]),
        ([SCHEDULE], 25, [ended(local=True)]),
    ],
)
def test_what_follows_is_decided(
    made: list[WorkflowCommand], then: int, jobs: list[WorkflowActivationJob]
) -> None:
    comes(25, made, then, *jobs)


@pytest.mark.parametrize("look", [job("query_workflow"), job("remove_from_cache")])
def test_a_query_or_an_eviction_resets_no_divergence(look: WorkflowActivationJob) -> None:
    detector = DivergenceDetector()
    detector.record(activation(25, ended()), decided(SCHEDULE))
    detector.check(activation(26, look))
    detector.record(activation(26, look), decided())
    with pytest.raises(ApplicationError):
        detector.check(activation(28, UPDATE))


def test_events_that_come_with_a_query_and_without_a_task_are_no_divergence() -> None:
    detector = DivergenceDetector()
    detector.record(activation(14, ended(), task=7), decided(SCHEDULE, SCHEDULE))
    detector.check(activation(14, ended(), task=7))
    # Completed, two scheduled, started and completed each, and the next task: not started yet.
    at_query = activation(22, ended(), ended(), task=7)
    assert not detector.check(at_query)
    detector.record(at_query, decided(SCHEDULE))
    # A signal was faster than the task, which a replay would see before what was decided.
    with pytest.raises(ApplicationError):
        detector.check(activation(24, SIGNAL, task=8))


def test_what_is_read_again_is_written_already() -> None:
    detector = DivergenceDetector()
    detector.record(activation(11, ended(), replaying=True), decided(SCHEDULE))
    detector.check(activation(12, UPDATE))


def test_one_task_may_be_decided_on_in_several_parts() -> None:
    detector = DivergenceDetector()
    for made in (UPSERT, SCHEDULE):
        detector.record(activation(25, ended(local=True)), decided(made))
    detector.check(activation(30, UPDATE))
    with pytest.raises(ApplicationError):
        detector.check(activation(29, UPDATE))


RESOLVED, UPDATED, READ = "resolve_activity", "do_update", "initialize_workflow"
ALONE, WITH_A_TASK = "legacy_query", "c0ffee"


class Recorded(WorkflowRunner, WorkflowInstance):
    """A runner of one run, which writes down what the run is given."""

    def __init__(self) -> None:
        self.given: list[Any] = []
        self.decided: list[WorkflowCommand] = []

    def prepare_workflow(self, defn: Any) -> None:
        raise AssertionError("it is not prepared")

    def create_instance(self, det: Any) -> WorkflowInstance:
        return self

    def activate(self, act: Any) -> Any:
        self.given.append(act)
        completion = decided(*self.decided)
        completion.run_id = f"done {len(self.given)}"
        return completion

    def get_serialization_context(self, command_info: Any) -> Any:
        return command_info

    def get_external_store_context(self, command_info: Any) -> Any:
        return command_info

    def get_info(self) -> Any:
        return SimpleNamespace(workflow_id="w", run_id="run-1")

    def get_thread_id(self) -> int:
        return 7


def one_job(job: str, *, again: bool = False, length: int = 0, task: int = 0) -> WorkflowActivation:
    """One job; a query by its id. `again`: it is replayed. `task`: when its task started."""
    made = WorkflowActivationJob()
    if job in (ALONE, WITH_A_TASK):
        made.query_workflow.query_id = job
    else:
        getattr(made, job).SetInParent()
    activation = WorkflowActivation(run_id="run-1", is_replaying=again, jobs=[made])
    activation.history_length = length
    activation.timestamp.FromSeconds(task)
    return activation


def put_out(*activations: WorkflowActivation) -> list[str]:
    """The runs that are put out after these."""
    recorded, out, details = Recorded(), list[str](), Any
    runner = TrackingRunner(recorded)
    runner.evict = out.append
    run = runner.create_instance(details)  # type: ignore[arg-type]  # they are not read
    for n, each in enumerate(activations, start=1):
        assert run.activate(each).run_id == f"done {n}"
    assert recorded.given == list(activations)
    return out


READ_AGAIN = one_job(READ, again=True)
LIVE = one_job(READ, length=3, task=7)


@pytest.mark.parametrize(
    ("activations", "out"),
    [
        ([READ_AGAIN, one_job(RESOLVED), one_job(ALONE)], ["run-1"]),
        ([READ_AGAIN, one_job(RESOLVED), one_job(ALONE), one_job(ALONE)], ["run-1"]),
        # It came with events, whose task was not started; with one that was; and with none.
        ([LIVE, one_job(RESOLVED, length=8, task=7), one_job(ALONE, length=8, task=7)], ["run-1"]),
        ([LIVE, one_job(RESOLVED, length=8, task=8), one_job(ALONE, length=8, task=8)], []),
        ([LIVE, one_job(RESOLVED, length=3, task=7), one_job(ALONE, length=3, task=7)], []),
        # It only read, or never had to.
        ([READ_AGAIN, one_job(ALONE)], []),
        ([one_job(READ), one_job(RESOLVED), one_job(ALONE)], []),
        # A task came, with which all is sent.
        ([READ_AGAIN, one_job(RESOLVED), one_job(WITH_A_TASK)], []),
        ([READ_AGAIN, one_job(RESOLVED), one_job(UPDATED), one_job(ALONE)], []),
    ],
)
def test_which_are_put_out(activations: list[WorkflowActivation], out: list[str]) -> None:
    assert put_out(*activations) == out


def asked(run: Any) -> Any:
    """What a run answers to a query of its process, and where it is."""
    return run.query("status", [])


def test_a_run_in_the_cache_answers_where_its_history_will_be() -> None:
    recorded = Recorded()
    runner = TrackingRunner(recorded)
    run = runner.create_instance(Any)  # type: ignore[arg-type]  # it is not read
    assert asked(run) is None
    recorded.decided = [SCHEDULE, SCHEDULE]
    run.activate(one_job(READ, length=3, task=7))
    recorded.decided = [ANSWER]
    assert runner.runs["w"] is run
    # Completed, and two scheduled.
    assert asked(run) == (("run-1", 6), Payload(data=b"1"))
    query = recorded.given[-1]
    assert (query.history_length, query.timestamp.seconds) == (3, 7)
    recorded.decided = []
    assert asked(run) is None  # it raised an error
    # Others write no events: it is not known what the history has.
    run.activate(one_job(RESOLVED, length=9, task=7))
    recorded.decided = [ANSWER]
    assert asked(run) is None
    run.activate(one_job("remove_from_cache"))
    assert not runner.runs


def test_a_run_that_has_ended_stays_for_those_who_read_it() -> None:
    recorded, later = Recorded(), list[Callable[[], Any]]()
    runner = TrackingRunner(recorded)
    runner.remove = later.append
    run = runner.create_instance(Any)  # type: ignore[arg-type]  # it is not read
    recorded.decided = [ANSWER]
    run.activate(one_job(READ, length=3, task=7))
    assert asked(run)
    recorded.decided = [COMPLETE]
    run.activate(one_job(RESOLVED, length=8, task=8))
    removal = one_job("remove_from_cache")
    assert run.activate(removal).HasField("successful")
    recorded.decided = [ANSWER]
    assert asked(run) == (("run-1", 10), Payload(data=b"1"))
    [remove] = later
    remove()
    assert recorded.given[-1] is removal
    assert asked(run) is None


async def test_a_worker_evicts_in_its_own_event_loop(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = build_worker(client, WorkerSettings(task_queue="evicting"))
    evicted = list[str]()
    monkeypatch.setattr(worker._bridge_worker, "request_workflow_eviction", evicted.append)
    runner = TrackingRunner(Recorded())
    runner.attach(worker)
    run = runner.create_instance(Any)  # type: ignore[arg-type]  # not used
    for each in (READ_AGAIN, one_job(RESOLVED), one_job(ALONE)):
        await asyncio.to_thread(run.activate, each)

    async def is_evicted() -> bool:
        return evicted == ["run-1"]

    await eventually(is_evicted)
    runner_of_worker = worker.config(active_config=True)["workflow_runner"]
    assert isinstance(runner_of_worker, HoldfastRunner)
    assert isinstance(runner_of_worker.ours, TrackingRunner)


async def test_a_worker_that_is_slow_fails_no_workflow_task(
    launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    activate, slow = shared_sandbox._SandboxedRun.activate, iter([2.5])

    def slowly(run: Any, act: Any) -> Any:
        time.sleep(next(slow, 0))  # the SDK's own limit is 2 s
        return activate(run, act)

    monkeypatch.setattr(shared_sandbox._SandboxedRun, "activate", slowly)
    backend = await launch([])
    run = await backend.call("look_up", {"id": 7})
    await run.result()
    history = await run.handle.fetch_history()
    kinds = {EventType.Name(event.event_type) for event in history.events}
    assert "EVENT_TYPE_WORKFLOW_TASK_FAILED" not in kinds
