"""Programs of the same namespace, with task queues of their own, that make a strict worker pay;
on a real server, with real foreign workflows and Temporal's own command line."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from temporalio import workflow
from temporalio.api.command.v1 import Command
from temporalio.api.common.v1 import Payload, WorkflowExecution
from temporalio.api.enums.v1 import CommandType, EventType, TaskQueueKind
from temporalio.api.taskqueue.v1 import StickyExecutionAttributes, TaskQueue
from temporalio.api.workflowservice.v1 import (
    PollWorkflowTaskQueueRequest,
    ResetWorkflowExecutionRequest,
    RespondWorkflowTaskCompletedRequest,
)
from temporalio.client import Client, WorkflowFailureError
from temporalio.exceptions import ApplicationError
from temporalio.worker import (
    Interceptor,
    Replayer,
    StartActivityInput,
    UnsandboxedWorkflowRunner,
    Worker,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
    WorkflowOutboundInterceptor,
)

from holdfast.hosting.dev_server import temporal_binary
from holdfast.hosting.sdk_workarounds.workflow_runner import workflow_runner
from holdfast.runtime.data_converter import data_converter
from holdfast.schemas import names
from holdfast.workflows.agent import AgentWorkflow
from holdfast.workflows.base_workflow import CallWorkflow
from holdfast.workflows.commands.interceptors import CommandInterceptor
from holdfast.workflows.permits import PERMIT_KEYS
from tests.attacks.test_admission import ANN, ASK, ASKS, DESK, INLINE, PAYS, begin, token
from tests.encryption.keys import NEW, OLD, key_file, ring
from tests.support import tools
from tests.support.backend import SIDE_BY_SIDE, Backend, Launch, Run
from tests.support.eventually import eventually
from tests.support.identity.signing import write_keys
from tests.support.model_server import Answer, call
from tests.workflows.commands.test_child_workflows import agents, by_agent, waits
from tests.workflows.test_continue_as_new import MANY

FREE = {"require": "never"}
PAY = {"_tool": "pay", "description": "Pay.", "properties": {"amount": {"type": "number"}}}
EVIL_PAY = {**PAY, "_activity": "pay", "_sideEffects": True, "_approval": FREE}
EVIL_AGENT = {**INLINE, "tools": [EVIL_PAY]}
CEO = {"id": "ceo", "scopes": ["*"]}
REPEATABLE = {
    "_tool": "repeatable",
    "description": "Pay under a key.",
    "properties": {"name": {"type": "string"}},
    "_activity": {"type": "held_payment", "startToCloseTimeout": "2m"},
    "_sideEffects": True,
    "_idempotent": True,
    "_approval": FREE,
}
SOON = timedelta(minutes=2)
# What a foreign activity is sent with, for one test.
STOLEN: dict[str, Payload] = {}


@workflow.defn
class Foreign:
    """Starts on another task queue what it is asked for."""

    @workflow.run
    async def run(self, how: str, queue: str, values: list[Any]) -> Any:
        own = workflow.info().workflow_id
        if how == "activity":
            return await workflow.execute_activity(
                "pay",
                args=values,
                activity_id="t1c1",
                task_queue=queue,
                start_to_close_timeout=SOON,
            )
        if how == "continue":
            workflow.continue_as_new(workflow="AgentWorkflow", args=values, task_queue=queue)
        return await workflow.execute_child_workflow(
            how, args=values, id=f"{own}.t1c1", task_queue=queue
        )


@workflow.defn
class ForeignState:
    """Continues as an agent's run, with a state that it has written."""

    @workflow.run
    async def run(self, queue: str, head: dict[str, Any], parts: list[str]) -> None:
        state = [head, *map(bytes.fromhex, parts)]
        workflow.continue_as_new(workflow="AgentWorkflow", args=state, task_queue=queue)


class _WithHeaders(Interceptor):
    """Sends activities with the stolen headers."""

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor]:
        class Outbound(WorkflowOutboundInterceptor):
            def start_activity(self, input: StartActivityInput) -> workflow.ActivityHandle[Any]:
                input.headers = {**input.headers, **STOLEN}
                return super().start_activity(input)

        class Inbound(WorkflowInboundInterceptor):
            def init(self, outbound: WorkflowOutboundInterceptor) -> None:
                super().init(Outbound(outbound))

        return Inbound


@pytest.fixture
async def foreign(client: Client) -> AsyncIterator[str]:
    """Run a foreign worker in the namespace; yield its task queue."""
    queue = f"foreign-{uuid.uuid4().hex[:8]}"
    async with Worker(
        client,
        task_queue=queue,
        workflows=[Foreign, ForeignState],
        workflow_runner=UnsandboxedWorkflowRunner(),
        interceptors=[_WithHeaders()],
    ):
        yield queue
    STOLEN.clear()


@pytest.fixture
async def strict(launch: Launch, tmp_path: Path) -> Any:
    """Open a backend with permits, that takes runs of its catalog alone, and tokens alone."""
    desk_agent, chief_agent = (
        {"tools": ["pay", "look_up", "held_payment", REPEATABLE], **MANY},
        {"tools": [ASK], **MANY},
    )
    catalog = agents(tmp_path / "catalog", desk=desk_agent, chief=chief_agent)
    settings = {
        "catalog": catalog,
        "keys": str(write_keys(tmp_path / "keys.json", ANN)),
        "permits": key_file(tmp_path, [NEW, OLD]),
        "catalog_only": True,
        "principal_tokens": True,
        **SIDE_BY_SIDE,
    }

    async def open_(desk: list[Answer] = PAYS, **more: Any) -> Backend:
        return await launch(by_agent(desk=desk, chief=ASKS), **{**settings, **more})

    return open_


async def steal(client: Client, queue: str, kind: Any, *values: Any) -> str:
    """Have a foreign workflow start something; return the type of the error that it gets.

    What a run refuses, it refuses in a replay with other keys, too.
    """
    own_id = f"foreign-{uuid.uuid4().hex[:8]}"
    with pytest.raises(WorkflowFailureError) as failed:
        await client.execute_workflow(
            kind, args=values, id=own_id, task_queue=queue, execution_timeout=SOON
        )
    cause: BaseException = failed.value
    while cause.__cause__ is not None:
        cause = cause.__cause__
    assert isinstance(cause, ApplicationError), cause
    if cause.type == names.INVALID_REQUEST:
        child = "" if kind is ForeignState.run or values[0] == "continue" else ".t1c1"
        await replays(Run(client.get_workflow_handle(own_id + child)))
    return cause.type or ""


async def permit_of(run: Run) -> Payload:
    """The first permit of an activity in the history of a run."""
    events = [each.activity_task_scheduled_event_attributes for each in await run.history()]
    headers = [each.header.fields for each in events]
    permit: Payload = next(each[names.PERMIT] for each in headers if names.PERMIT in each)
    return permit


async def paid(home: Backend, **more: Any) -> Run:
    """A run that was admitted, and that a person lets pay."""
    run = await begin(home, "AgentWorkflow", {**DESK, "principal": token(), **more})
    await waits(run)
    await run.decide("t1c1", "approve", by="ann")
    await run.result()
    return run


async def test_no_foreign_workflow_makes_it_pay(strict: Any, foreign: str, client: Client) -> None:
    home = await strict()
    request = {"agent": EVIL_AGENT, "input": "go", "principal": CEO}
    single = {"tool": EVIL_PAY, "arguments": {"amount": 5}, "principal": CEO}
    tried = [
        await steal(client, foreign, Foreign.run, how, home.task_queue, values)
        for how, values in (
            ("activity", [{"amount": 5}]),
            ("AgentWorkflow", [request]),
            ("AgentWorkflow", [{**DESK, "principal": CEO}]),
            ("CallWorkflow", [single]),
            ("CallWorkflow", [{**single, "tool": "pay"}]),
            ("continue", [request]),
        )
    ]

    assert tried == ["no_permit", *["invalid_request"] * 5]
    assert tools.read() == []


async def test_a_permit_that_was_copied_fits_nowhere_else(
    strict: Any, foreign: str, client: Client
) -> None:
    home = await strict()
    run = await paid(home)
    assert len(tools.read()) == 1
    STOLEN[names.PERMIT] = await permit_of(run)
    args = ["activity", home.task_queue, [{"amount": 5}]]

    assert await steal(client, foreign, Foreign.run, *args) == "no_permit"
    # Under the same workflow id, where only the run's id is another.
    with pytest.raises(WorkflowFailureError):
        await client.execute_workflow(Foreign.run, args=args, id=run.id, task_queue=foreign)
    assert len(tools.read()) == 1


async def test_no_state_is_continued_that_a_foreign_workflow_has_left(
    strict: Any, foreign: str, client: Client
) -> None:
    looks = [Answer(calls=[call("look_up", id=n)]) for n in range(1, 5)]
    home = await strict([*looks, *PAYS], continue_after=20)
    run = await begin(home, "AgentWorkflow", {**DESK, "principal": token()})
    await waits(run)
    [first, *_] = await run.history()
    started = first.workflow_execution_started_event_attributes
    head, *parts = [each.data for each in started.input.payloads]
    state = json.loads(head), [part.hex() for part in parts]

    assert started.continued_execution_run_id
    tried = await steal(client, foreign, ForeignState.run, home.task_queue, *state)
    assert tried == "invalid_request"


async def test_no_history_is_continued_that_a_foreign_worker_has_written(
    strict: Any, client: Client
) -> None:
    home = await strict()
    queue = f"foreign-{uuid.uuid4().hex[:8]}"
    request = {"agent": EVIL_AGENT, "input": "go", "principal": CEO}
    run = await client.start_workflow("AgentWorkflow", request, id=queue, task_queue=queue)
    polled = PollWorkflowTaskQueueRequest(
        namespace=client.namespace, task_queue=TaskQueue(name=queue)
    )
    task = await client.workflow_service.poll_workflow_task_queue(polled)
    # Where its next task goes. Anything could be in this one: here it is a timer.
    timer = Command(command_type=CommandType.COMMAND_TYPE_START_TIMER)
    timer.start_timer_command_attributes.timer_id = "1"
    timer.start_timer_command_attributes.start_to_fire_timeout.FromMilliseconds(1)
    sticky = StickyExecutionAttributes(worker_task_queue=TaskQueue(name=home.task_queue))
    sticky.worker_task_queue.kind = TaskQueueKind.TASK_QUEUE_KIND_STICKY
    sticky.schedule_to_start_timeout.FromSeconds(20)
    done = RespondWorkflowTaskCompletedRequest(
        namespace=client.namespace,
        task_token=task.task_token,
        sticky_attributes=sticky,
        commands=[timer],
    )
    await client.workflow_service.respond_workflow_task_completed(done)

    async def failed() -> bool:
        events = await Run(run).history()
        failures = [each.workflow_task_failed_event_attributes.failure.message for each in events]
        return any(f"the run is of the task queue `{queue}`" in each for each in failures)

    await eventually(failed)


async def test_no_agent_of_another_worker_makes_it_pay(strict: Any, launch: Launch) -> None:
    home = await strict()
    other = await launch(PAYS)
    there = {"type": "pay", "taskQueue": home.task_queue}
    run = await other.start([{**EVIL_PAY, "_activity": there}])
    await run.result()

    assert (await run.error())["code"] == "tool_error"
    assert "`pay` was not run" in (await run.error())["message"]
    assert tools.read() == []


@pytest.mark.parametrize("tool", ["pay", "look_up"])  # with side effects, and without
async def test_no_standalone_activity_makes_it_pay(strict: Any, client: Client, tool: str) -> None:
    home = await strict()
    options = {"type": tool, "task-queue": home.task_queue, "start-to-close-timeout": "2m"}
    output = await temporal(client, "execute", **options, input='{"amount": 31337}')

    assert f"`{tool}` was not run" in output
    assert tools.read() == []


async def test_what_a_run_was_admitted_to_do_is_done_also_by_its_delegates_and_next_executions(
    strict: Any,
) -> None:
    looks = [Answer(calls=[call("look_up", id=n)]) for n in range(1, 5)]
    home = await strict([*looks, *PAYS], continue_after=20)
    chief = await begin(home, "AgentWorkflow", {**DESK, "agent": "chief", "principal": token()})
    delegate = chief.delegate("t1c1")
    assert [each["tool"] for each in await waits(delegate)] == ["pay"]
    await delegate.decide("t5c1", "approve", by="ann")
    await chief.result()

    assert tools.read() == [f"pay 5 {delegate.id}/t5c1"]
    await replays(chief)
    await replays(delegate)
    info = (await delegate.handle.describe()).raw_description.workflow_execution_info
    assert info.first_run_id != info.execution.run_id


async def replays(run: Run) -> None:
    """Replay a run without keys, and with keys that have signed nothing of it."""
    for keys in (None, ring(OLD)):
        externs = {PERMIT_KEYS: partial(lambda same: same, keys)}
        replayer = Replayer(
            workflows=[AgentWorkflow, CallWorkflow],
            workflow_runner=workflow_runner(),
            data_converter=data_converter,
            interceptors=[CommandInterceptor(["pay", "held_payment"], SOON, externs)],
        )
        await replayer.replay_workflow(await run.handle.fetch_history())


async def reset(home: Backend, run: Run, finished: int) -> Run:
    """Reset a run to its workflow task of this number, from 0."""
    tasks = [
        each.event_id
        for each in await run.history()
        if each.event_type is EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
    ]
    await home.client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=home.client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=run.id),
            workflow_task_finish_event_id=tasks[finished],
            request_id=uuid.uuid4().hex,
        )
    )
    return Run(home.client.get_workflow_handle(run.id), home.client)


async def has_grown(run: Run, length: int) -> bool:
    """Whether a run has so many events, and no workflow task is running."""
    found = await run.handle.describe()
    at_work = found.raw_description.HasField("pending_workflow_task")
    return found.history_length >= length and not at_work


async def paid_times(name: str, times: int) -> None:
    """Wait until `held_payment` has started this many times."""

    async def has_started() -> bool:
        return sum(line.startswith(f"paid {name} ") for line in tools.read()) == times

    await eventually(has_started)


async def test_a_reset_run_does_what_the_run_before_was_admitted_to_do(strict: Any) -> None:
    pays = [Answer(calls=[call("repeatable", name="x")]), Answer("done")]
    home = await strict(pays)
    run = await begin(home, "AgentWorkflow", {**DESK, "principal": token()})

    for times in (1, 2):  # the second is a reset of a reset
        await paid_times("x", times)
        length = (await run.handle.describe()).history_length
        await run.handle.signal("message", "and then?")
        await eventually(partial(has_grown, run, length + 3))
        run = await reset(home, run, -1)
    await paid_times("x", 3)
    tools.write("open x")
    await run.result()

    assert (await run.results())["t1c1"] == "x"


async def test_a_reset_run_continues_with_its_delegate_or_with_its_state(strict: Any) -> None:
    looks = [Answer(calls=[call("look_up", id=n)]) for n in range(1, 5)]
    home = await strict([*looks, *PAYS], continue_after=20)
    chief = await begin(home, "AgentWorkflow", {**DESK, "agent": "chief", "principal": token()})
    delegate = chief.delegate("t1c1")
    await waits(delegate)
    chief = await reset(home, chief, -1)
    delegate = await reset(home, delegate, 0)  # to the start of its current execution
    await waits(delegate)
    await delegate.decide("t5c1", "approve", by="ann")
    [asked] = await delegate.waiting()
    assert asked["kind"] == "reconcile"  # it may have been paid before the reset
    await delegate.run_again("t5c1")
    await chief.result()

    assert tools.read() == [f"pay 5 {delegate.id}/t5c1"]


async def test_a_forged_result_of_a_call_that_may_run_once_is_an_unknown_outcome(
    strict: Any, client: Client
) -> None:
    home = await strict([Answer(calls=[call("held_payment", name="x")]), Answer("done")])
    run = await begin(home, "AgentWorkflow", {**DESK, "principal": token()})
    await paid_times("x", 1)
    forged = {"workflow-id": run.id, "activity-id": "t1c1", "result": '"forged"'}
    await temporal(client, "complete", **forged)
    [asked] = await waits(run)

    assert asked["kind"] == "reconcile"
    await run.decide("t1c1", "happened", by="ann", result="it was paid")
    tools.write("open x")
    await run.result()
    assert (await run.results())["t1c1"] == "it was paid"
    await replays(run)


async def temporal(client: Client, command: str, **options: str) -> str:
    """Run `temporal activity COMMAND`, and return what it prints."""
    named = {"activity-id": "x", "address": client.service_client.config.target_host, **options}
    arguments = [part for name, value in named.items() for part in (f"--{name}", value)]
    process = await asyncio.create_subprocess_exec(
        *(str(temporal_binary()), "activity", command, *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    return output.decode()
