"""The resources of a worker, read and checked: its catalog, its models, its keys.

Everything is checked before a worker starts, and every problem has its file, line and fix.
"""

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import httpx
from temporalio.client import Plugin
from temporalio.plugin import SimplePlugin

from holdfast.activities.model.viewers import viewers_key
from holdfast.activities.notify.channels import NotificationChannels, load_notifiers
from holdfast.activities.ssrf_guard import knowledge_client, read_network
from holdfast.catalog.catalog_files import folder_signature
from holdfast.catalog.endpoints import ModelEndpoints, http_client, load_models
from holdfast.catalog.loader import CurrentCatalog, load_catalog
from holdfast.catalog.mcp_tools import load_servers, require_library
from holdfast.catalog.python_module import load_converter, load_object
from holdfast.catalog.reload import CatalogReloader
from holdfast.hosting.options import WorkerSettings
from holdfast.hosting.process_exit import StartError
from holdfast.hosting.sdk_workarounds.activity_definitions import activity_definition, activity_name
from holdfast.providers.base import Provider
from holdfast.providers.ollama import with_local_ollama
from holdfast.runtime.addresses import AddressPrefix
from holdfast.runtime.encryption.key_ring import KeyRing
from holdfast.runtime.identity.key_sets import LiveKeySet, issuer_warnings, load_key_sets
from holdfast.runtime.secrets import Secrets, environment_secrets
from holdfast.runtime.settings_files.file_problems import FileProblem, LoadError
from holdfast.runtime.telemetry.startup import (
    TelemetrySettings,
    TelemetrySettingsError,
    read_telemetry,
)
from holdfast.runtime.telemetry.telemetry import Telemetry
from holdfast.schemas.phrases import suggest_names
from holdfast.schemas.settings.endpoints import Endpoint
from holdfast.schemas.settings.servers import Server
from holdfast.validation.problems import FixableError

if TYPE_CHECKING:
    from holdfast.activities.mcp.servers import McpServers

S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True)
class WorkerResources:
    """Everything a worker needs, read and checked.

    `knowledge_http` fetches knowledge, and `http` makes all other requests. No value of `secrets`
    leaves the worker.
    """

    current_catalog: CurrentCatalog
    models: ModelEndpoints
    http: httpx.AsyncClient
    knowledge_http: httpx.AsyncClient
    reloader: CatalogReloader
    secrets: Secrets
    permit_keys: KeyRing | None = None
    key_sets: Sequence[LiveKeySet] = ()
    servers: "McpServers | None" = None
    channels: NotificationChannels = field(default_factory=NotificationChannels)
    telemetry_settings: TelemetrySettings = field(default_factory=TelemetrySettings)
    telemetry: Telemetry | None = None
    plugins: Sequence[Plugin] = ()

    def trust_warnings(self, settings: WorkerSettings) -> list[FileProblem]:
        """Return warnings if other programs, or people of other issuers, are trusted."""
        found, catalog = issuer_warnings(self.key_sets), self.current_catalog.catalog
        tools = catalog.all_tools
        policies = [one for tool in tools for one in (tool.approval, *tool.approval_rules)]
        policies += [agent.approval for agent in catalog.agents.values()]
        is_strict = settings.catalog_only or settings.principal_tokens
        is_strict = is_strict or any(one.signed for one in policies)
        if self.permit_keys is not None or not is_strict:
            return found
        reason = (
            "the worker has `--catalog-only`, `--principal-tokens` or a `signed` tool, but any"
            " program of the Temporal namespace can run its tools without a decision"
        )
        return [*found, FileProblem("--permits", None, reason, "give it the keys of `--permits`")]

    def summary(self) -> str:
        """Return the numbers of tools and agents and the endpoints, in one line."""
        catalog = self.current_catalog.catalog
        tools, agents = len(catalog.definitions.tools), len(catalog.agents)
        endpoints = [
            name if limit is None else f"{name} ({limit} a minute)"
            for name, limit in self.models.request_limits().items()
        ]
        return (
            f"{tools} tool{'' if tools == 1 else 's'}, {agents} agent{'' if agents == 1 else 's'}, "
            f"endpoints {', '.join(endpoints) or 'none'}"
        )


class ResourcesError(StartError):
    """Settings that do not load, with every problem by file and line."""

    def __init__(self, problems: Sequence[FileProblem]) -> None:
        super().__init__([str(problem) for problem in problems])
        self.problems = list(problems)


def load_resources(
    settings: WorkerSettings,
    secrets: Secrets | None = None,
    activities: Collection[str] = (),
    provider: Provider | None = None,
) -> WorkerResources:
    """Read and check everything that the settings name; secrets are added to those given.

    `activities` are those that the worker has beside the ones of its `tools`. A `provider` answers
    all requests to models, and agents may name any endpoint.

    Raises:
        ResourcesError: a resource does not load; the error has every problem.
    """
    secrets = secrets or Secrets(environment_secrets(os.environ))
    problems: list[FileProblem] = []

    def attempt(load: Callable[[], T], default: T) -> T:
        try:
            return load()
        except LoadError as error:
            problems.extend(error.problems)
        except TelemetrySettingsError as error:
            problems.append(FileProblem("the environment", None, error.reason, error.fix))
        return default

    http, knowledge_http = _http_clients(settings)
    environ = os.environ if settings.endpoints else with_local_ollama(os.environ)
    models = attempt(
        lambda: load_models(settings.endpoints, environ, http, secrets, provider),
        default=ModelEndpoints({}),
    )
    served = None if problems or provider else models.settings()
    _, permit_keys = (
        attempt(partial(KeyRing.load, file, os.environ), default=None) if file else None
        for file in (settings.encryption, settings.permits)
    )
    key_sets: Sequence[LiveKeySet] = attempt(
        lambda: load_key_sets(settings.keys, http, for_principals=settings.principal_tokens),
        default=(),
    )
    servers = attempt(lambda: load_servers(settings.servers), default=dict[str, Server]())
    attempt(lambda: require_library(settings.servers), default=None)
    channels = attempt(
        lambda: load_notifiers(settings.notifiers, os.environ, http), default=NotificationChannels()
    )
    attempt(lambda: _read_each("--viewers", viewers_key, [settings.viewers]), default=list[str]())
    telemetry_settings = attempt(lambda: read_telemetry(os.environ), default=TelemetrySettings())
    plugins: list[Plugin] = attempt(lambda: _plugins(settings), default=[])
    known = [*activities, *(name for each in plugins for name in _activities_of(each))]
    try:
        current_catalog, reloader = load_worker_catalog(settings, served, known, servers)
    except LoadError as error:
        raise ResourcesError([*problems, *error.problems]) from None
    if problems:
        raise ResourcesError(problems)
    secrets.learn([*models.secrets(), *channels.secrets()])
    return WorkerResources(
        *(current_catalog, models, http, knowledge_http, reloader, secrets),
        *(permit_keys, key_sets, mcp_servers(servers, secrets)),
        *(channels, telemetry_settings),
        plugins=plugins,
    )


def _http_clients(settings: WorkerSettings) -> tuple[httpx.AsyncClient, httpx.AsyncClient]:
    try:
        networks = _read_each("--knowledge-network", read_network, settings.knowledge_networks)
        return http_client(), knowledge_client(networks)
    except LoadError as error:
        raise ResourcesError(error.problems) from None
    except (ValueError, ImportError, httpx.InvalidURL):
        # The error's text may hold the proxy's password.
        reason = "a proxy that it names (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY) cannot be used"
        fix = "write it like http://proxy.acme.org:3128 (SOCKS is not supported)"
        raise ResourcesError([FileProblem("the environment", None, reason, fix)]) from None


def mcp_servers(servers: Mapping[str, Server], secrets: Secrets) -> "McpServers | None":
    """Return the MCP servers, if there are some; their secrets are added to those given."""
    if not servers:
        return None
    # Its library is in an extra, and takes half a second.
    from holdfast.activities.mcp.servers import McpServers

    made = McpServers(servers, os.environ, secrets)
    secrets.learn(made.secrets())
    return made


def _plugins(settings: WorkerSettings) -> list[Plugin]:
    converter = SimplePlugin("converter", data_converter=load_converter(settings.converter))
    return [converter, *(load_object(each, Plugin) for each in settings.plugins)]


def _activities_of(plugin: Plugin) -> Iterator[str]:
    """Yield the names of a plugin's activities, as far as `SimplePlugin` describes them."""
    given = getattr(plugin, "activities", None) or ()
    yield from map(activity_name, given(None) if callable(given) else given)


def load_worker_catalog(
    settings: WorkerSettings,
    served: Mapping[str, Endpoint] | None,
    activities: Collection[str],
    servers: Mapping[str, Server],
) -> tuple[CurrentCatalog, CatalogReloader]:
    """Load the catalog of these settings, or raise `LoadError`; `served` are the endpoints."""
    # Absolute: a module, or a running tool, may change the working folder.
    folder = None if settings.catalog is None else settings.catalog.absolute()
    named = (settings.endpoints, settings.servers, settings.notifiers)
    files = [str(each.absolute()) for each in named if each]
    before = folder_signature(folder)
    catalog = load_catalog(
        settings.catalog,
        [*settings.tools, *settings.agents],
        endpoints=None if served is None else [*served],
        task_queue=settings.task_queue,
        knowledge_urls=_read_each("--knowledge-url", AddressPrefix.read, settings.knowledge_urls),
        read_definition=activity_definition,
        activities=activities,
        servers=servers,
        budgets=settings.budgets,
        served=served,
        principal_tokens=settings.principal_tokens,
    )
    known = catalog.definitions.activities
    if settings.notify is not None and settings.notify not in known:
        todo = suggest_names(settings.notify, known, "`--tools` gives it some")
        reason = f"this worker has no activity `{settings.notify}`"
        raise LoadError([FileProblem("--notify", None, reason, todo)])
    current = CurrentCatalog(catalog)
    python = (*(each.source for each in catalog.python.activities), *catalog.python.agents)
    modules = sorted({each.file for each in python})
    return current, CatalogReloader(current, folder, before, once=(*modules, *files))


def _read_each(option: str, read: Callable[[S], T], values: Sequence[S]) -> list[T]:
    try:
        return [read(value) for value in values]
    except FixableError as error:
        raise LoadError([FileProblem(option, None, error.reason, error.fix)]) from None
