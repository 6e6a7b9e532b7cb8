"""The endpoints of a worker, read from `endpoints.yaml` or found in the environment.

Everything is checked when the worker starts, and each problem has its file, line and fix; only a
missing key is reported when it is needed. No key is read here, and the file can hold none.
"""

import re
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from http.cookiejar import CookieJar, DefaultCookiePolicy
from importlib import import_module
from pathlib import Path

import httpx

from holdfast.catalog.prices import price_list
from holdfast.providers.anthropic.format import AnthropicFormat
from holdfast.providers.base import Provider
from holdfast.providers.bedrock import BedrockFormat
from holdfast.providers.gemini import GeminiFormat
from holdfast.providers.model_errors import model_error
from holdfast.providers.ollama import OllamaFormat, ollama_endpoint
from holdfast.providers.openai.format import OpenAIFormat
from holdfast.providers.openai_responses.format import OpenAIResponsesFormat
from holdfast.providers.script import Scenarios, ScriptedAnswers, ScriptProvider
from holdfast.providers.transport.cloud_identity import cloud_identity
from holdfast.providers.transport.http import HttpProvider, ProviderFormat
from holdfast.providers.transport.target import EndpointTarget
from holdfast.runtime.secrets import Secrets
from holdfast.runtime.settings_files.file_problems import LoadError
from holdfast.runtime.settings_files.source import Source, read_source, values_hidden
from holdfast.runtime.text_safety import extra_command
from holdfast.schemas.settings.endpoints import Endpoint, Endpoints, ProviderName
from holdfast.validation.problems import ValueProblem

FORMATS: dict[ProviderName, ProviderFormat] = {
    "openai": OpenAIFormat(),
    "openai-responses": OpenAIResponsesFormat(),
    "anthropic": AnthropicFormat(),
    "gemini": GeminiFormat(),
    "ollama": OllamaFormat(),
    "bedrock": BedrockFormat(),
}
# What only an extra installs, by the format or the `auth` that needs it.
_LIBRARIES = {
    "bedrock": ("botocore.session", "bedrock"),
    "aws": ("botocore.session", "bedrock"),
    "google": ("google.auth.transport.requests", "vertex"),
    "azure": ("azure.identity", "azure"),
}
# The variables of each provider's own client: the key (the first that is set), and the address.
_USUAL_VARIABLES = (
    ("openai", ["OPENAI_API_KEY"], "OPENAI_BASE_URL", "https://api.openai.com/v1"),
    ("anthropic", ["ANTHROPIC_API_KEY"], "ANTHROPIC_BASE_URL", "https://api.anthropic.com"),
    (
        "gemini",
        ["GOOGLE_API_KEY", "GEMINI_API_KEY"],
        "GOOGLE_GEMINI_BASE_URL",
        "https://generativelanguage.googleapis.com",
    ),
)
MAX_CONNECTIONS = 1_000
MAX_KEPT_CONNECTIONS = 100
# Longer than most tools take. A few servers close an idle connection later without notice.
KEPT_SECONDS = 30.0
MAX_PORT = 65_535
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+\Z")
# The values of these fields may be a key.
_VALUES_HIDDEN = values_hidden("headers", "headersEnv")

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
    """The endpoints of a worker, by name.

    A `stand_in` answers in place of each of them, and of endpoints with any other name.
    """

    def __init__(
        self, served: Mapping[str, ServedEndpoint], stand_in: Provider | None = None
    ) -> None:
        self._served, self.stand_in = dict(served), stand_in

    @property
    def names(self) -> list[str]:
        return sorted(self._served)

    def request_limits(self) -> dict[str, int | None]:
        """Return each endpoint's limit of requests a minute, or None."""
        return {
            name: self._served[name].target.endpoint.max_requests_per_minute for name in self.names
        }

    def settings(self) -> dict[str, Endpoint]:
        """Return the settings of each endpoint."""
        return {name: self._served[name].target.endpoint for name in self.names}

    def find(self, name: str) -> ServedEndpoint:
        """Return an endpoint by name.

        Raises:
            ApplicationError: the worker has none of that name; not retried.
        """
        served = self._served.get(name)
        if self.stand_in is not None:
            unknown = EndpointTarget(name, Endpoint(provider="script", file="-"), {})
            return ServedEndpoint(unknown if served is None else served.target, self.stand_in)
        if served is not None:
            return served
        known = ", ".join(f"`{each}`" for each in self.names) or "none at all"
        raise model_error(f"this worker has no endpoint `{name}`; it has {known}")

    def secrets(self) -> Iterator[str]:
        for served in self._served.values():
            yield from served.target.secrets()

    def warnings(self) -> list[str]:
        """Return warnings for the operator about keys that are not set."""
        return [
            f"endpoint `{name}`: the environment variable {missing} is not set; requests to it fail"
            for name, served in sorted(self._served.items())
            if (missing := served.target.missing_key) is not None
        ]


@cache
def trusted_certificates() -> ssl.SSLContext:
    """Return httpx's default context: `SSL_CERT_FILE`, `SSL_CERT_DIR`, or `certifi`.

    It is created once, for every client: reading the certificates takes longer than loading all
    else in a worker.
    """
    return httpx.create_ssl_context()


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
    file: Path | None,
    environ: Mapping[str, str],
    http: httpx.AsyncClient,
    secrets: Secrets | None = None,
    stand_in: Provider | None = None,
) -> ModelEndpoints:
    """Load the endpoints of `file`, or else those that the environment has keys for.

    Tokens that are fetched later are added to `secrets`. `stand_in` is that of `ModelEndpoints`.

    Raises:
        LoadError: the file, or a script that it names, does not load.
    """
    if file is not None:
        source = read_source(file)
    else:
        found: dict[str, object] = {}
        for usual, keys, address, default in _USUAL_VARIABLES:
            key = next((name for name in keys if environ.get(name)), None)
            if key is not None:
                url = environ.get(address) or default
                found[usual] = {"provider": usual, "baseUrl": url, "apiKeyEnv": key}
        ollama = ollama_endpoint(environ)
        found |= {} if ollama is None else {"ollama": ollama}
        source = Source("the environment", found)
    if not isinstance(source.value, dict) or isinstance(source.value.get("provider"), str):
        fix = "write each under a name of your own, `NAME: {provider: …}`, and let agents name it"
        raise LoadError([source.problem(ValueProblem((), "endpoints are listed by name", fix))])
    source.value.pop("$schema", None)
    endpoints = source.parse_as(Endpoints, _VALUES_HIDDEN).root
    faults = [
        fault.under(name) for name, each in endpoints.items() for fault in _endpoint_problems(each)
    ]
    if faults:
        raise LoadError(map(source.problem, faults))
    folder = Path() if file is None else file.parent
    served = {}
    for name, endpoint in endpoints.items():
        identity = cloud_identity(endpoint, secrets or Secrets())
        target = EndpointTarget(name, endpoint, environ, identity)
        provider: Provider
        if endpoint.provider == "script":
            provider = load_script(folder / (endpoint.file or ""))
        else:
            provider = HttpProvider(FORMATS[endpoint.provider], target, http)
        served[name] = ServedEndpoint(target, provider)
        if endpoint.price is None and endpoint.base_url is not None:
            price_list()  # now, and not while a request waits
    return ModelEndpoints(served, stand_in)


def load_script(file: Path) -> ScriptProvider:
    """Load a script from its file.

    Raises:
        LoadError: the script does not load.
    """
    source = read_source(file)
    kind: type[ScriptedAnswers | Scenarios] = (
        ScriptedAnswers if isinstance(source.value, list) else Scenarios
    )
    return ScriptProvider(source.parse_as(kind, _VALUES_HIDDEN))


def _endpoint_problems(endpoint: Endpoint) -> Iterator[ValueProblem]:
    """Yield problems that pydantic does not find, without values: one of them may be a key."""
    used = {"provider": endpoint.provider, "auth": endpoint.auth.type if endpoint.auth else ""}
    for field, name in used.items():
        if name not in _LIBRARIES:
            continue
        library, extra = _LIBRARIES[name]
        try:
            import_module(library)
        except ImportError as error:
            reason = f"`{name}` needs the package {error.name}, which is not installed"
            yield ValueProblem((field,), reason, extra_command(extra))
    if endpoint.base_url is not None:
        try:
            url = httpx.URL(endpoint.base_url)
        except httpx.InvalidURL:
            url = httpx.URL()
        has_port = url.port is None or 0 < url.port <= MAX_PORT
        if url.scheme not in ("http", "https") or not url.host or not has_port:
            yield ValueProblem(("baseUrl",), "this is no address", _WHOLE)
        elif url.userinfo:
            reason = "the address holds a user's name or password"
            yield ValueProblem(("baseUrl",), reason, _IN_HEADER)
    headers = [("headersEnv", name, "") for name in endpoint.headers_env]
    headers += (("headers", name, value) for name, value in endpoint.headers.items())
    for field, name, value in headers:
        if not _HEADER.match(name) or not (value.isascii() and value.isprintable()):
            fix = "use plain ASCII, on one line"
            yield ValueProblem((field, name), "this is no header", fix)
