"""The endpoints of a worker, read from `endpoints.yaml` or found in the environment.

Everything is checked when the worker starts, and each problem has its file, line and fix; only a
missing key is reported when it is needed. No key is read here, and the file can hold none.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from http.cookiejar import CookieJar, DefaultCookiePolicy
from pathlib import Path

import httpx

from holdfast.providers.anthropic.format import AnthropicFormat
from holdfast.providers.base import Provider
from holdfast.providers.gemini.format import GeminiFormat
from holdfast.providers.model_errors import model_error
from holdfast.providers.ollama.format import OllamaFormat
from holdfast.providers.ollama.host import ollama_endpoint
from holdfast.providers.openai.format import OpenAIFormat
from holdfast.providers.script import Scenarios, ScriptedAnswers, ScriptProvider
from holdfast.providers.transport.http import HttpProvider, ProviderFormat
from holdfast.providers.transport.target import EndpointTarget
from holdfast.runtime.settings_files.file_problems import LoadError
from holdfast.runtime.settings_files.source import Source, load_source
from holdfast.runtime.tls import trusted_certificates
from holdfast.schemas.settings.endpoints import Endpoint, Endpoints, ProviderName
from holdfast.validation.problems import ValueProblem

FORMATS: dict[ProviderName, ProviderFormat] = {
    "openai": OpenAIFormat(),
    "anthropic": AnthropicFormat(),
    "gemini": GeminiFormat(),
    "ollama": OllamaFormat(),
}
DEFAULT_OPENAI_URL = "https://api.openai.com/v1"
DEFAULT_ANTHROPIC_URL = "https://api.anthropic.com"
DEFAULT_GEMINI_URL = "https://generativelanguage.googleapis.com"
MAX_CONNECTIONS = 1_000
MAX_KEPT_CONNECTIONS = 100
# Longer than most tools take. A few servers close an idle connection later without notice.
KEPT_SECONDS = 30.0
MAX_PORT = 65_535
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}\Z")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+\Z")
# The values of these fields may be a key.
_SECRET = frozenset({"apiKey", "apiKeyEnv", "headers", "headersEnv"})

_NAME_IT = "write the name of the environment variable that holds the value, never the value"
_WHOLE = "write it whole, like https://api.openai.com/v1 or http://localhost:8080/v1"
_IN_HEADER = (
    "remove the part before the `@`; `headersEnv: {authorization: VARIABLE}` has it sent, "
    "as `Basic …`, from the environment"
)


@dataclass(frozen=True)
class ServedEndpoint:
    """An endpoint and its provider."""

    target: EndpointTarget
    provider: Provider


class ModelEndpoints:
    """The endpoints of a worker, by name."""

    def __init__(self, served: Mapping[str, ServedEndpoint]) -> None:
        self._served = dict(served)

    @property
    def names(self) -> list[str]:
        """Return the names of the endpoints, sorted."""
        return sorted(self._served)

    def request_limits(self) -> dict[str, int | None]:
        """Return each endpoint's limit of requests a minute, or None."""
        return {
            name: self._served[name].target.endpoint.max_requests_per_minute for name in self.names
        }

    def find(self, name: str) -> ServedEndpoint:
        """Return an endpoint by name.

        Raises:
            ApplicationError: the worker has none of that name; not retried.
        """
        if name in self._served:
            return self._served[name]
        known = ", ".join(f"`{each}`" for each in self.names) or "none at all"
        raise model_error(f"this worker has no endpoint `{name}`; it has {known}")

    def secrets(self) -> Iterator[str]:
        """Yield the secrets in requests to the endpoints."""
        for served in self._served.values():
            yield from served.target.secrets()

    def warnings(self) -> list[str]:
        """Return warnings for the operator about keys that are not set."""
        return [
            f"endpoint `{name}`: the environment variable {missing} is not set; requests to it fail"
            for name, served in sorted(self._served.items())
            if (missing := served.target.missing_key) is not None
        ]


def http_client() -> httpx.AsyncClient:
    """Return a worker's HTTP client: it retries nothing, follows nothing, stores no cookies.

    Connections are kept for the next turns: the TLS handshake of a new one costs more than all the
    rest of a request.
    """
    limits = httpx.Limits(
        max_connections=MAX_CONNECTIONS,
        max_keepalive_connections=MAX_KEPT_CONNECTIONS,
        keepalive_expiry=KEPT_SECONDS,
    )
    no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=()))
    return httpx.AsyncClient(verify=trusted_certificates(), limits=limits, cookies=no_cookies)


def load_models(
    file: Path | None, environ: Mapping[str, str], http: httpx.AsyncClient
) -> ModelEndpoints:
    """Load the endpoints of `file`, or else those that the environment has keys for.

    Raises:
        LoadError: the file, or a script that it names, does not load.
    """
    source = Source("the environment", _usual(environ)) if file is None else load_source(file)
    endpoints = _by_name(source).parse_as(Endpoints, _hide_value).root
    problems = [
        source.problem(fault)
        for name, endpoint in endpoints.items()
        for fault in _wrong(name, endpoint)
    ]
    if problems:
        raise LoadError(problems)
    folder = file.parent if file is not None else Path()
    return ModelEndpoints(
        {
            name: _served(EndpointTarget(name, endpoint, environ), http, folder)
            for name, endpoint in endpoints.items()
        }
    )


def _by_name(source: Source) -> Source:
    """Return the source without `$schema`.

    Raises:
        LoadError: the source is not a map of endpoints by name.
    """
    value = source.value
    if not isinstance(value, dict) or isinstance(value.get("provider"), str):
        fix = "write each under a name of your own, `NAME: {provider: …}`, and let agents name it"
        raise LoadError([source.problem(ValueProblem((), "endpoints are listed by name", fix))])
    endpoints = {name: endpoint for name, endpoint in value.items() if name != "$schema"}
    return replace(source, value=endpoints)


def load_script(file: Path) -> ScriptProvider:
    """Load a script from its file.

    Raises:
        LoadError: the script does not load.
    """
    source = load_source(file)
    kind: type[ScriptedAnswers | Scenarios] = (
        ScriptedAnswers if isinstance(source.value, list) else Scenarios
    )
    return ScriptProvider(source.parse_as(kind, _hide_value))


def _usual(environ: Mapping[str, str]) -> dict[str, object]:
    found = {
        "openai": _usual_with_key("openai", DEFAULT_OPENAI_URL, environ),
        "anthropic": _usual_with_key("anthropic", DEFAULT_ANTHROPIC_URL, environ),
        "gemini": _usual_gemini(environ),
        "ollama": ollama_endpoint(environ),
    }
    return {name: endpoint for name, endpoint in found.items() if endpoint is not None}


def _usual_with_key(
    provider: str, default_url: str, environ: Mapping[str, str]
) -> dict[str, object] | None:
    key = f"{provider.upper()}_API_KEY"
    if not environ.get(key):
        return None
    url = environ.get(f"{provider.upper()}_BASE_URL") or default_url
    return {"provider": provider, "baseUrl": url, "apiKeyEnv": key}


def _usual_gemini(environ: Mapping[str, str]) -> dict[str, object] | None:
    """Read the variables of Google's own client, with its precedence: the first wins."""
    key = next((name for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY") if environ.get(name)), None)
    if key is None:
        return None
    url = environ.get("GOOGLE_GEMINI_BASE_URL") or DEFAULT_GEMINI_URL
    return {"provider": "gemini", "baseUrl": url, "apiKeyEnv": key}


def _served(target: EndpointTarget, http: httpx.AsyncClient, folder: Path) -> ServedEndpoint:
    match target.endpoint.provider:
        case "script":
            return ServedEndpoint(target, load_script(folder / (target.endpoint.file or "")))
        case provider:
            return ServedEndpoint(target, HttpProvider(FORMATS[provider], target, http))


def _hide_value(fault: ValueProblem) -> ValueProblem:
    """Remove the value from a problem if it may be a key."""
    if _SECRET.isdisjoint(fault.where) or fault.reason.startswith("unknown field"):
        return fault
    return replace(fault, reason="the value does not fit")


def _wrong(name: str, endpoint: Endpoint) -> list[ValueProblem]:
    """List problems that pydantic does not find, without values: one of them may be a key."""
    faults = []
    variable = endpoint.api_key_env
    if variable is not None and not _VARIABLE.match(variable):
        fix = "write the name of the environment variable that holds the key, never the key"
        faults.append(ValueProblem((name, "apiKeyEnv"), "this names no environment variable", fix))
    if endpoint.base_url is not None:
        faults += [fault.under(name, "baseUrl") for fault in _wrong_address(endpoint.base_url)]
    faults += [
        ValueProblem((name, "headersEnv", header), "this names no environment variable", _NAME_IT)
        for header, variable in endpoint.headers_env.items()
        if not _VARIABLE.match(variable)
    ]
    faults += [
        ValueProblem(
            (name, "headersEnv", header), "this is no header", "use plain ASCII, on one line"
        )
        for header in endpoint.headers_env
        if not _HEADER.match(header)
    ]
    faults += [
        ValueProblem((name, "headers", header), "this is no header", "use plain ASCII, on one line")
        for header, value in endpoint.headers.items()
        if not _HEADER.match(header) or not (value.isascii() and value.isprintable())
    ]
    return faults


def _wrong_address(url: str) -> list[ValueProblem]:
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        return [ValueProblem((), "this is no address", _WHOLE)]
    has_port = parsed.port is None or 0 < parsed.port <= MAX_PORT
    if parsed.scheme not in ("http", "https") or not parsed.host or not has_port:
        return [ValueProblem((), "this is no address", _WHOLE)]
    if parsed.userinfo:
        return [ValueProblem((), "the address holds a user's name or password", _IN_HEADER)]
    return []
