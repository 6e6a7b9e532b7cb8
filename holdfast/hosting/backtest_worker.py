"""The worker of `holdfast backtest`: it runs backtests, and lets out requests to models alone.

It has the settings of a worker, without what writes, notifies, reports or is connected to: no
notifiers, viewers, telemetry, permits or MCP servers; for a suite, these list their tools.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Self

from temporalio import activity
from temporalio.client import Client
from temporalio.envconfig import ClientConnectConfig
from temporalio.worker import Interceptor, Worker, WorkerConfig

from holdfast.activities.backtest.gate import ALLOWED, BacktestGate, recorded_listing
from holdfast.activities.backtest.recorded_activities import FillIn, Missing, RecordedActivities
from holdfast.activities.interceptors.chain import ActivityInterceptors
from holdfast.activities.notify.channels import NotificationChannels
from holdfast.activities.resolve import DefinitionResolver
from holdfast.catalog.catalog_files import TOOLS, list_files
from holdfast.catalog.loader import Catalog, CurrentCatalog
from holdfast.catalog.mcp_tools import Listing
from holdfast.hosting.options import WorkerSettings
from holdfast.hosting.plugin import HoldfastPlugin
from holdfast.hosting.resources import WorkerResources, load_resources
from holdfast.hosting.sdk_workarounds.activity_definitions import activity_name
from holdfast.hosting.temporal import connect
from holdfast.hosting.worker import build_worker
from holdfast.hosting.worker_parts import WorkerParts
from holdfast.providers.base import Provider
from holdfast.runtime.backtest.recorded_answers import RecordedAnswers
from holdfast.runtime.secrets import Secrets
from holdfast.runtime.settings_files.source import read_source
from holdfast.runtime.storage.run_files import RunFiles
from holdfast.schemas.agent import ModelSettings
from holdfast.workflows.backtest import BacktestWorkflow


@dataclass
class BacktestHost:
    """What the worker of backtests is built with; `backtests` are by workflow id.

    `settings` are those of the worker whose agents are tested, with its task queue.
    """

    settings: WorkerSettings
    resources: WorkerResources
    fill_in: FillIn
    model: ModelSettings | None = None
    backtests: dict[str, RecordedAnswers] = field(default_factory=dict)

    @classmethod
    def load(
        cls,
        settings: WorkerSettings,
        secrets: Secrets | None,
        missing: Missing,
        principal: dict[str, Any] | None = None,
        model: ModelSettings | None = None,
        provider: Provider | None = None,
        *,
        has_servers: bool = False,
    ) -> Self:
        """Load the catalog and the endpoints of a worker; live reads are of this principal.

        A `provider` answers all requests to models. With `has_servers`, agents have the tools that
        MCP servers list, as they have in production; else those that a record has.

        Raises:
            StartError: something that the settings name does not load.
        """
        settings = replace(
            settings,
            notify=None,
            notifiers=None,
            permits=None,
            deployment=None,
            build=None,
            viewers=(),
            graceful_timeout=timedelta(),
        )
        loaded = load_resources(settings, secrets, provider=provider)
        catalog = loaded.current_catalog.catalog
        if not has_servers:
            world = replace(catalog.definitions, mcp_lock=None)
            catalog, loaded = replace(catalog, definitions=world), replace(loaded, servers=None)
        current = CurrentCatalog(catalog)
        # Its telemetry is not started, and a change of a file changes no backtest.
        channels = NotificationChannels()
        resources = replace(loaded, current_catalog=current, channels=channels)
        reads = _harmless_tools(catalog, settings.catalog)
        fill_in = FillIn(missing, settings.task_queue, reads, principal)
        return cls(settings, resources, fill_in, model)

    async def connect(self, where: ClientConnectConfig) -> Client:
        """Return a client of Temporal with the plugin of this worker; raises as `connect` does."""
        plugin = BacktestPlugin.of(self.settings, self.resources)
        plugin.make_parts = partial(BacktestParts, self)
        return await connect(where, [*self.resources.plugins, plugin])

    def worker(self, client: Client, task_queue: str) -> Worker:
        return build_worker(client, replace(self.settings, task_queue=task_queue))


class BacktestParts(WorkerParts):
    """What the worker of backtests has: a part of what a worker has, behind the gate."""

    def __init__(
        self, host: BacktestHost, config: WorkerConfig, _: WorkerSettings, *more: Any
    ) -> None:
        self._host = host
        # Shared budgets count where production counts them.
        super().__init__(config, host.settings, *more)
        self._resolver = DefinitionResolver(
            host.resources.current_catalog, lambda: self._facts, None, self._list_tools
        )
        self._recorded = RecordedActivities(self._client, host.backtests, host.fill_in)

    def _list_tools(self, servers: Collection[str]) -> Listing:
        if (live := self._host.resources.servers) is not None:
            return live.list_in_thread(servers)
        answers = self._host.backtests.get(activity.info().workflow_id or "")
        return recorded_listing(answers, servers)

    def files(self) -> RunFiles:
        """Return the files of recorded runs."""
        tests = self._host.backtests
        return replace(
            super().files(), origin_of=lambda id: tests[id].record.id if id in tests else None
        )

    def activities(self) -> list[Callable[..., Any]]:
        allowed = [each for each in super().activities() if activity_name(each) in ALLOWED]
        return [*allowed, self._recorded.recorded_call, self._recorded.recorded_hook]

    def interceptors(self) -> list[Interceptor]:
        """Return those of a worker, with the gate as the innermost."""
        host = self._host
        gate = partial(
            BacktestGate, client=self._client, backtests=host.backtests, model=host.model
        )
        return [*super().interceptors(), ActivityInterceptors(gate)]


class BacktestPlugin(HoldfastPlugin):
    """The plugin of the worker of backtests."""

    def configure_worker(self, config: WorkerConfig) -> WorkerConfig:
        """Leave the worker nothing but backtests; Temporal calls this."""
        return {**super().configure_worker(config), "workflows": [BacktestWorkflow]}


def _harmless_tools(catalog: Catalog, folder: Path | None) -> set[str]:
    """Return the tools whose written definition has `_sideEffects: false`."""
    python = [(each.name, each.source.value) for each in catalog.python.activities if each.is_tool]
    files = (list_files(folder, TOOLS) if folder else None) or ()
    sources = [(path.stem, read_source(path).value) for path in files]
    written = [
        (name, one)
        for name, value in [*python, *sources]
        for one in (value if isinstance(value, list) else [value])
    ]
    return {one.get("_tool", name) for name, one in written if one.get("_sideEffects") is False}
