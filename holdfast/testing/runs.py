"""The runs of one test: each has a worker, a task queue and a model of its own."""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from typing import Any, Generic, Unpack, cast

from google.protobuf.json_format import ParseDict
from temporalio.api.enums.v1 import FastForwardPollingResult
from temporalio.api.workflowservice import v1 as service
from temporalio.client import Client, WorkflowHistory
from temporalio.worker import Plugin, Replayer, Worker

from holdfast.client.diagnosis import has_pollers
from holdfast.client.holdfast_client import HoldfastClient, StartFields
from holdfast.client.result import RunEnding
from holdfast.client.run import DecisionFields, OutputT, PendingCall, Run
from holdfast.client.run_lists import RunFilter
from holdfast.client.stream.heartbeats import new_failure_lines
from holdfast.client.stream.run_watch import RunDescription
from holdfast.definitions.agent import Agent, AnyTool
from holdfast.definitions.run_request import RunInput
from holdfast.definitions.tool import Tool
from holdfast.hosting.plugin import HoldfastPlugin, PluginSettings
from holdfast.schemas.base import parse_duration
from holdfast.schemas.decision import Receipt
from holdfast.testing.scripted_model import Model, ModelRequest, ScriptedModel

_LOG = logging.getLogger(__name__)
_BETWEEN_SECONDS = 0.02
# A run that takes longer may wait for an activity that fails.
_SILENT_SECONDS = 0.5
_POLL_TIMEOUT = FastForwardPollingResult.FAST_FORWARD_POLLING_RESULT_POLL_TIMEOUT


class RunFields(PluginSettings, StartFields, total=False):
    """The settings of the worker of a run, the fields of its request, and your own work."""

    workflows: Sequence[type]
    activities: Sequence[Callable[..., Any]]


class RunUnderTest(Run[OutputT], Generic[OutputT]):
    """A run of a test; `requests` are those to its model and to those of its delegates.

    Waiting for it raises `AssertionError` if no worker polls the task queue of a call.
    """

    def __init__(
        self,
        client: Client,
        run_id: str,
        output: type[OutputT] | None = None,
        requests: Sequence[ModelRequest] = (),
        fork: Callable[..., Awaitable[Run[Any]]] | None = None,
    ) -> None:
        super().__init__(client, run_id, output, fork=fork)
        self.requests = requests
        self._failures: dict[str, str] = {}

    async def observe(self) -> RunDescription:
        """Return the server's view of the run, and log each new failure that is retried."""
        look = await super().observe()
        for line in new_failure_lines(look.failing, self._failures):
            _LOG.warning("run %s waits %s", self.id, line)
        for queue in {one.queue for one in look.failing if not one.last_failure}:
            if not await has_pollers(self._client, queue):
                wrong = f"run {self.id} hangs: no worker polls task queue {queue}"
                raise AssertionError(f"{wrong}; serve it: holdfast_run.serve({queue!r}, …)")
        return look

    async def ending(self, *, unread: str = "", execution: str = "") -> RunEnding:
        """Wait for the end of the run and return it; observe it meanwhile."""
        ending = asyncio.create_task(super().ending(unread=unread, execution=execution))
        try:
            while not (await asyncio.wait([ending], timeout=_SILENT_SECONDS))[0]:
                await self.observe()
            return await ending
        finally:
            ending.cancel()

    async def approval(self, tool: AnyTool | str | None = None) -> PendingCall:
        """Wait for a pending call, of the run or of a delegate, and return it.

        Raises:
            AssertionError: the run has ended.
        """
        name = tool.name if isinstance(tool, Tool) else tool
        while not (await self.observe()).closed:
            found = RunFilter(id_prefix=self.id, status="awaiting_approval")
            for run in await HoldfastClient(self._client).list_runs(found, None):
                # Not `order-10` beside `order-1`.
                is_inside = f"{run.id}.".startswith(f"{self.id}.")
                for pending in await Run(self._client, run.id).approvals() if is_inside else ():
                    if name in (None, pending.tool):
                        return pending
            await asyncio.sleep(_BETWEEN_SECONDS)
        ending = await self.ending()
        which = "" if name is None else f" of `{name}`"
        wrong = f"run {self.id} is {ending.status}, and no approval{which} is pending"
        raise AssertionError(": ".join(filter(None, (wrong, ending.message))))

    async def approve(
        self, tool: AnyTool | str | None = None, **fields: Unpack[DecisionFields]
    ) -> Receipt:
        """Wait for a pending call as `approval` does, and approve it."""
        return await (await self.approval(tool)).approve(**fields)

    async def skip_time(self, duration: str | timedelta) -> None:
        """Let a duration such as `24h` pass in the run, or in its delegates that wait for people.

        Each timer takes about a second. The time of activities is not skipped.
        """
        seconds, server = parse_duration(duration).total_seconds(), self._client.workflow_service
        waiting = {each.workflow_id for each in (await self.status()).delegate_approvals}
        for run_id in waiting or [self.id]:
            execution = {"workflowId": run_id}
            about = {"namespace": self._client.namespace, "workflowExecution": execution}
            forward = {"id": uuid.uuid4().hex, "duration": f"{seconds}s"}
            options = {"timeSkippingConfig": {"enabled": True, "fastForwardConfig": forward}}
            changes = {"workflowExecutionOptions": options, "updateMask": "timeSkippingConfig"}
            update = service.UpdateWorkflowExecutionOptionsRequest()
            ParseDict({**about, **changes}, update)
            await server.update_workflow_execution_options(update, retry=True)
            poll = service.PollWorkflowExecutionTimeSkippingRequest()
            ParseDict({**about, "fastForwardId": forward["id"]}, poll)
            result = _POLL_TIMEOUT
            while result == _POLL_TIMEOUT:
                answer = await server.poll_workflow_execution_time_skipping(poll, retry=True)
                result = answer.fast_forward_polling_result

    async def history(self) -> WorkflowHistory:
        """Return the history so far, for `assert_replays`; its `to_json` is for a file."""
        return await self._handle.fetch_history()


class HoldfastRun:
    """Starts the runs of one test, on a server at `address`; the owner of `workers` stops them."""

    def __init__(self, address: str, workers: AsyncExitStack) -> None:
        self.models: list[ScriptedModel] = []
        self._address, self._workers = address, workers
        self._loop = asyncio.get_running_loop()

    async def __call__(
        self,
        agent: Agent[OutputT] | str,
        input: RunInput = None,
        *,
        model: Model,
        **fields: Unpack[RunFields],
    ) -> RunUnderTest[OutputT]:
        """Start a run of an agent, or of an agent of the `catalog` by its name."""
        given: dict[str, Any] = {**fields}
        asked = {name: given.pop(name) for name in StartFields.__annotations__ if name in given}
        if isinstance(agent, Agent):
            given["agents"] = [agent, *given.get("agents", ())]
        agents = await self.worker(model=model, **given)
        run = await agents.start(agent, input, **cast(StartFields, asked))
        if (await run.describe()).task_queue != agents.task_queue:
            wrong = f"a run with the id {run.id} exists, of another test or start"
            raise AssertionError(f"{wrong}; give each its own `id`, or its token its own `jti`")
        output = agent.output_type if isinstance(agent, Agent) else None
        requests = self.models[-1].requests
        return RunUnderTest(agents.temporal, run.id, output, requests, agents.fork)

    async def worker(
        self,
        *,
        model: Model,
        workflows: Sequence[type] = (),
        activities: Sequence[Callable[..., Any]] = (),
        **settings: Unpack[PluginSettings],
    ) -> HoldfastClient:
        """Start a worker, for workflows of your own that start agents; it stops with the test."""
        if asyncio.get_running_loop() is not self._loop:
            wrong = "the test and its fixtures run in different event loops; give both one scope"
            raise RuntimeError(f"{wrong}, such as `asyncio_default_fixture_loop_scope = function`")
        self.models.append(ScriptedModel(model))
        # A test may hold up the loop, and a request that is repeated takes the next answer.
        settings.setdefault("heartbeat_timeout", timedelta(seconds=30))
        plugin = HoldfastPlugin(provider=self.models[-1], **settings)
        client = await Client.connect(self._address, plugins=[plugin])
        queue = f"test-{uuid.uuid4().hex[:8]}"
        worker = Worker(client, task_queue=queue, workflows=workflows, activities=activities)
        await self._workers.enter_async_context(worker)
        return HoldfastClient(client, queue)

    async def serve(self, task_queue: str, *activities: Callable[..., Any]) -> None:
        """Run activities on a task queue of their own until the test ends."""
        client = await Client.connect(self._address, plugins=[HoldfastPlugin()])
        worker = Worker(client, task_queue=task_queue, activities=activities)
        await self._workers.enter_async_context(worker)


def assert_replays(
    history: WorkflowHistory | str,
    *,
    workflows: Sequence[type] = (),
    plugins: Sequence[Plugin] = (),
) -> None:
    """Check that a history, or its JSON, replays with the code as it is.

    `workflows` are your own; `plugins` are those of the worker, where they encode its payloads.
    Needs no server.

    Raises:
        AssertionError: it does not replay.
    """
    if isinstance(history, str):
        read = WorkflowHistory.from_json("", history)
        started = read.events[0].workflow_execution_started_event_attributes
        history = replace(read, workflow_id=started.workflow_id)
    replayer = Replayer(workflows=workflows, plugins=plugins or [HoldfastPlugin()])
    replay = replayer.replay_workflow(history, raise_on_replay_failure=False)
    with ThreadPoolExecutor(1) as pool:  # the test may be in an event loop
        failure = pool.submit(asyncio.run, replay).result().replay_failure
    if failure is not None:
        wrong = f"the history of {history.workflow_id} does not replay: {failure}"
        raise AssertionError(wrong) from failure
