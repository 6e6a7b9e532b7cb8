"""The worker: settings, registration, and a stop that loses nothing.

It runs `AgentWorkflow`, `CallWorkflow` and `MemoryWorkflow`, asks models, and carries out the tools
of its own Python modules. Other workers, in any language, may carry out others.
"""

import asyncio
import json
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Any

import httpx
from temporalio.client import Client
from temporalio.worker import Interceptor, Worker

from activities.addresses import AddressError, Prefix
from activities.catalog.faults import Problem
from activities.catalog.files import folder_signature
from activities.catalog.importing import stuck
from activities.catalog.loading import CatalogError, Shelf, load_catalog
from activities.catalog.reloading import Reloading
from activities.conversation import Conversations
from activities.endpoints import EndpointsError, Models, http_client, load_models
from activities.generate import Generate
from activities.handing import Handing, HandingInterceptor
from activities.interceptor import SizeInterceptor
from activities.knowledge import FetchKnowledge
from activities.memory import Memories
from activities.providers.ollama.host import with_local_ollama
from activities.pulse import PulseInterceptor
from activities.querying import QueriedPages, Queries
from activities.resolve import AgentResolver
from hosting.dev_server import DevServer, abandon, serving
from hosting.errors import STOPPED, WRONG_SETUP, StartError
from hosting.guard import Answer, guarded
from hosting.logs import log_to_stderr
from hosting.options import Check, options
from hosting.options import Settings as Settings  # whoever builds a worker begins with these
from hosting.sandbox import sandbox
from hosting.stopping import leave, until_stopped
from hosting.temporal import connect, connect_settings, open_store, usable_search_attributes
from hosting.workers import Workers
from schemas import names
from schemas.agent import WorkerFacts
from schemas.faults import Fault, nearest
from storage.places import try_out
from storage.store import StoreError, keeper
from workflows.agent import AgentWorkflow
from workflows.call import CallWorkflow
from workflows.composed import schema_of_answers
from workflows.memory import MemoryWorkflow
from workflows.metadata import DetailsInterceptor
from workflows.watched import WatchInterceptor

# What a model has said so far is in its activity's heartbeat: it must not be held back for long.
HEARTBEAT_INTERVAL = timedelta(milliseconds=200)
# After a crash, other workers get its runs this much later. A run that has waited for so long only
# because its worker has much to do is read anew from its history, wherever it goes on.
STICKY_TIMEOUT = timedelta(seconds=1)
MAX_ACTIVITIES = 100

logger = logging.getLogger("holdfast")


@dataclass(frozen=True)
class House:
    """What a worker works with, read and checked: its catalog, kept current, and its models."""

    shelf: Shelf
    models: Models
    http: httpx.AsyncClient
    reloading: Reloading


class LoadError(StartError):
    """Something that the settings name does not load; with every problem, by file and line."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__([str(problem) for problem in problems])
        self.problems = list(problems)


def load(settings: Settings) -> House:
    """Read and check everything that the settings name.

    Raises:
        LoadError: something does not load.
    """
    http = http_client()
    models, problems = _models(settings, http)
    prefixes = _prefixes(settings)
    # In full: a module, or a tool at work, may go to another folder.
    folder = None if settings.catalog is None else settings.catalog.absolute()
    endpoints = () if settings.endpoints is None else (str(settings.endpoints.absolute()),)
    before = folder_signature(folder)
    try:
        catalog = load_catalog(
            settings.catalog,
            settings.tools,
            endpoints=None if models is None else models.names,
            task_queue=settings.task_queue,
            knowledge_urls=prefixes,
        )
    except CatalogError as error:
        raise LoadError([*problems, *error.problems]) from None
    if models is None:
        raise LoadError(problems)
    if settings.notify is not None and settings.notify not in catalog.world.activities:
        todo = nearest(settings.notify, catalog.world.activities, "`--tools` gives it some")
        reason = f"this worker has no activity `{settings.notify}`"
        raise LoadError([Problem("--notify", None, reason, todo)])
    shelf = Shelf(catalog)
    modules = sorted({each.source.file for each in catalog.imported})
    reloading = Reloading(shelf, folder, before, once=(*modules, *endpoints))
    return House(shelf, models, http, reloading)


def _prefixes(settings: Settings) -> list[Prefix]:
    """The addresses that knowledge may be fetched from."""
    try:
        return [Prefix.read(text) for text in settings.knowledge_urls]
    except AddressError as error:
        raise LoadError([Problem("--knowledge-url", None, error.reason, error.mend)]) from None


def _models(settings: Settings, http: httpx.AsyncClient) -> tuple[Models | None, list[Problem]]:
    environ = os.environ if settings.endpoints else with_local_ollama(os.environ)
    try:
        return load_models(settings.endpoints, environ, http), []
    except EndpointsError as error:
        return None, error.problems


async def build_worker(client: Client, settings: Settings, house: House | None = None) -> Workers:
    """A worker that is ready to run, with those that make the requests to its endpoints.

    Args:
        client: its data converter is to be that of `hosting.temporal`.
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
        continue_after=settings.continue_after,
        store=keeper(client.data_converter) is not None,
        request_queues={
            name: names.request_queue(settings.task_queue, name)
            for name, limit in house.models.limits().items()
            if limit is not None
        },
    )
    handing = Handing(Conversations())
    pages = QueriedPages(Queries(client))
    generate = Generate(
        house.models, pages, handing.conversations, handing, settings.generate_timeout
    )
    # Room for as many activities and local activities at once as the worker takes, and for looking
    # at the catalog.
    threads = ThreadPoolExecutor(max_workers=2 * MAX_ACTIVITIES + 1, thread_name_prefix="activity")
    main = Worker(
        client,
        task_queue=settings.task_queue,
        workflows=[AgentWorkflow, CallWorkflow, MemoryWorkflow],
        activities=[
            *(generate.generate, *_own_activities(client, house, facts)),
            *house.shelf.catalog.activities,
        ],
        activity_executor=threads,
        workflow_runner=sandbox(),
        interceptors=_interceptors(client, house, handing, settings),
        max_cached_workflows=settings.max_cached_workflows,
        max_concurrent_activities=MAX_ACTIVITIES,
        max_concurrent_local_activities=MAX_ACTIVITIES,
        max_heartbeat_throttle_interval=HEARTBEAT_INTERVAL,
        default_heartbeat_throttle_interval=HEARTBEAT_INTERVAL,
        sticky_queue_schedule_to_start_timeout=STICKY_TIMEOUT,
        graceful_shutdown_timeout=settings.graceful_timeout,
    )
    asking = [
        _asking(client, settings, generate, name, limit)
        for name, limit in house.models.limits().items()
    ]
    return Workers(main, asking, _living(house, threads, settings))


def _asking(
    client: Client, settings: Settings, generate: Generate, endpoint: str, limit: int | None
) -> Worker:
    """What makes the requests to an endpoint that takes so many a minute, of all workers together.

    One without a limit may have had it: the runs that began then go on where they are.
    """
    return Worker(
        client,
        task_queue=names.request_queue(settings.task_queue, endpoint),
        activities=[generate.generate],
        interceptors=[SizeInterceptor(keeper(client.data_converter))],
        max_task_queue_activities_per_second=None if limit is None else limit / 60,
        max_concurrent_activities=MAX_ACTIVITIES,
        max_heartbeat_throttle_interval=HEARTBEAT_INTERVAL,
        default_heartbeat_throttle_interval=HEARTBEAT_INTERVAL,
        graceful_shutdown_timeout=settings.graceful_timeout,
    )


def _interceptors(
    client: Client, house: House, handing: Handing, settings: Settings
) -> list[Interceptor]:
    """What stands around workflows and activities, the outermost first: an activity is alive while
    its result is kept, too. `generate` sends heartbeats of its own.
    """
    own = [name for name in names.RESERVED_ACTIVITIES if name != names.GENERATE]
    carried = frozenset([*own, *(each.name for each in house.shelf.catalog.imported)])
    watch = WatchInterceptor(carried, settings.heartbeat_timeout)
    size = SizeInterceptor(keeper(client.data_converter))
    handed = HandingInterceptor(handing)
    return [PulseInterceptor(carried), size, watch, handed, DetailsInterceptor()]


def _own_activities(client: Client, house: House, facts: WorkerFacts) -> list[Callable[..., Any]]:
    """What the worker itself does for runs, beside asking models and the tools of its catalog."""
    resolver = AgentResolver(house.shelf, facts)
    memories = Memories(client, Queries(client))
    world = house.shelf.catalog.world
    knowledge = FetchKnowledge(house.http, world.folder, world.knowledge_urls)
    return [
        knowledge.fetch_knowledge,
        *(resolver.resolve_agent, resolver.resolve_tool),
        *(memories.memory_read, memories.memory_search, memories.memory_write),
    ]


@asynccontextmanager
async def _living(
    house: House, threads: ThreadPoolExecutor, settings: Settings
) -> AsyncIterator[None]:
    """What goes on beside the worker for as long as it runs, and is closed after it."""
    looking = asyncio.create_task(house.reloading.go_on(threads, settings.between_looks))
    try:
        yield
    finally:
        looking.cancel()
        await asyncio.wait([looking])
        await house.http.aclose()
        threads.shutdown(wait=False)


# The command.


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
        client = await connect(where, await open_store(settings.store, stack))
        worker = await stack.enter_async_context(await build_worker(client, settings, house))
        while not worker.is_running:
            await asyncio.sleep(0.01)
        ready = f"holdfast worker ready: task queue {settings.task_queue}, {_holdings(house)}"
        print(ready, flush=True)
        await asyncio.Event().wait()


def _holdings(house: House) -> str:
    catalog = house.shelf.catalog
    tools, agents = len(catalog.world.tools), len(catalog.agents)
    endpoints = [
        name if limit is None else f"{name} ({limit} a minute)"
        for name, limit in house.models.limits().items()
    ]
    return (
        f"{tools} tool{'' if tools == 1 else 's'}, {agents} agent{'' if agents == 1 else 's'}, "
        f"endpoints {', '.join(endpoints) or 'none'}"
    )


def _notes(house: House, settings: Settings) -> list[str]:
    """What is no mistake, but may not be what was meant."""
    reason = "is registered, and is no tool: its one parameter is no pydantic model"
    mend = "give it one, or bind it in `tools/`, if models are to call it"
    return [
        str(each.source.problem(Fault((), f"activity `{each.name}` {reason}", mend)))
        for each in house.shelf.catalog.unbound
        if each.name != settings.notify
    ]


def check(settings: Settings, how: Check) -> int:
    """Load everything as at a start, and say what keeps the worker from it; the exit code.

    Problems are lines on standard error. As JSON they are an array on standard output, of
    `{"file", "line", "reason", "mend", "field"}`: `line` from 1 or null, `field` the place within
    the file.
    """
    return guarded(
        lambda: _checked(settings, how),
        how.timeout,
        lambda stack: _refused([stuck(stack, how.timeout)], how),
    )


def _checked(settings: Settings, how: Check) -> Answer:
    problems = _of_store(settings)
    try:
        house = load(settings)
        if problems:
            return _refused(problems, how)
        if how.composed is not None:
            return Answer(STOPPED, f"{_composed(house, how.composed)}\n")
    except LoadError as error:
        return _refused([*error.problems, *problems], how)
    said = [*_notes(house, settings), f"{_holdings(house)}: nothing to mend"]
    return Answer(STOPPED, "[]\n" if how.json else "\n".join([*said, ""]))


def _of_store(settings: Settings) -> list[Problem]:
    try:
        try_out(settings.store)
    except StoreError as error:
        return [Problem("--store", None, error.wrong, error.todo)]
    return []


def _composed(house: House, which: str) -> str:
    """The schema of the answers of `AGENT` or `AGENT:SKILL`, in composed calling."""
    name, _, skill = which.partition(":")
    agents = house.shelf.catalog.agents
    if name not in agents:
        mend = nearest(name, agents, "name a catalog with agents: `--catalog DIR`")
        raise LoadError([Problem("--composed", None, f"there is no agent `{name}`", mend)])
    agent = agents[name]
    skills = [one.name for one in agent.skills]
    if skill and skill not in skills:
        mend = nearest(skill, skills, f"write `{name}` alone")
        raise LoadError([Problem("--composed", None, f"`{name}` has no skill `{skill}`", mend)])
    return json.dumps(schema_of_answers(agent, skill or None), indent=2, ensure_ascii=False)


def _refused(problems: Sequence[Problem], how: Check) -> Answer:
    if how.json:
        said = json.dumps([asdict(problem) for problem in problems], indent=2)
        return Answer(WRONG_SETUP, out=f"{said}\n")
    return Answer(WRONG_SETUP, err="".join(f"{problem}\n" for problem in problems))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command `python worker.py`; its exit code says whether setup or Temporal is at fault."""
    try:
        settings, dev, how = options(sys.argv[1:] if arguments is None else arguments)
        if how is not None:
            return check(settings, how)
        log_to_stderr()
        asyncio.run(until_stopped(serve(settings, dev), settings.graceful_timeout, abandon))
    except StartError as error:
        print("\n".join(error.lines), file=sys.stderr)
        return error.code
    return STOPPED


if __name__ == "__main__":
    leave(main())
