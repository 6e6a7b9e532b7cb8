"""Build and run a worker.

A worker runs `AgentWorkflow`, `CallWorkflow` and `MemoryWorkflow`, makes requests to models, and
runs the tools of its own Python modules. External workers, in any language, may run other tools.
"""

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, Self

from temporalio.client import Client
from temporalio.worker import Interceptor, Worker

from holdfast.activities.check_token import CheckTokenActivity
from holdfast.activities.generate import GenerateActivity
from holdfast.activities.interceptors.attempt_spans import AttemptSpans, current_tracing
from holdfast.activities.interceptors.auto_heartbeat import AutoHeartbeat, OutlivedAttempts
from holdfast.activities.interceptors.chain import ActivityInterceptors
from holdfast.activities.interceptors.once import OnceCheck
from holdfast.activities.interceptors.permits import PermitCheck
from holdfast.activities.interceptors.results import CheckedResults
from holdfast.activities.knowledge import FetchKnowledgeActivity
from holdfast.activities.memory_access import MemoryActivities
from holdfast.activities.model.conversation_cache import ConversationCache
from holdfast.activities.model.page_prefetch import PagePrefetch
from holdfast.activities.model.run_queries import RunQueries
from holdfast.activities.record_spans import SpanRecorder
from holdfast.activities.resolve import DefinitionResolver
from holdfast.hosting import deployment
from holdfast.hosting.check import check
from holdfast.hosting.dev_server import DevServer, run_dev_server, terminate_dev_servers
from holdfast.hosting.options import (
    WorkerSettings as WorkerSettings,  # for callers of `build_worker`
)
from holdfast.hosting.options import read_options
from holdfast.hosting.own_runs import OwnRunsInterceptor
from holdfast.hosting.probes import WorkerHealth, serve_probes
from holdfast.hosting.process_exit import (
    STOPPED,
    StartError,
    exit_process,
    run_until_stopped,
    start_error,
)
from holdfast.hosting.resources import (
    WorkerResources,
    load_resources,
    permit_warnings,
    summarize_resources,
)
from holdfast.hosting.sdk_workarounds.activity_definitions import with_raw_arguments
from holdfast.hosting.sdk_workarounds.workflow_runner import runner_for_worker
from holdfast.hosting.temporal import connect, usable_search_attributes
from holdfast.hosting.worker_telemetry import core_metrics, log_to_stderr, open_telemetry
from holdfast.runtime.connection_errors import read_settings
from holdfast.runtime.secrets import Secrets, environment_secrets
from holdfast.runtime.storage.locations import open_store_at
from holdfast.runtime.storage.store import payload_writer
from holdfast.schemas import names
from holdfast.schemas.agent import WorkerFacts
from holdfast.schemas.internal.model_request import HAND_OVER
from holdfast.validation.problems import FixableError
from holdfast.workflows.agent import AgentWorkflow
from holdfast.workflows.call import CallWorkflow
from holdfast.workflows.commands.interceptors import CommandInterceptor
from holdfast.workflows.memory import MemoryWorkflow, MovingMemoryWorkflow
from holdfast.workflows.permits import PERMIT_KEYS

# The heartbeat of a model's activity holds its text so far, so it must not be throttled for long.
HEARTBEAT_INTERVAL = timedelta(milliseconds=200)
# The delay after a crash before other workers receive its runs. A run whose busy worker exceeds the
# delay is replayed.
STICKY_TIMEOUT = timedelta(seconds=1)
MAX_ACTIVITIES = 100

logger = logging.getLogger("holdfast")


class WorkerGroup:
    """A main worker, other workers beside it, and a context around all of them.

    `around` is entered before the first worker starts, and left after the last has stopped: their
    activities can use it until they end. `outlived` are activities of the main worker.
    """

    def __init__(
        self,
        main: Worker,
        others: Sequence[Worker],
        around: AbstractAsyncContextManager[Any],
        outlived: OutlivedAttempts,
    ) -> None:
        self.main, self.others, self.outlived = main, others, outlived
        self._workers = [main, *others]
        self._around = around
        self._stack = AsyncExitStack()

    @property
    def is_running(self) -> bool:
        """Return whether every worker accepts work."""
        return all(worker.is_running for worker in self._workers)

    async def __aenter__(self) -> Self:
        """Start every worker."""
        async with AsyncExitStack() as starting:
            await starting.enter_async_context(self._around)
            for worker in self._workers:
                await starting.enter_async_context(worker)
            self._stack = starting.pop_all()
        return self

    async def __aexit__(self, *error: Any) -> None:
        """Stop the workers together: their activities have the same time to finish."""
        await asyncio.gather(*(worker.shutdown() for worker in self._workers))
        await self._stack.__aexit__(*error)


async def build_worker(
    client: Client, settings: WorkerSettings, resources: WorkerResources | None = None
) -> WorkerGroup:
    """Build a worker that is ready to run, with one worker for the requests to each endpoint.

    The client has the data converter of `hosting.temporal`. The resources are those of the
    settings, if they were loaded before.

    Raises:
        StartError: something that the settings name does not load.
    """
    resources = resources or load_resources(settings)
    resources.secrets.learn([client.service_client.config.api_key or ""])
    facts = await _worker_facts(client, settings, resources)
    prefetch = PagePrefetch(ConversationCache())
    outlived = OutlivedAttempts(MAX_ACTIVITIES)
    if resources.telemetry is not None:
        resources.telemetry.metrics.observe_outlived(lambda: len(outlived))
    generate = GenerateActivity(
        resources.models,
        RunQueries(client),
        prefetch,
        settings.generate_timeout,
        resources.secrets,
        resources.telemetry,
    )
    build = partial(
        Worker,
        client,
        interceptors=_interceptors(client, settings, resources, prefetch, outlived),
        max_concurrent_activities=MAX_ACTIVITIES,
        max_heartbeat_throttle_interval=HEARTBEAT_INTERVAL,
        default_heartbeat_throttle_interval=HEARTBEAT_INTERVAL,
        graceful_shutdown_timeout=settings.graceful_timeout,
        deployment_config=deployment.deployment_config(settings.version),
    )
    # For all activities and local activities that run at once, and for reloading the catalog.
    threads = ThreadPoolExecutor(max_workers=2 * MAX_ACTIVITIES + 1, thread_name_prefix="activity")
    runner, attach_runner = runner_for_worker()
    modules = resources.current_catalog.catalog.python_activities
    # A memory outlives every build, so its workflow moves to the current one.
    memory = MemoryWorkflow if settings.version is None else MovingMemoryWorkflow
    main = build(
        task_queue=settings.task_queue,
        workflows=[AgentWorkflow, CallWorkflow, memory],
        activities=[
            *(generate.generate, *_worker_activities(client, resources, facts)),
            *(with_raw_arguments(each.run) for each in modules),
        ],
        activity_executor=threads,
        workflow_runner=runner,
        max_cached_workflows=settings.cached_runs,
        max_concurrent_local_activities=MAX_ACTIVITIES,
        sticky_queue_schedule_to_start_timeout=STICKY_TIMEOUT,
    )
    attach_runner(main)
    # The requests to each endpoint, with a rate that all workers share. An endpoint without a limit
    # has a worker too, since it may have had a limit before: the runs that started then continue on
    # its task queue.
    endpoint_workers = [
        build(
            task_queue=names.request_queue(settings.task_queue, endpoint),
            activities=[generate.generate],
            max_task_queue_activities_per_second=None if limit is None else limit / 60,
        )
        for endpoint, limit in resources.models.request_limits().items()
    ]
    return WorkerGroup(main, endpoint_workers, _around(resources, threads, settings), outlived)


async def _worker_facts(
    client: Client, settings: WorkerSettings, resources: WorkerResources
) -> WorkerFacts:
    """Return what runs need to know of the worker that resolves their definitions."""
    return WorkerFacts(
        search_attributes=await usable_search_attributes(client),
        notify=settings.notify,
        notifiers=resources.channels.listeners(),
        generate_timeout=settings.generate_timeout,
        heartbeat_timeout=settings.heartbeat_timeout,
        continue_after=settings.continue_after,
        store=payload_writer(client.data_converter) is not None,
        principal_tokens=settings.principal_tokens,
        catalog_only=settings.catalog_only,
        rules_version=names.RULES_VERSION,
        request_queues={
            name: names.request_queue(settings.task_queue, name)
            for name, limit in resources.models.request_limits().items()
            if limit is not None
        },
    )


def _interceptors(
    client: Client,
    settings: WorkerSettings,
    resources: WorkerResources,
    prefetch: PagePrefetch,
    outlived: OutlivedAttempts,
) -> list[Interceptor]:
    """Return the interceptors, the outermost first: heartbeats go on while a result is stored."""
    keys, tools = resources.permit_keys, resources.current_catalog.catalog.python_activities
    # `generate` sends heartbeats of its own.
    own = [name for name in names.RESERVED_ACTIVITIES if name != names.GENERATE]
    in_process = frozenset([*own, *(each.name for each in tools)])
    exempt = frozenset([*names.RESERVED_ACTIVITIES, settings.notify or ""])
    writer = payload_writer(client.data_converter)
    externs: dict[str, Callable[..., Any]] = {HAND_OVER: prefetch.store, PERMIT_KEYS: lambda: keys}
    return [
        ActivityInterceptors(
            partial(AttemptSpans, telemetry=resources.telemetry),
            partial(PermitCheck, keys=keys, client=client, exempt=exempt),
            partial(AutoHeartbeat, activity_types=in_process, outlived=outlived),
            partial(CheckedResults, store=writer, secrets=resources.secrets, permit_keys=keys),
            OnceCheck,
        ),
        *([] if keys is None else [OwnRunsInterceptor(client)]),
        CommandInterceptor(in_process, settings.heartbeat_timeout, externs),
    ]


def _worker_activities(
    client: Client, resources: WorkerResources, facts: WorkerFacts
) -> list[Callable[..., Any]]:
    telemetry = resources.telemetry
    tracing = None if telemetry is None else partial(current_tracing, telemetry)
    resolver = DefinitionResolver(resources.current_catalog, facts, tracing)
    memories = MemoryActivities(client, RunQueries(client))
    world = resources.current_catalog.catalog.definitions
    knowledge = FetchKnowledgeActivity(resources.knowledge_http, world.folder, world.knowledge_urls)
    return [
        knowledge.fetch_knowledge,
        CheckTokenActivity(resources.key_sets).check_token,
        resources.channels.tell_people,
        SpanRecorder(telemetry, resources.models).record_spans,
        *(resolver.resolve_agent, resolver.resolve_tool),
        *(memories.memory_read, memories.memory_search, memories.memory_write),
    ]


@asynccontextmanager
async def _around(
    resources: WorkerResources, threads: ThreadPoolExecutor, settings: WorkerSettings
) -> AsyncIterator[None]:
    """Reload the catalog while the worker runs, and close the worker's resources after it."""
    reloading = asyncio.create_task(resources.reloader.run(threads, settings.between_looks))
    try:
        yield
    finally:
        reloading.cancel()
        await asyncio.gather(reloading, return_exceptions=True)
        await resources.http.aclose()
        await resources.knowledge_http.aclose()
        threads.shutdown(wait=False)


async def serve_worker(settings: WorkerSettings, dev: DevServer | None, secrets: Secrets) -> None:
    """Run a worker, and the embedded server if requested, until the task is cancelled.

    Raises:
        StartError, FixableError: the worker cannot start.
    """
    resources = load_resources(settings, secrets)
    warnings = [*resources.models.warnings(), *resources.channels.warnings()]
    for warning in [*warnings, *permit_warnings(settings, resources)]:
        logger.warning("%s", warning)
    async with AsyncExitStack() as stack:
        resources = await stack.enter_async_context(open_telemetry(resources))
        health = WorkerHealth()
        if settings.health is not None:
            await stack.enter_async_context(serve_probes(settings.health, health))
        where = read_settings(partial(logger.warning, "%s"))
        if dev is not None:
            dev = replace(dev, namespace=where.get("namespace", "default"))
            where = {"target_host": await stack.enter_async_context(run_dev_server(dev))}
            where["namespace"] = dev.namespace
        store = None
        if settings.store is not None:
            store = await stack.enter_async_context(open_store_at(settings.store, writing=True))
        client = await connect(where, store, resources.key_ring, core_metrics(resources))
        worker = await stack.enter_async_context(await build_worker(client, settings, resources))
        while not worker.is_running:
            await asyncio.sleep(0.01)
        summary = f"task queue {settings.task_queue}, {summarize_resources(resources)}"
        print(f"holdfast worker ready: {summary}", flush=True)
        health.started(lambda: worker.is_running, client, worker.outlived)
        stack.callback(health.stopping)
        if settings.version and (todo := await deployment.routing_advice(client, settings.version)):
            logger.info("%s", todo)
        await asyncio.Event().wait()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command `holdfast worker` and return its exit code."""
    secrets = Secrets(environment_secrets(os.environ))
    try:
        settings, dev, how = read_options(sys.argv[1:] if arguments is None else arguments)
        if how is not None:
            return check(settings, how, secrets)
        log_to_stderr(secrets.clean_for_operator)
        work = serve_worker(settings, dev, secrets)
        asyncio.run(run_until_stopped(work, settings.graceful_timeout, terminate_dev_servers))
    except (StartError, FixableError) as error:
        problem = start_error(error)
        print(secrets.clean_for_operator("\n".join(problem.lines)), file=sys.stderr)
        return problem.code
    return STOPPED


if __name__ == "__main__":
    exit_process(main())
