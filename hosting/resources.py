"""What a worker works with, read and checked: its catalog, its models, its keys.

Everything is checked before a worker starts, and every problem is told with file, line and mend.
"""

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import httpx

from holdfast.activities.notify.channels import NotificationChannels
from holdfast.activities.notify.notifier_settings import NotifiersError, load_notifiers
from holdfast.activities.ssrf_guard import knowledge_client, read_network
from holdfast.catalog.catalog_files import folder_signature
from holdfast.catalog.endpoints import EndpointsError, ModelEndpoints, http_client, load_models
from holdfast.catalog.loader import CatalogError, CurrentCatalog, load_catalog
from holdfast.catalog.reload import CatalogReloader
from holdfast.hosting.options import WorkerSettings
from holdfast.hosting.process_exit import StartError
from holdfast.hosting.sdk_workarounds.activity_definitions import activity_definition
from holdfast.providers.ollama.host import with_local_ollama
from holdfast.runtime.addresses import AddressError, AddressPrefix
from holdfast.runtime.encryption.key_ring import KeyRing, KeyRingError
from holdfast.runtime.identity.key_sets import KeySetError, LiveKeySet
from holdfast.runtime.identity.key_settings import load_key_sets
from holdfast.runtime.secrets import Secrets, environment_secrets
from holdfast.runtime.settings_files.file_problems import FileProblem
from holdfast.runtime.telemetry.telemetry import Telemetry
from holdfast.runtime.telemetry.telemetry_settings import (
    TelemetrySettings,
    TelemetrySettingsError,
    read_telemetry,
)
from holdfast.schemas.phrases import suggest_names


@dataclass(frozen=True)
class WorkerResources:
    """Everything a worker needs, read and checked.

    `web` is what knowledge is fetched with, `http` all else; `secrets` are what never leaves it,
    `telling` is what a collector is told of it, and `telemetry` what tells it so.
    """

    current_catalog: CurrentCatalog
    models: ModelEndpoints
    http: httpx.AsyncClient
    knowledge_http: httpx.AsyncClient
    reloader: CatalogReloader
    secrets: Secrets
    key_ring: KeyRing | None = None
    key_sets: Sequence[LiveKeySet] = ()
    channels: NotificationChannels = field(default_factory=NotificationChannels)
    telemetry_settings: TelemetrySettings = field(default_factory=TelemetrySettings)
    telemetry: Telemetry | None = None


class ResourcesError(StartError):
    """Settings that do not load, with every problem by file and line."""

    def __init__(self, problems: Sequence[FileProblem]) -> None:
        super().__init__([str(problem) for problem in problems])
        self.problems = list(problems)


def load_resources(settings: WorkerSettings, secrets: Secrets | None = None) -> WorkerResources:
    """Read and check everything that the settings name.

    Args:
        settings: how the worker is to be.
        secrets: those of its environment; it learns the others.

    Raises:
        LoadError: something does not load.
    """
    secrets = secrets or Secrets(environment_secrets(os.environ))
    http, web = _clients(settings)
    models, problems = _models(settings, http)
    ring, wrong_keys = _ring(settings)
    keys, wrong_sets = _keys(settings, http)
    channels, wrong_channels = _channels(settings, http)
    telling, wrong_telling = _telling()
    problems += [*wrong_keys, *wrong_sets, *wrong_channels, *wrong_telling]
    try:
        shelf, reloading = _catalog(settings, None if models is None else models.names)
    except CatalogError as error:
        raise ResourcesError([*problems, *error.problems]) from None
    if models is None or problems:
        raise ResourcesError(problems)
    _check_notify(settings.notify, shelf.catalog.definitions.activities)
    secrets.learn([*models.secrets(), *channels.secrets()])
    return WorkerResources(
        shelf, models, http, web, reloading, secrets, ring, keys, channels, telling
    )


def _catalog(
    settings: WorkerSettings, endpoints: Collection[str] | None
) -> tuple[CurrentCatalog, CatalogReloader]:
    # In full: a module, or a tool at work, may go to another folder.
    folder = None if settings.catalog is None else settings.catalog.absolute()
    files = [str(each.absolute()) for each in (settings.endpoints, settings.notifiers) if each]
    before = folder_signature(folder)
    catalog = load_catalog(
        settings.catalog,
        settings.tools,
        read_definition=activity_definition,
        endpoints=endpoints,
        task_queue=settings.task_queue,
        knowledge_urls=_prefixes(settings),
    )
    shelf = CurrentCatalog(catalog)
    modules = sorted({each.source.file for each in catalog.python_activities})
    return shelf, CatalogReloader(shelf, folder, before, once=(*modules, *files))


def _check_notify(notify: str | None, activities: Collection[str]) -> None:
    if notify is not None and notify not in activities:
        todo = suggest_names(notify, activities, "`--tools` gives it some")
        reason = f"this worker has no activity `{notify}`"
        raise ResourcesError([FileProblem("--notify", None, reason, todo)])


def _clients(settings: WorkerSettings) -> tuple[httpx.AsyncClient, httpx.AsyncClient]:
    try:
        networks = [read_network(text) for text in settings.knowledge_networks]
    except AddressError as error:
        raise ResourcesError(
            [FileProblem("--knowledge-network", None, error.reason, error.mend)]
        ) from None
    try:
        return http_client(), knowledge_client(networks)
    except (ValueError, ImportError, httpx.InvalidURL):
        # What it says may hold the proxy's password.
        reason = "a proxy that it names (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY) cannot be used"
        mend = "write it like http://proxy.acme.org:3128 (SOCKS is not spoken)"
        raise ResourcesError([FileProblem("the environment", None, reason, mend)]) from None


def _prefixes(settings: WorkerSettings) -> list[AddressPrefix]:
    try:
        return [AddressPrefix.read(text) for text in settings.knowledge_urls]
    except AddressError as error:
        raise ResourcesError(
            [FileProblem("--knowledge-url", None, error.reason, error.mend)]
        ) from None


def _models(
    settings: WorkerSettings, http: httpx.AsyncClient
) -> tuple[ModelEndpoints | None, list[FileProblem]]:
    environ = os.environ if settings.endpoints else with_local_ollama(os.environ)
    try:
        return load_models(settings.endpoints, environ, http), []
    except EndpointsError as error:
        return None, error.problems


def _ring(settings: WorkerSettings) -> tuple[KeyRing | None, list[FileProblem]]:
    if settings.encryption is None:
        return None, []
    try:
        return KeyRing.load(settings.encryption, os.environ), []
    except KeyRingError as error:
        return None, error.problems


def _keys(
    settings: WorkerSettings, http: httpx.AsyncClient
) -> tuple[Sequence[LiveKeySet], list[FileProblem]]:
    try:
        return load_key_sets(settings.keys, http, for_principals=settings.principal_tokens), []
    except KeySetError as error:
        return (), error.problems


def _channels(
    settings: WorkerSettings, http: httpx.AsyncClient
) -> tuple[NotificationChannels, list[FileProblem]]:
    try:
        return load_notifiers(settings.notifiers, os.environ, http), []
    except NotifiersError as error:
        return NotificationChannels(), error.problems


def _telling() -> tuple[TelemetrySettings, list[FileProblem]]:
    try:
        return read_telemetry(os.environ), []
    except TelemetrySettingsError as error:
        return TelemetrySettings(), [FileProblem("the environment", None, error.wrong, error.todo)]


def summarize_resources(resources: WorkerResources) -> str:
    """Return the numbers of tools and agents and the endpoints, in a line."""
    catalog = resources.current_catalog.catalog
    tools, agents = len(catalog.definitions.tools), len(catalog.agents)
    endpoints = [
        name if limit is None else f"{name} ({limit} a minute)"
        for name, limit in resources.models.request_limits().items()
    ]
    return (
        f"{tools} tool{'' if tools == 1 else 's'}, {agents} agent{'' if agents == 1 else 's'}, "
        f"endpoints {', '.join(endpoints) or 'none'}"
    )
