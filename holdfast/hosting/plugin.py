"""Holdfast as a plugin of a Temporal client: its workers run agents beside their own work.

    client = await Client.connect(address, plugins=[HoldfastPlugin(catalog="support")])
    worker = Worker(client, task_queue="support", workflows=[MyWorkflow], activities=[my_activity])

Such a worker keeps its own workflows with their sandbox, its activities, interceptors, converters
and codec, and each setting that is not the SDK's default. `holdfast worker` is a worker with this
plugin alone.
"""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Self, TypedDict, Unpack

from temporalio.api.common.v1 import Payload
from temporalio.client import ClientConfig, WorkflowHistory
from temporalio.common import VersioningBehavior
from temporalio.converter import DataConverter
from temporalio.plugin import SimplePlugin
from temporalio.worker import (
    Replayer,
    ReplayerConfig,
    Worker,
    WorkerConfig,
    WorkflowInstance,
    WorkflowInstanceDetails,
    WorkflowReplayResult,
    WorkflowRunner,
)
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

from holdfast.definitions.agent import Agent, AnyTool
from holdfast.hosting.monitoring.worker_telemetry import with_telemetry
from holdfast.hosting.options import WorkerSettings
from holdfast.hosting.resources import ResourcesError, WorkerResources, load_resources
from holdfast.hosting.sdk_workarounds import workflow_runner
from holdfast.hosting.sdk_workarounds.activity_definitions import activity_name
from holdfast.hosting.sdk_workarounds.first_seed import with_first_seed
from holdfast.hosting.sdk_workarounds.worker_shutdown import end_shutdown
from holdfast.hosting.worker_parts import MAX_ACTIVITIES, WorkerParts
from holdfast.providers.base import Provider
from holdfast.runtime.command_line import read_path
from holdfast.runtime.data_converter import encrypts, with_encryption, with_pydantic, with_store
from holdfast.runtime.encryption.key_ring import KeyRing
from holdfast.runtime.settings_files.file_problems import LoadError
from holdfast.runtime.storage.locations import StoreLocation, open_store_at, parse_store_location
from holdfast.runtime.storage.store import DeferredStore
from holdfast.schemas.settings.budgets import SharedBudget
from holdfast.workflows.absences import AbsencesWorkflow, MovingAbsencesWorkflow
from holdfast.workflows.agent import AgentWorkflow
from holdfast.workflows.base_workflow import CallWorkflow
from holdfast.workflows.budget import BudgetWorkflow, MovingBudgetWorkflow
from holdfast.workflows.commands.interceptors import CommandInterceptor
from holdfast.workflows.memory import MemoryWorkflow, MovingMemoryWorkflow

_Results = AsyncIterator[WorkflowReplayResult]
# Each with the one for workers that are builds of a deployment.
_LASTING: Final[Mapping[type, type]] = {
    MemoryWorkflow: MovingMemoryWorkflow,
    BudgetWorkflow: MovingBudgetWorkflow,
    AbsencesWorkflow: MovingAbsencesWorkflow,
}


class PluginSettings(TypedDict, total=False):
    """The settings of a worker that are not Temporal's own, as `WorkerSettings` describes them."""

    catalog: str | Path | None
    tools: Sequence[str | AnyTool]
    agents: Sequence[Agent[Any]]
    budgets: Sequence[SharedBudget]
    endpoints: str | Path | None
    servers: str | Path | None
    knowledge_urls: Sequence[str]
    knowledge_networks: Sequence[str]
    notify: str | None
    notifiers: str | Path | None
    store: str | StoreLocation | None
    encryption: str | Path | None
    keys: str | None
    principal_tokens: bool
    catalog_only: bool
    permits: str | Path | None
    heartbeat_timeout: timedelta
    tool_heartbeat_timeout: timedelta | None
    generate_timeout: timedelta
    continue_after: int | None
    viewers: Sequence[str]
    between_looks: timedelta


@dataclass(frozen=True)
class HoldfastRunner(SandboxedWorkflowRunner):
    """Run Holdfast's workflows with a runner of ours, and all others as before.

    The others run in Temporal's sandbox with these `restrictions`, which other plugins replace, or
    with `theirs` if the worker had another kind of runner.
    """

    ours: WorkflowRunner = field(kw_only=True)
    theirs: WorkflowRunner | None = field(default=None, kw_only=True)
    parts: WorkerParts | None = field(default=None, kw_only=True)
    """What the plugin has added to the worker."""

    @classmethod
    def beside(cls, theirs: WorkflowRunner | None) -> Self:
        """Return a runner for one worker, which had another one."""
        assert theirs is not None  # a worker has one
        ours: WorkflowRunner = workflow_runner.workflow_runner()
        if type(ours) is not SandboxedWorkflowRunner:
            from holdfast.hosting.sdk_workarounds.cached_runs import TrackingRunner

            ours = TrackingRunner(ours)
        if type(theirs) is SandboxedWorkflowRunner:
            # Modules of their workflows may import us: a client, an agent, a type.
            restrictions = theirs.restrictions.with_passthrough_modules("holdfast")
            return cls(restrictions, theirs.runner_class, ours=ours)
        return cls(ours=ours, theirs=theirs)

    def attach(self, worker: Worker) -> None:
        """Complete the workarounds with their worker, in whose event loop this is called."""
        if type(self.ours) is not SandboxedWorkflowRunner:
            self.ours.attach(worker)  # type: ignore[attr-defined]  # not imported before

    def query(
        self, workflow_id: str, name: str, arguments: Sequence[Payload]
    ) -> tuple[tuple[str, int], Payload] | None:
        """Answer a query of a run in the cache; see `TrackingRunner`. None: it is not there."""
        run = getattr(self.ours, "runs", {}).get(workflow_id)
        return run and run.query(name, arguments)

    def prepare_workflow(self, defn: Any) -> None:
        runner = self._runner_of(defn)
        super().prepare_workflow(defn) if runner is None else runner.prepare_workflow(defn)

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        """Create a run; the SDK calls this."""
        runner = self._runner_of(det.defn)
        if runner is self.ours:
            # What fails a run of the user's is a defect in one of ours: its task is repeated.
            det = replace(det, worker_level_failure_exception_types=[])
            det = with_first_seed(det)
        return super().create_instance(det) if runner is None else runner.create_instance(det)

    def set_worker_level_failure_exception_types(self, types: Any) -> None:
        super().set_worker_level_failure_exception_types(types)
        if self.theirs is not None:
            self.theirs.set_worker_level_failure_exception_types(types)

    def _runner_of(self, defn: Any) -> WorkflowRunner | None:
        return self.ours if workflow_runner.is_own_workflow(defn.cls) else self.theirs


class HoldfastPlugin(SimplePlugin):
    """Runs agents on the workers of a client, beside what these run already.

    A client or a worker raises `StartError` when it is made, if something that the settings name
    does not load. `resources` are those of the settings, if they were loaded before. A `provider`
    answers all requests to models in place of the endpoints, as `holdfast.testing` does.

    Raises:
        ValueError: the text of `store` is no location.
    """

    make_parts: Callable[..., WorkerParts] = WorkerParts

    def __init__(
        self,
        *,
        resources: WorkerResources | None = None,
        provider: Provider | None = None,
        **settings: Unpack[PluginSettings],
    ) -> None:
        values: dict[str, Any] = {**settings}
        for each in fields(WorkerSettings):
            text, read = values.get(each.name), each.metadata.get("type")
            if isinstance(text, str) and read in (read_path, parse_store_location):
                values[each.name] = read(text)
        self.settings = WorkerSettings(**values)
        self._resources, self._provider = resources, provider
        self._store = None if self.settings.store is None else DeferredStore()
        super().__init__(
            "holdfast",
            data_converter=self._converter,
            workflows=lambda given: [*(given or ()), AgentWorkflow, CallWorkflow, *_LASTING],
            workflow_runner=HoldfastRunner.beside,
        )

    @classmethod
    def of(cls, settings: WorkerSettings, resources: WorkerResources | None) -> Self:
        given = {name: getattr(settings, name) for name in PluginSettings.__annotations__}
        return cls(resources=resources, **given)

    def configure_client(self, config: ClientConfig) -> ClientConfig:
        """Add our converter, codec and store to the client's; Temporal calls this.

        A plugin that follows may refuse another payload converter than the SDK's default, and
        bring its own.
        """
        config = super().configure_client(config)
        plugins = list(config["plugins"])
        converter = with_pydantic(config["data_converter"])
        try:
            for each in plugins[plugins.index(self) + 1 :]:
                change = getattr(each, "data_converter", None)
                if callable(change):
                    change(converter)
        except ValueError:
            return config
        return {**config, "data_converter": converter}

    def _converter(self, theirs: DataConverter | None) -> DataConverter:
        file = self.settings.encryption
        try:
            ring = None if file is None else KeyRing.load(file, os.environ)
        except LoadError as error:
            raise ResourcesError(error.problems) from None
        return with_store(with_encryption(theirs or DataConverter.default, ring), self._store)

    def configure_worker(self, config: WorkerConfig) -> WorkerConfig:
        """Add our workflows, activities and interceptors to the worker's; Temporal calls this.

        Raises:
            ValueError: the client's converter does not leave JSON values to JSON, or does not
                encrypt though it should; or the worker's runs would not stay on their build.
        """
        config = super().configure_worker(config)
        client = config["client"]
        with_pydantic(client.data_converter)
        if self.settings.encryption is not None and not encrypts(client.data_converter):
            raise ValueError("another plugin replaces our codec; name `HoldfastPlugin` after it")
        versions = config.get("deployment_config")
        if versions is None or not versions.use_worker_versioning:
            versions = None
        elif versions.default_versioning_behavior is not VersioningBehavior.PINNED:
            raise ValueError("the deployment's `default_versioning_behavior` must be PINNED")
        settings = replace(self.settings, task_queue=config["task_queue"])
        resources = self._resources
        if resources is None:
            known = [activity_name(each) for each in config.get("activities") or ()]
            resources = load_resources(settings, activities=known, provider=self._provider)
            resources = with_telemetry(resources)
        resources.secrets.learn([client.service_client.config.api_key or ""])
        runner = _runner_of(config)
        parts = self.make_parts(config, settings, resources, runner.query)
        config["workflow_runner"] = replace(runner, parts=parts)
        if versions is not None:
            # A memory or a budget outlives a build, so its workflow moves to the current one.
            kept = [each for each in config["workflows"] if each not in _LASTING]
            config["workflows"] = [*kept, *_LASTING.values()]
        config["activities"] = parts.activities()
        config["interceptors"] = [*config["interceptors"], *parts.interceptors()]
        if config.get("activity_executor") is None:
            # For all activities and local activities that run at once.
            config["activity_executor"] = ThreadPoolExecutor(2 * MAX_ACTIVITIES, "activity")
        return config

    def configure_replayer(self, config: ReplayerConfig) -> ReplayerConfig:
        """Add our workflows and their interceptor to the replayer's; Temporal calls this."""
        config = super().configure_replayer(config)
        interceptor = CommandInterceptor((), self.settings.tool_heartbeat)
        config["interceptors"] = [*(config.get("interceptors") or ()), interceptor]
        return config

    @asynccontextmanager
    async def run_replayer(
        self,
        replayer: Replayer,
        histories: AsyncIterator[WorkflowHistory],
        next: Callable[..., AbstractAsyncContextManager[_Results]],  # noqa: A002  # the SDK's name
    ) -> AsyncIterator[_Results]:
        """Replay with the payload converter of a worker; Temporal calls this.

        Only now has each plugin changed the converter: see `configure_client`.
        """
        config = replayer.config(active_config=True)
        config["data_converter"] = with_pydantic(config["data_converter"])
        async with super().run_replayer(Replayer(**config), histories, next) as results:
            yield results

    async def run_worker(self, worker: Worker, next: Callable[[Worker], Awaitable[None]]) -> None:  # noqa: A002  # the SDK's name
        """Run a worker, with what its activities need; Temporal calls this.

        Raises:
            StoreError: the store cannot be opened.
        """
        async with AsyncExitStack() as stack:
            stack.callback(end_shutdown, worker)
            if self._store is not None and self.settings.store is not None:
                opening = open_store_at(self.settings.store, writing=True)
                store = await stack.enter_async_context(opening)
                stack.enter_context(self._store.opened(store))
            _runner_of(worker.config(active_config=True)).attach(worker)
            await stack.enter_async_context(worker_parts(worker).around(worker))
            await next(worker)


def worker_parts(worker: Worker) -> WorkerParts:
    parts = _runner_of(worker.config(active_config=True)).parts
    assert parts is not None  # set with the runner
    return parts


def _runner_of(config: WorkerConfig) -> HoldfastRunner:
    runner = config["workflow_runner"]
    if not isinstance(runner, HoldfastRunner):
        raise TypeError(
            "a plugin has replaced the workflow runner of Holdfast: name `HoldfastPlugin` after it"
        )
    return runner
