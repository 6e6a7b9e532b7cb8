"""The endpoints of a worker: read from `endpoints.yaml`, or found in the environment.

Everything is checked when the worker starts, and told with file, line and mend; only a missing key
waits until it is needed. No key is read here, and none can stand in the file.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from activities.catalog.faults import Fault, Problem, UnreadableError, faults_of
from activities.catalog.source import Source, read_source
from activities.failures import model_error
from activities.providers.base import Provider
from activities.providers.openai import OpenAI
from activities.providers.script import Answers, Scenarios, Script
from activities.providers.target import Target
from schemas.endpoint import Endpoint, Endpoints

DEFAULT_OPENAI_URL = "https://api.openai.com/v1"
MAX_CONNECTIONS = 1_000
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}\Z")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+\Z")

Said = TypeVar("Said", bound=BaseModel)


class EndpointsError(Exception):
    """Endpoints that do not load: one line for each problem, with file, line and mend."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


@dataclass(frozen=True)
class Served:
    """An endpoint, and the provider that asks it."""

    target: Target
    provider: Provider


class Models:
    """The endpoints that a worker has, by name."""

    def __init__(self, served: Mapping[str, Served]) -> None:
        self._served = dict(served)

    @property
    def names(self) -> list[str]:
        """The names of the endpoints, in order."""
        return sorted(self._served)

    def find(self, name: str) -> Served:
        """The endpoint `name`.

        Raises:
            ApplicationError: the worker has none of that name; not retried.
        """
        if name in self._served:
            return self._served[name]
        known = ", ".join(f"`{each}`" for each in self.names) or "none at all"
        raise model_error(f"this worker has no endpoint `{name}`; it has {known}")

    def warnings(self) -> list[str]:
        """What the operator should know when the worker starts: the keys that are not there."""
        return [
            f"endpoint `{name}`: the environment variable {missing} is not set; requests to it fail"
            for name, served in sorted(self._served.items())
            if (missing := served.target.missing_key) is not None
        ]


def http_client() -> httpx.AsyncClient:
    """The one HTTP client of a worker. It tries nothing again and follows nothing.

    A connection serves one request: some servers close it after a few, at the moment when it is
    used again, and what keeping it would save is little beside the seconds of an answer.
    """
    limits = httpx.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=0)
    return httpx.AsyncClient(limits=limits)


def load_models(file: Path | None, environ: Mapping[str, str], http: httpx.AsyncClient) -> Models:
    """The endpoints of `file`; without one, those that the environment speaks of.

    Raises:
        EndpointsError: the file, or a script that it names, does not load.
    """
    source = Source("the environment", _usual(environ)) if file is None else _source(file)
    endpoints = _checked(source, Endpoints).root
    problems = [
        source.problem(fault)
        for name, endpoint in endpoints.items()
        for fault in _wrong(name, endpoint)
    ]
    if problems:
        raise EndpointsError(problems)
    folder = file.parent if file is not None else Path()
    return Models(
        {
            name: _served(Target(name, endpoint, environ), http, folder)
            for name, endpoint in endpoints.items()
        }
    )


def load_script(file: Path) -> Script:
    """A script from its file.

    Raises:
        EndpointsError: it does not load.
    """
    source = _source(file)
    kind: type[Answers | Scenarios] = Answers if isinstance(source.value, list) else Scenarios
    return Script(_checked(source, kind))


def _usual(environ: Mapping[str, str]) -> dict[str, object]:
    if not environ.get("OPENAI_API_KEY"):
        return {}
    url = environ.get("OPENAI_BASE_URL") or DEFAULT_OPENAI_URL
    return {"openai": {"provider": "openai", "baseUrl": url, "apiKeyEnv": "OPENAI_API_KEY"}}


def _served(target: Target, http: httpx.AsyncClient, folder: Path) -> Served:
    match target.endpoint.provider:
        case "openai":
            return Served(target, OpenAI(target, http))
        case "script":
            return Served(target, load_script(folder / (target.endpoint.file or "")))


def _source(file: Path) -> Source:
    try:
        return read_source(file)
    except UnreadableError as error:
        raise EndpointsError([Problem(str(file), error.line, error.reason, error.mend)]) from None


def _checked(source: Source, model: type[Said]) -> Said:
    try:
        return model.model_validate(source.value)
    except ValidationError as error:
        faults = faults_of(error, source.value, model)
        raise EndpointsError([source.problem(fault) for fault in faults]) from None


def _wrong(name: str, endpoint: Endpoint) -> list[Fault]:
    """What pydantic does not find. Values are not quoted: one of them may be a key."""
    faults = []
    variable = endpoint.api_key_env
    if variable is not None and not _VARIABLE.match(variable):
        mend = "write the name of the environment variable that holds the key, never the key"
        faults.append(Fault((name, "apiKeyEnv"), "this names no environment variable", mend))
    if endpoint.base_url is not None and not _is_address(endpoint.base_url):
        mend = "write it like https://api.openai.com/v1"
        faults.append(Fault((name, "baseUrl"), "this is no address", mend))
    faults += [
        Fault((name, "headers", header), "this is no header", "use plain ASCII, on one line")
        for header, value in endpoint.headers.items()
        if not _HEADER.match(header) or not (value.isascii() and value.isprintable())
    ]
    return faults


def _is_address(url: str) -> bool:
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        return False
    return parsed.scheme in ("http", "https") and bool(parsed.host)
