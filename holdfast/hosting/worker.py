"""Build and run a worker.

A worker runs `AgentWorkflow`, `CallWorkflow` and `MemoryWorkflow`, makes requests to models, and
runs the tools of its own Python modules. External workers, in any language, may run other tools.

If its options name a deployment and a build, Temporal keeps a run on its build. A run moves to the
build that is current, or that the deployment is ramping up, where it continues as new: see
`workflows.agent`. New runs start on these builds, too: a worker of another build receives none.
"""

import asyncio
import gc
import logging
import os
import shlex
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import replace
from functools import partial

from temporalio.api.workflowservice.v1 import DescribeWorkerDeploymentRequest
from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.envconfig import ClientConnectConfig
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Worker, WorkerDeploymentConfig

from holdfast.hosting import process_exit
from holdfast.hosting.check import check
from holdfast.hosting.dev_server import DevServer, run_dev_server, terminate_dev_servers
from holdfast.hosting.monitoring.probes import WorkerHealth, serve_probes
from holdfast.hosting.monitoring.worker_telemetry import core_metrics, log_to_stderr, with_telemetry
from holdfast.hosting.options import (
    WorkerSettings as WorkerSettings,  # for callers of `build_worker`
)
from holdfast.hosting.options import read_options
from holdfast.hosting.plugin import HoldfastPlugin, worker_parts
from holdfast.hosting.resources import WorkerResources, load_resources
from holdfast.hosting.supervisor import Supervisor, SupervisorLink
from holdfast.hosting.temporal import connect
from holdfast.hosting.worker_parts import MAX_ACTIVITIES
from holdfast.runtime.connection_errors import read_settings
from holdfast.runtime.secrets import Secrets, environment_secrets
from holdfast.schemas import names
from holdfast.validation.problems import FixableError

# A collection looks at objects that live as long as the process, again and again: with Python's own
# thresholds (700, 10, 10) that is half a millisecond of CPU a turn, and a fifth with these.
GC_THRESHOLDS = (10_000, 10, 10)

logger = logging.getLogger("holdfast")


def build_worker(
    client: Client, settings: WorkerSettings, resources: WorkerResources | None = None
) -> Worker:
    """Build a worker for a client, which may have the plugin already.

    The resources are those of the settings, if they were loaded before.

    Raises:
        StartError: something that the settings name does not load.
    """
    has_plugin = any(isinstance(each, HoldfastPlugin) for each in client.config()["plugins"])
    deployment = None
    if (version := settings.version) is not None:
        pinned = VersioningBehavior.PINNED
        deployment = WorkerDeploymentConfig(
            version=version, use_worker_versioning=True, default_versioning_behavior=pinned
        )
    return Worker(
        client,
        task_queue=settings.task_queue,
        plugins=() if has_plugin else [HoldfastPlugin.of(settings, resources)],
        max_cached_workflows=settings.cached_runs,
        max_concurrent_activities=MAX_ACTIVITIES,
        max_concurrent_local_activities=MAX_ACTIVITIES,
        max_heartbeat_throttle_interval=settings.tool_heartbeat / names.BEATS_PER_TIMEOUT,
        graceful_shutdown_timeout=settings.graceful_timeout,
        sticky_queue_schedule_to_start_timeout=settings.sticky_timeout,
        deployment_config=deployment,
    )


async def serve_worker(
    settings: WorkerSettings,
    dev: DevServer | None,
    secrets: Secrets,
    supervisor: Supervisor | None = None,
    link: SupervisorLink | None = None,
) -> None:
    """Run a worker, and the embedded server if requested, until the task is cancelled.

    A `supervisor` runs processes with workers instead; in each of these, `link` leads to it.

    Raises:
        StartError, FixableError: the worker cannot start.
    """
    # A supervisor has logged the warnings of a start.
    warn = partial(logger.log, logging.WARNING if link is None else logging.DEBUG, "%s")
    resources = load_resources(settings, secrets)
    warnings = [*resources.models.warnings(), *resources.channels.warnings()]
    for warning in [*warnings, *resources.trust_warnings(settings)]:
        warn(warning)
    async with AsyncExitStack() as stack:
        if supervisor is None:
            resources = with_telemetry(resources)
        if resources.telemetry is not None:  # closed here if no worker starts
            stack.push_async_callback(asyncio.to_thread, resources.telemetry.close)
        health = WorkerHealth()
        if link is not None:
            await link.open(health)
        elif settings.health is not None:
            await stack.enter_async_context(serve_probes(settings.health, supervisor or health))
        where = await stack.enter_async_context(_server(dev, link, warn))
        plugins = [*resources.plugins, HoldfastPlugin.of(settings, resources)]
        client = await connect(where, plugins, core_metrics(resources))
        if supervisor is None:
            await stack.enter_async_context(running_worker(client, settings, health))
        else:
            await stack.enter_async_context(supervisor.running(where["target_host"]))
        if link is not None:
            link.report_ready()
        else:
            several = f", {settings.processes} processes" if supervisor else ""
            summary = f"task queue {settings.task_queue}, {resources.summary()}{several}"
            print(f"holdfast worker ready: {summary}", flush=True)
            if settings.version and (todo := await routing_advice(client, settings.version)):
                logger.info("%s", todo)
        await asyncio.Event().wait()


@asynccontextmanager
async def _server(
    dev: DevServer | None, link: SupervisorLink | None, warn: Callable[[object], None]
) -> AsyncIterator[ClientConnectConfig]:
    """Yield the settings of the connection to Temporal; the embedded server runs meanwhile."""
    where = read_settings(warn)
    if dev is None:
        yield where
        return
    dev = replace(dev, namespace=where.get("namespace", "default"))
    async with run_dev_server(dev) if link is None else nullcontext(link.address) as address:
        yield {"target_host": address, "namespace": dev.namespace}


@asynccontextmanager
async def running_worker(
    client: Client, settings: WorkerSettings, health: WorkerHealth
) -> AsyncIterator[None]:
    """Run a worker that polls for tasks while the context is open.

    The process is the worker's own: its garbage collector is set, too.
    """
    async with build_worker(client, settings) as worker:
        parts = worker_parts(worker)
        while not (worker.is_running and parts.is_running):
            await asyncio.sleep(0.01)
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        health.started(lambda: worker.is_running and parts.is_running, client, parts.outlived)
        try:
            yield
        finally:
            health.stopping()


async def routing_advice(client: Client, version: WorkerDeploymentVersion) -> str | None:
    """Return the command that routes new runs to this build, or None if it is not needed."""
    request = DescribeWorkerDeploymentRequest(
        namespace=client.namespace, deployment_name=version.deployment_name
    )
    try:
        answer = await client.workflow_service.describe_worker_deployment(request, retry=True)
        routing = answer.worker_deployment_info.routing_config
    except RPCError as error:
        if error.status != RPCStatusCode.NOT_FOUND:
            return None
        builds = []
    else:
        both = (routing.current_deployment_version, routing.ramping_deployment_version)
        builds = [each.build_id for each in both]
    if version.build_id in builds:
        return None
    name, build = version.deployment_name, version.build_id
    named = ("--deployment-name", name, "--build-id", build)
    return (
        f"build {build} of deployment {name} is not current: it receives no new runs;"
        " to make it current: temporal worker deployment set-current-version"
        f" {shlex.join(named)}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command `holdfast worker` and return its exit code."""
    link = SupervisorLink.of_this_process()
    secrets = Secrets(environment_secrets(os.environ))
    words = sys.argv[1:] if arguments is None else arguments
    try:
        settings, dev, how = read_options(words)
        settings.version  # noqa: B018  # raises; other commands than a worker need no build
        if how is not None:
            return check(settings, how, secrets)
        log_to_stderr(secrets.clean_for_operator)
        supervisor = Supervisor(words, settings.processes) if settings.processes > 1 else None
        work = serve_worker(settings, dev, secrets, supervisor, link)
        abandon = terminate_dev_servers if supervisor is None else supervisor.abandon
        stopped = process_exit.run_until_stopped(
            work, settings.graceful_timeout, abandon, is_supervised=link is not None
        )
        asyncio.run(stopped)
    except (process_exit.StartError, FixableError) as error:
        text = f"holdfast: {error}" if isinstance(error, FixableError) else str(error)
        process_exit.print_error(secrets.clean_for_operator(text))
        return process_exit.exit_code(error)
    return process_exit.STOPPED if supervisor is None else supervisor.exit_code


if __name__ == "__main__":
    process_exit.exit_process(main())
