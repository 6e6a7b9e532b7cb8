"""What a worker works with, read and checked: its catalog, its models, its keys.

Everything is checked before a worker starts, and every problem is told with file, line and mend.
"""

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import httpx

from holdfast.activities.notify.channels import Channels
from holdfast.activities.notify.notifier_settings import NotifiersError, load_notifiers
from holdfast.activities.ssrf_guard import knowledge_client, read_network
from holdfast.catalog.catalog_files import folder_signature
from holdfast.catalog.endpoints import EndpointsError, Models, http_client, load_models
from holdfast.catalog.loader import CatalogError, Shelf, load_catalog
from holdfast.catalog.reload import Reloading
from holdfast.hosting.options import Settings
from holdfast.hosting.startup_errors import StartError
from holdfast.providers.ollama.host import with_local_ollama
from holdfast.runtime.addresses import AddressError, Prefix
from holdfast.runtime.encryption.key_ring import KeyRing, RingError
from holdfast.runtime.identity.key_sets import Keys, KeysError
from holdfast.runtime.identity.key_settings import load_keys
from holdfast.runtime.secrets import Secrets, secrets_in
from holdfast.runtime.settings_files.file_problems import Problem
from holdfast.runtime.telemetry.telemetry import Telemetry
from holdfast.runtime.telemetry.telemetry_settings import (
    TelemetryError,
    TelemetrySettings,
    read_telemetry,
)
from holdfast.schemas.phrases import nearest


@dataclass(frozen=True)
class House:
    """What a worker works with, read and checked: its catalog, kept current, and its models.

    `web` is what knowledge is fetched with, `http` all else; `secrets` are what never leaves it,
    `telling` is what a collector is told of it, and `telemetry` what tells it so.
    """

    shelf: Shelf
    models: Models
    http: httpx.AsyncClient
    web: httpx.AsyncClient
    reloading: Reloading
    secrets: Secrets
    ring: KeyRing | None = None
    keys: Sequence[Keys] = ()
    channels: Channels = field(default_factory=Channels)
    telling: TelemetrySettings = field(default_factory=TelemetrySettings)
    telemetry: Telemetry | None = None


class LoadError(StartError):
    """Something that the settings name does not load; with every problem, by file and line."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__([str(problem) for problem in problems])
        self.problems = list(problems)


def load(settings: Settings, secrets: Secrets | None = None) -> House:
    """Read and check everything that the settings name.

    Args:
        settings: how the worker is to be.
        secrets: those of its environment; it learns the others.

    Raises:
        LoadError: something does not load.
    """
    secrets = secrets or Secrets(secrets_in(os.environ))
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
        raise LoadError([*problems, *error.problems]) from None
    if models is None or problems:
        raise LoadError(problems)
    _check_notify(settings.notify, shelf.catalog.world.activities)
    secrets.learn([*models.secrets(), *channels.secrets()])
    return House(shelf, models, http, web, reloading, secrets, ring, keys, channels, telling)


def _catalog(settings: Settings, endpoints: Collection[str] | None) -> tuple[Shelf, Reloading]:
    """The catalog, and what keeps it current.

    Raises:
        CatalogError: it does not load.
        LoadError: knowledge may be fetched from what is no address.
    """
    # In full: a module, or a tool at work, may go to another folder.
    folder = None if settings.catalog is None else settings.catalog.absolute()
    files = [str(each.absolute()) for each in (settings.endpoints, settings.notifiers) if each]
    before = folder_signature(folder)
    catalog = load_catalog(
        settings.catalog,
        settings.tools,
        endpoints=endpoints,
        task_queue=settings.task_queue,
        knowledge_urls=_prefixes(settings),
    )
    shelf = Shelf(catalog)
    modules = sorted({each.source.file for each in catalog.imported})
    return shelf, Reloading(shelf, folder, before, once=(*modules, *files))


def _check_notify(notify: str | None, activities: Collection[str]) -> None:
    if notify is not None and notify not in activities:
        todo = nearest(notify, activities, "`--tools` gives it some")
        reason = f"this worker has no activity `{notify}`"
        raise LoadError([Problem("--notify", None, reason, todo)])


def _clients(settings: Settings) -> tuple[httpx.AsyncClient, httpx.AsyncClient]:
    """What is asked over HTTP: models and key sets, and knowledge."""
    try:
        networks = [read_network(text) for text in settings.knowledge_networks]
    except AddressError as error:
        raise LoadError([Problem("--knowledge-network", None, error.reason, error.mend)]) from None
    try:
        return http_client(), knowledge_client(networks)
    except (ValueError, ImportError, httpx.InvalidURL):
        # What it says may hold the proxy's password.
        reason = "a proxy that it names (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY) cannot be used"
        mend = "write it like http://proxy.acme.org:3128 (SOCKS is not spoken)"
        raise LoadError([Problem("the environment", None, reason, mend)]) from None


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


def _ring(settings: Settings) -> tuple[KeyRing | None, list[Problem]]:
    if settings.encryption is None:
        return None, []
    try:
        return KeyRing.load(settings.encryption, os.environ), []
    except RingError as error:
        return None, error.problems


def _keys(settings: Settings, http: httpx.AsyncClient) -> tuple[Sequence[Keys], list[Problem]]:
    try:
        return load_keys(settings.keys, http, for_principals=settings.principal_tokens), []
    except KeysError as error:
        return (), error.problems


def _channels(settings: Settings, http: httpx.AsyncClient) -> tuple[Channels, list[Problem]]:
    try:
        return load_notifiers(settings.notifiers, os.environ, http), []
    except NotifiersError as error:
        return Channels(), error.problems


def _telling() -> tuple[TelemetrySettings, list[Problem]]:
    try:
        return read_telemetry(os.environ), []
    except TelemetryError as error:
        return TelemetrySettings(), [Problem("the environment", None, error.wrong, error.todo)]


def holdings(house: House) -> str:
    """What a worker has, in a line."""
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
