"""The address and headers of an endpoint: the only module that reads a key.

A key is read when a request is made and is stored nowhere, so nothing can print it.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from urllib.parse import quote

import httpx

from holdfast.providers.base import UnanswerableRequest
from holdfast.providers.transport.cloud_identity import CloudIdentity
from holdfast.providers.transport.error_response import CUT
from holdfast.runtime.secrets import address_secrets, header_secrets
from holdfast.schemas.phrases import quote_value
from holdfast.schemas.settings.endpoints import Endpoint

# Shorter values are no secrets, and redacting them would garble any text.
MIN_SECRET_CHARACTERS = 4
MAX_CONNECT_SECONDS = 10.0
MAX_KEPT_URLS = 64
_OF_PROVIDERS = (
    *(".api.openai.com", ".openai.azure.com", ".api.anthropic.com"),
    *(".generativelanguage.googleapis.com", ".aiplatform.googleapis.com"),
    "-aiplatform.googleapis.com",
)
_MODEL = re.compile(r"(?!.*(^|/)\.{1,2}(/|$))[\w.@:+-]+(/[\w.@:+-]+)*", re.ASCII)


@dataclass(frozen=True)
class EndpointTarget:
    """An endpoint by its name, and the environment that holds its key."""

    name: str
    endpoint: Endpoint = field(repr=False)
    environ: Mapping[str, str] = field(repr=False)
    identity: CloudIdentity | None = field(default=None, repr=False)

    @cached_property
    def url(self) -> Callable[..., httpx.URL]:
        """Return the function `_url`, which keeps its last results: parsing one takes long."""
        return lru_cache(MAX_KEPT_URLS)(self._url)

    def _url(self, path: str, version: str = "", query: str = "") -> httpx.URL:
        """Return the address of `path`, such as `/chat/completions`, at the endpoint.

        `version`, such as `/v1`, precedes it unless the endpoint's own address ends with it.
        `query`, such as `alt=sse`, is added to the address's own.
        """
        base = self._base.path.rstrip("/")
        between = "" if base.endswith(version) else version
        url = self._base.copy_with(path=base + between + path)
        return url.copy_merge_params(httpx.QueryParams(query)) if query else url

    def model_in_path(self, name: str, safe: str = "") -> str:
        """Return a model's name as a part of an address, of which none may lead elsewhere.

        Raises:
            UnanswerableRequest: it is no name of a model.
        """
        if not _MODEL.fullmatch(name):
            raise UnanswerableRequest(f"{self.label}: {quote_value(name)} is no name of a model")
        return quote(name, safe)

    @property
    def label(self) -> str:
        """Return the endpoint for errors: without user, password and query of its address."""
        if self.endpoint.base_url is None:
            return f"endpoint `{self.name}`"
        port = f":{self._base.port}" if self._base.port else ""
        where = f"{self._base.scheme}://{self._base.host}{port}{self._base.path}"
        return f"endpoint `{self.name}` ({where})"

    @property
    def host(self) -> str:
        return self._base.host

    @property
    def fetches_image_urls(self) -> bool:
        """Report whether the server receives the addresses of images, and fetches them.

        A server in the operator's network could be sent to any address in it by the caller of a
        run; a provider's own servers fetch from outside it.
        """
        setting = self.endpoint.image_urls
        return f".{self.host}".endswith(_OF_PROVIDERS) if setting is None else setting

    @property
    def timeout(self) -> httpx.Timeout:
        """Return how long a silence may be."""
        seconds = self.endpoint.timeout.total_seconds()
        return httpx.Timeout(seconds, connect=min(seconds, MAX_CONNECT_SECONDS))

    @property
    def missing_key(self) -> str | None:
        """Return an environment variable of the key, or of a header, that is not set."""
        return next((each for each in self._variables if self._value(each) is None), None)

    def headers(self, of_format: Callable[[str | None], dict[str, str]]) -> dict[str, str]:
        """Return the headers of a request: those of its format, then the endpoint's own, which win.

        Raises:
            UnanswerableRequest: the key is not set, or is invalid.
        """
        if self.missing_key is not None:
            raise UnanswerableRequest(
                f"{self.label} has no key: set the environment variable {self.missing_key}"
                " and start the worker again"
            )
        for variable in self._variables:
            value = self._value(variable) or ""
            if not (value.isascii() and value.isprintable()):
                raise UnanswerableRequest(
                    f"{self.label}: the value of {variable} contains characters that a key cannot"
                    " have; copy it again"
                )
        own = {name.lower(): value for name, value in self.endpoint.headers.items()}
        return of_format(self._key) | own | self._headers_of_environment

    def secrets(self) -> Iterator[str]:
        """Yield the secrets of its requests."""
        yield from (value for each in self._variables if (value := self._value(each)) is not None)
        yield from address_secrets(str(self._base))
        for name, value in (self.endpoint.headers | self._headers_of_environment).items():
            yield from header_secrets(name, value)

    def redact(self, text: str) -> str:
        """Return the text without the secrets of the endpoint's requests."""
        query = self._base.query.decode()
        secrets = {self._key or "", self._base.password, query, *self._base.params.values()}
        secrets |= set(self.identity.values if self.identity is not None else ())
        for value in (*self.endpoint.headers.values(), *self._headers_of_environment.values()):
            secrets |= {value, value.rpartition(" ")[2]}  # `Bearer KEY` holds KEY
        for secret in sorted(secrets, key=len, reverse=True):
            if len(secret) < MIN_SECRET_CHARACTERS:
                continue
            text = text.replace(secret, "[secret]")
            # The text may have been cut within the secret.
            cut = text.removesuffix(CUT) if text.endswith(CUT) else ""
            for length in range(len(secret) - 1, MIN_SECRET_CHARACTERS - 1, -1):
                if cut.endswith(secret[:length]):
                    text = cut[:-length] + "[secret]" + CUT
                    break
        return text

    @cached_property
    def _base(self) -> httpx.URL:
        return httpx.URL(self.endpoint.base_url or "")

    @property
    def _variables(self) -> tuple[str, ...]:
        key = self.endpoint.api_key_env
        return (*([key] if key is not None else []), *self.endpoint.headers_env.values())

    @property
    def _key(self) -> str | None:
        variable = self.endpoint.api_key_env
        return self._value(variable) if variable is not None else None

    @property
    def _headers_of_environment(self) -> dict[str, str]:
        named = self.endpoint.headers_env.items()
        return {header.lower(): self._value(variable) or "" for header, variable in named}

    def _value(self, variable: str) -> str | None:
        return self.environ.get(variable, "").strip() or None
