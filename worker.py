"""The worker: settings, registration, and a stop that loses nothing.

It runs `AgentWorkflow`, asks models, and carries out the tools of its own Python modules. Other
workers, in any language, may carry out others.
"""

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import NoReturn

import httpx
from temporalio.client import Client
from temporalio.plugin import SimplePlugin
from temporalio.worker import Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from activities.catalog.faults import nearest
from activities.catalog.loading import Catalog, CatalogError, load_catalog
from activities.conversation import Conversations
from activities.endpoints import EndpointsError, Models, http_client, load_models
from activities.generate import Generate
from activities.interceptor import SizeInterceptor
from activities.querying import QueriedPages
from activities.resolve import AgentResolver
from hosting.dev_server import DevServer, abandon, serving
from hosting.errors import STOPPED, StartError, wrong_setup
from hosting.logs import log_to_stderr
from hosting.stopping import leave, until_stopped
from hosting.temporal import connect, connect_settings, usable_search_attributes
from schemas import names
from schemas.agent import WorkerFacts
from schemas.base import format_duration, parse_duration
from workflows.agent import AgentWorkflow

# What a model has said so far is in its activity's heartbeat: it must not be held back for long.
HEARTBEAT_INTERVAL = timedelta(milliseconds=200)
# After a crash, other workers get its runs this much later.
STICKY_TIMEOUT = timedelta(seconds=2)
MAX_ACTIVITIES = 100

logger = logging.getLogger("holdfast")

# Pure, or only ever used so: these are not read again for each run. `workflows` stays inside the
# sandbox, with the engine in it: an impure line there is refused.
_PASSED_THROUGH = (
    "schemas",
    "activities",
    "jsonschema",
    "jsonschema_specifications",
    "referencing",
    "rpds",
    "attr",
    "attrs",
)


@dataclass(frozen=True)
class Settings:
    """How a worker is to be. `graceful_timeout` is how long activities may go on once it stops."""

    catalog: Path | None = None
    tools: Sequence[str] = ()
    endpoints: Path | None = None
    task_queue: str = names.TASK_QUEUE
    notify: str | None = None
    heartbeat_timeout: timedelta = timedelta(seconds=5)
    generate_timeout: timedelta = timedelta(hours=1)
    graceful_timeout: timedelta = timedelta(seconds=10)
    max_cached_workflows: int = 1000


@dataclass(frozen=True)
class House:
    """What a worker works with, read and checked: its catalog and its models."""

    catalog: Catalog
    models: Models
    http: httpx.AsyncClient


def load(settings: Settings) -> House:
    """Read and check everything that the settings name.

    Raises:
        StartError: something does not load; with every problem, by file and line.
    """
    http = http_client()
    models, problems = _models(settings, http)
    try:
        catalog = load_catalog(
            settings.catalog,
            settings.tools,
            endpoints=None if models is None else models.names,
            task_queue=settings.task_queue,
        )
    except CatalogError as error:
        raise StartError([*problems, *map(str, error.problems)]) from None
    if models is None:
        raise StartError(problems)
    if settings.notify is not None and settings.notify not in catalog.world.activities:
        todo = nearest(settings.notify, catalog.world.activities, "`--tools` gives it some")
        raise wrong_setup(f"`--notify`: this worker has no activity `{settings.notify}`", todo)
    return House(catalog, models, http)


def _models(settings: Settings, http: httpx.AsyncClient) -> tuple[Models | None, list[str]]:
    try:
        return load_models(settings.endpoints, os.environ, http), []
    except EndpointsError as error:
        return None, [str(problem) for problem in error.problems]


async def build_worker(client: Client, settings: Settings, house: House | None = None) -> Worker:
    """A worker that is ready to run.

    Args:
        client: its data converter is to be Temporal's for pydantic.
        settings: how the worker is to be.
        house: what `load` made of the settings, if that was done already.

    Raises:
        StartError: something that the settings name does not load.
    """
    house = house or load(settings)
    facts = WorkerFacts(
        search_attributes=await usable_search_attributes(client),
        notify=settings.notify,
        generate_timeout=settings.generate_timeout,
        heartbeat_timeout=settings.heartbeat_timeout,
    )
    generate = Generate(house.models, QueriedPages(client), Conversations())
    resolver = AgentResolver(house.catalog, facts)
    # Room for as many activities and local activities at once as the worker takes.
    threads = ThreadPoolExecutor(max_workers=2 * MAX_ACTIVITIES, thread_name_prefix="activity")
    return Worker(
        client,
        task_queue=settings.task_queue,
        workflows=[AgentWorkflow],
        activities=[generate.generate, resolver.resolve_agent, *house.catalog.activities],
        activity_executor=threads,
        workflow_runner=sandbox(),
        interceptors=[SizeInterceptor()],
        plugins=[SimplePlugin("holdfast", run_context=lambda: _closing(house.http, threads))],
        max_cached_workflows=settings.max_cached_workflows,
        max_concurrent_activities=MAX_ACTIVITIES,
        max_concurrent_local_activities=MAX_ACTIVITIES,
        max_heartbeat_throttle_interval=HEARTBEAT_INTERVAL,
        default_heartbeat_throttle_interval=HEARTBEAT_INTERVAL,
        sticky_queue_schedule_to_start_timeout=STICKY_TIMEOUT,
        graceful_shutdown_timeout=settings.graceful_timeout,
    )


def sandbox() -> SandboxedWorkflowRunner:
    """Where workflows run: they are read anew for each run, what they only use is not."""
    restrictions = SandboxRestrictions.default.with_passthrough_modules(*_PASSED_THROUGH)
    return SandboxedWorkflowRunner(restrictions=restrictions)


@asynccontextmanager
async def _closing(http: httpx.AsyncClient, threads: ThreadPoolExecutor) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await http.aclose()
        threads.shutdown(wait=False)


# The command.


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line."""

    def error(self, message: str) -> NoReturn:
        raise wrong_setup(message, "see `python worker.py --help`")


# What can stand in the environment as well, as HOLDFAST_CATALOG, HOLDFAST_TASK_QUEUE, …
_VARIABLES = (
    *("catalog", "endpoints", "task-queue", "notify"),
    *("heartbeat-timeout", "generate-timeout", "graceful-timeout"),
)


def _parser() -> _Parser:
    parser = _Parser(
        prog="worker.py",
        argument_default=argparse.SUPPRESS,
        description="Runs agents on Temporal. Where that is, is read from TEMPORAL_ADDRESS, "
        "TEMPORAL_NAMESPACE, … and temporal.toml. Options can stand in the environment, too: "
        "HOLDFAST_CATALOG, HOLDFAST_TASK_QUEUE, …",
    )
    add = parser.add_argument
    add("--catalog", metavar="DIR", type=Path, help="a folder with tools/ and agents/")
    add("--tools", metavar="MODULE", action="append", help="a Python module of tools; repeatable")
    add("--endpoints", metavar="FILE", type=Path, help="where models are asked (endpoints.yaml)")
    add("--task-queue", metavar="NAME", help=f"default: {names.TASK_QUEUE}")
    add("--notify", metavar="ACTIVITY", help="tells people of a waiting call")
    for name in ("heartbeat", "generate", "graceful"):
        default = format_duration(getattr(Settings, f"{name}_timeout"))
        add(f"--{name}-timeout", metavar="TIME", type=_duration, help=f"default: {default}")
    _add_dev_server(parser)
    return parser


def _add_dev_server(parser: _Parser) -> None:
    add = parser.add_argument_group("an embedded server").add_argument
    add("--dev", action="store_true", help="start Temporal and its UI beside the worker")
    add("--dev-db", dest="db", metavar="FILE", type=Path, help=f"default: {DevServer.db}")
    add("--dev-port", dest="port", metavar="N", type=_port, help=f"default: {DevServer.port}")
    add(
        "--dev-ui-port",
        dest="ui_port",
        metavar="N",
        type=_port,
        help=f"default: {DevServer.ui_port}",
    )


def _duration(text: str) -> timedelta:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _port(text: str) -> int:
    if text.isdecimal() and int(text) < 65536:
        return int(text)
    raise argparse.ArgumentTypeError("a port is a number up to 65535; 0 is any free one")


def options(arguments: Sequence[str]) -> tuple[Settings, DevServer | None]:
    """The settings that the command line and the environment ask for, and the embedded server.

    Raises:
        StartError: an option is wrong.
    """
    variables = {name: f"HOLDFAST_{name.upper().replace('-', '_')}" for name in _VARIABLES}
    environment = [
        f"--{name}={os.environ[variable]}"
        for name, variable in variables.items()
        if os.environ.get(variable)
    ]
    given = vars(_parser().parse_args([*environment, *arguments]))
    dev = {name: given.pop(name) for name in ("db", "port", "ui_port") if name in given}
    server = DevServer(**dev) if given.pop("dev", False) else None
    return Settings(**given), server


async def serve(settings: Settings, dev: DevServer | None) -> None:
    """Run a worker, and the embedded server if one is wanted, until the task is cancelled.

    Raises:
        StartError: the worker cannot start.
    """
    house = load(settings)
    for warning in house.models.warnings():
        logger.warning("%s", warning)
    async with AsyncExitStack() as stack:
        where = connect_settings()
        if dev is not None:
            dev = replace(dev, namespace=where.get("namespace", "default"))
            where = {"target_host": await stack.enter_async_context(serving(dev))}
            where["namespace"] = dev.namespace
        client = await connect(where)
        worker = await stack.enter_async_context(await build_worker(client, settings, house))
        while not worker.is_running:
            await asyncio.sleep(0.01)
        print(_ready(settings, house), flush=True)
        await asyncio.Event().wait()


def _ready(settings: Settings, house: House) -> str:
    tools, agents = len(house.catalog.world.tools), len(house.catalog.agents)
    return (
        f"holdfast worker ready: task queue {settings.task_queue}, "
        f"{tools} tool{'' if tools == 1 else 's'}, {agents} agent{'' if agents == 1 else 's'}, "
        f"endpoints {', '.join(house.models.names) or 'none'}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The command `python worker.py`; its exit code says whether setup or Temporal is at fault."""
    log_to_stderr()
    try:
        settings, dev = options(sys.argv[1:] if arguments is None else arguments)
        asyncio.run(until_stopped(serve(settings, dev), settings.graceful_timeout, abandon))
    except StartError as error:
        print("\n".join(error.lines), file=sys.stderr)
        return error.code
    return STOPPED


if __name__ == "__main__":
    leave(main())
