"""What Holdfast adds to one worker: workflows, activities, interceptors, and what they need."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

from temporalio.client import Client
from temporalio.worker import Interceptor, Worker, WorkerConfig

from holdfast.activities.check_token import CheckTokenActivity
from holdfast.activities.find_signals import find_signals
from holdfast.activities.generate import GenerateActivity
from holdfast.activities.interceptors.attempt_spans import AttemptSpans, current_tracing
from holdfast.activities.interceptors.auto_heartbeat import AutoHeartbeat, OutlivedAttempts
from holdfast.activities.interceptors.chain import ActivityInterceptors
from holdfast.activities.interceptors.once import OnceCheck
from holdfast.activities.interceptors.permits import PermitCheck
from holdfast.activities.interceptors.results import CheckedResults
from holdfast.activities.knowledge import FetchKnowledgeActivity
from holdfast.activities.memory_access import MemoryActivities
from holdfast.activities.model.chat_telemetry import SpanRecorder
from holdfast.activities.model.conversation_cache import (
    Answer,
    ConversationCache,
    PagePrefetch,
    RunKey,
)
from holdfast.activities.model.progress import Progress
from holdfast.activities.model.run_queries import RunQueries
from holdfast.activities.model.shared_pages import SharedPages
from holdfast.activities.model.viewers import QueryCached, Viewers
from holdfast.activities.read_fork import ReadForkActivity
from holdfast.activities.resolve import DefinitionResolver
from holdfast.activities.shared_budgets import SharedBudgets
from holdfast.hosting.options import WorkerSettings
from holdfast.hosting.own_runs import OwnRunsInterceptor
from holdfast.hosting.process_exit import StartError
from holdfast.hosting.resources import WorkerResources
from holdfast.hosting.sdk_workarounds.activity_definitions import (
    activity_name,
    place_of,
    with_raw_arguments,
)
from holdfast.hosting.sdk_workarounds.worker_shutdown import shutdown_requested
from holdfast.hosting.temporal import usable_search_attributes
from holdfast.runtime.absences import AbsenceReader
from holdfast.runtime.storage.run_files import RunFiles
from holdfast.runtime.storage.store import payload_writer, store_of
from holdfast.schemas import names
from holdfast.schemas.agent import WorkerFacts
from holdfast.schemas.internal.model_request import HAND_OVER, ConversationPointer
from holdfast.validation.problems import ValueProblem
from holdfast.workflows.commands.interceptors import CommandInterceptor
from holdfast.workflows.permits import PERMIT_KEYS

MAX_ACTIVITIES = 100


class WorkerParts:
    """What Holdfast adds to one worker, by the worker's own configuration.

    `outlived` are the activities that run on after their attempts.
    """

    def __init__(
        self,
        config: WorkerConfig,
        settings: WorkerSettings,
        resources: WorkerResources,
        query_cached: QueryCached,
    ) -> None:
        self._client, self._settings, self._resources = config["client"], settings, resources
        self._task_queue = config["task_queue"]
        self._theirs = {activity_name(each): each for each in config.get("activities") or ()}
        ours = {each.name: each for each in resources.current_catalog.catalog.python.activities}
        for name in ours.keys() & self._theirs.keys():
            if place_of(ours[name].run) != place_of(self._theirs[name]):
                reason = f"the worker has another activity `{name}`, which would replace this tool"
                fault = ValueProblem((), reason, "rename one of them")
                raise StartError([str(ours[name].source.problem(fault))])
        self._modules = {name: each for name, each in ours.items() if name not in self._theirs}
        self._request_workers: list[Worker] = []
        self._prefetch = PagePrefetch(ConversationCache())
        self._shared_pages: SharedPages | None = None
        answers: dict[str, Progress] = {}
        current, is_test = resources.current_catalog, resources.models.stand_in is not None
        self._budgets = SharedBudgets(
            self._client, settings.task_queue, lambda: () if is_test else current.catalog.budgets
        )
        self._generate = partial(
            GenerateActivity,
            resources.models,
            RunQueries(self._client).page,
            self._prefetch,
            settings.generate_timeout,
            resources.secrets,
            resources.telemetry,
            answers,
            self._budgets,
            self.files(),
        )
        self._viewers = Viewers(
            answers, settings.viewers, self._client.data_converter, query_cached
        )
        self.outlived = OutlivedAttempts(MAX_ACTIVITIES)
        tracing = None
        if (telemetry := resources.telemetry) is not None:
            tracing = partial(current_tracing, telemetry)
            telemetry.metrics.observe_outlived(lambda: len(self.outlived))
            telemetry.metrics.observe_budgets(self._budgets.shares)
        list_tools = None if resources.servers is None else resources.servers.list_in_thread
        self._resolver = DefinitionResolver(
            resources.current_catalog, lambda: self._facts, tracing, list_tools
        )

    def files(self) -> RunFiles:
        """Return the files of the worker's runs in its store, if it has one."""
        converter = self._client.data_converter
        return RunFiles(store_of(converter), converter)

    @property
    def is_running(self) -> bool:
        """Return whether the workers of the limited endpoints accept work, once they started."""
        return all(worker.is_running for worker in self._request_workers)

    def activities(self) -> list[Callable[..., Any]]:
        """Return all activities of the worker, with its own."""
        # A permit is of the bytes of the arguments.
        has_permits = self._resources.permit_keys is not None
        theirs = [
            with_raw_arguments(each, only_with_context=not has_permits)
            for each in self._theirs.values()
        ]
        queries = RunQueries(self._client)
        memories = MemoryActivities(self._client, queries)
        forks = ReadForkActivity(
            self._client, queries, lambda: self._lists_forks, own_queue_only=has_permits
        )
        world = self._resources.current_catalog.catalog.definitions
        servers = self._resources.servers
        knowledge = FetchKnowledgeActivity(
            *(self._resources.knowledge_http, world.folder, world.knowledge_urls),
            servers.list_tools if servers is not None else None,
        )
        spans = SpanRecorder(self._resources.telemetry, self._resources.models)
        mcp = []
        if servers is not None:
            from holdfast.activities.mcp.call_tool import CallMcpToolActivity

            mcp = [with_raw_arguments(CallMcpToolActivity(servers).call_mcp_tool)]
        return [
            *theirs,
            *(with_raw_arguments(each.run) for each in self._modules.values()),
            self._generate().generate,
            knowledge.fetch_knowledge,
            CheckTokenActivity(self._resources.key_sets).check_token,
            find_signals,
            self._resources.channels.with_absences(AbsenceReader(self._client)).tell_people,
            spans.record_spans,
            *(self._resolver.resolve_agent, self._resolver.resolve_tool),
            *(self._budgets.reserve_call, forks.read_fork),
            *(memories.memory_read, memories.memory_search, memories.memory_write),
            *mcp,
        ]

    def interceptors(self) -> list[Interceptor]:
        """Return our interceptors, the outermost first: heartbeats last while a result is stored.

        The worker's own activities are left alone in its own workflows.
        """
        resources, keys = self._resources, self._resources.permit_keys
        # `generate` sends heartbeats of its own.
        ours = frozenset([*names.RESERVED_ACTIVITIES, *self._modules])
        in_process = (ours | self._theirs.keys()) - {names.GENERATE}
        writer = payload_writer(self._client.data_converter)
        externs: dict[str, Callable[..., Any]] = {
            HAND_OVER: self._hand_over,
            PERMIT_KEYS: lambda: keys,
        }
        return [
            ActivityInterceptors(
                partial(PermitCheck, keys=keys, client=self._client, is_exempt=self._is_exempt)
            ),
            ActivityInterceptors(
                partial(AttemptSpans, telemetry=resources.telemetry),
                partial(AutoHeartbeat, activity_types=in_process, outlived=self.outlived),
                partial(CheckedResults, store=writer, secrets=resources.secrets, permit_keys=keys),
                OnceCheck,
                ours=ours,
            ),
            *([] if keys is None else [OwnRunsInterceptor(self._client)]),
            CommandInterceptor(in_process, self._settings.tool_heartbeat, externs),
        ]

    def _hand_over(
        self, run: tuple[str, str], pointer: ConversationPointer, answer: Answer, is_shared: bool
    ) -> None:
        self._prefetch.store(run[0], pointer, answer)
        if is_shared and self._shared_pages is not None:
            self._shared_pages.write(RunKey(*run), pointer, answer)

    def _is_exempt(self, activity_type: str) -> bool:
        """Return whether an activity needs no permit: the program's own, which no tool uses."""
        if activity_type in (*names.EXEMPT_ACTIVITIES, self._settings.notify):
            return True
        bound = self._resources.current_catalog.catalog.bound_activities
        is_ours = activity_type in self._modules or activity_type == names.CALL_MCP_TOOL
        return activity_type not in bound and not is_ours

    @asynccontextmanager
    async def around(self, worker: Worker) -> AsyncIterator[None]:
        """Have ready what the worker needs, until its activities have ended.

        The catalog is reloaded, and the requests to each endpoint have a worker of their own.
        """
        self._facts = await self.facts()
        converter = self._client.data_converter
        store = store_of(converter)
        self._shared_pages = None if store is None else SharedPages(store, converter)
        self._request_workers = self.request_workers(worker)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._budgets.close)
            if self._resources.telemetry is not None:
                stack.push_async_callback(asyncio.to_thread, self._resources.telemetry.close)
            if self._resources.servers is not None:
                await stack.enter_async_context(self._resources.servers.running())
            for client in (self._resources.http, self._resources.knowledge_http):
                stack.push_async_callback(client.aclose)
            reloads = self._resources.reloader.run(self._settings.between_looks)
            for work in (reloads, self._viewers.run()):
                await stack.enter_async_context(_running(work))
            for each in self._request_workers:
                await stack.enter_async_context(each)
            # Shut down together, all activities have the same time to finish.
            async with _running(self._stop_with(worker)):
                yield

    async def _stop_with(self, worker: Worker) -> None:
        await shutdown_requested(worker)
        await asyncio.gather(*(each.shutdown() for each in self._request_workers))

    def request_workers(self, worker: Worker) -> list[Worker]:
        """Return a worker for the requests to each endpoint, with a rate that all of them share.

        An endpoint without a limit has a worker, too, since it may have had a limit before: the
        runs that started then continue on its task queue.
        """
        config: Mapping[str, Any] = worker.config(active_config=True)
        throttle = self._settings.heartbeat_timeout / names.BEATS_PER_TIMEOUT
        generate = self._generate(shared=self._shared_pages).generate
        # The client as its plugins have made it: these workers are none of theirs.
        of_client = self._client.config(active_config=True)
        of_client["plugins"] = []
        return [
            Worker(
                Client(**of_client),
                task_queue=names.request_queue(worker.task_queue, endpoint),
                activities=[generate],
                interceptors=config["interceptors"],
                deployment_config=config["deployment_config"],
                graceful_shutdown_timeout=config["graceful_shutdown_timeout"],
                max_concurrent_activities=config["max_concurrent_activities"],
                max_heartbeat_throttle_interval=throttle,
                max_task_queue_activities_per_second=None if limit is None else limit / 60,
            )
            for endpoint, limit in self._resources.models.request_limits().items()
        ]

    async def facts(self) -> WorkerFacts:
        """Return what runs need to know of the worker that resolves their definitions."""
        settings, task_queue = self._settings, self._task_queue
        usable = await usable_search_attributes(self._client)
        self._lists_forks = names.FORKED_FROM in usable
        return WorkerFacts(
            # Without that of forks, which is in no history of another run.
            search_attributes=[each for each in usable if each in names.SEARCH_ATTRIBUTES],
            notify=settings.notify,
            notifiers=self._resources.channels.listeners(),
            generate_timeout=settings.generate_timeout,
            heartbeat_timeout=settings.heartbeat_timeout,
            continue_after=settings.continue_after,
            store=payload_writer(self._client.data_converter) is not None,
            principal_tokens=settings.principal_tokens,
            catalog_only=settings.catalog_only,
            request_queues={
                name: names.request_queue(task_queue, name)
                for name, limit in self._resources.models.request_limits().items()
                if limit is not None
            },
        )


@asynccontextmanager
async def _running(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Do the work in a task that ends with the body of the `with` statement."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
