"""Model endpoints: the worker's own configuration, which no agent, run or model can change."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, JsonValue, RootModel, model_validator

from holdfast.schemas.base import (
    SCHEMA_URI,
    VARIABLE_PATTERN,
    Duration,
    Strict,
    Variable,
    parse_duration,
)

ProviderName = Literal["openai", "anthropic", "ollama", "gemini", "script"]
# Those with models behind them.
MODEL_PROVIDERS = ("openai", "anthropic", "ollama", "gemini")


class Price(Strict):
    """The price of a million tokens.

    Tokens that are read from the provider's cache, or written to it, cost `input` unless `cached`
    or `cache_write` is said.
    """

    input: Annotated[float, Field(ge=0)]
    """Of a million tokens of the request."""
    output: Annotated[float, Field(ge=0)]
    """Of a million tokens of the answer."""
    cached: Annotated[float, Field(ge=0)] | None = None
    """Of a million tokens of the request that the provider had kept (default: `input`)."""
    cache_write: Annotated[float, Field(ge=0)] | None = None
    """Of a million tokens of the request that the provider now keeps (default: `input`)."""


# For editors: what is checked when the worker starts.
_ADDRESS: JsonValue = "^https?://[^/@]+([/?]|$)"
_Named = Field(json_schema_extra={"pattern": VARIABLE_PATTERN})
# What `_complete` checks.
_NEEDED: dict[str, JsonValue] = {
    "if": {"properties": {"provider": {"const": "script"}}},
    "then": {"required": ["file"]},
    "else": {"required": ["baseUrl"]},
}


class Endpoint(Strict):
    """One model server: which format it speaks, where it is, and where its key is kept."""

    model_config = ConfigDict(json_schema_extra=_NEEDED)

    provider: ProviderName
    """The format that the server speaks; `script` answers from a file."""
    base_url: Annotated[str | None, Field(json_schema_extra={"pattern": _ADDRESS})] = None
    """Where it is, such as https://api.openai.com/v1."""
    api_key_env: Annotated[Variable | None, _Named] = None
    """The environment variable that holds the key; never the key."""
    headers: dict[str, str] = {}
    """Headers of every request, none of them secret."""
    headers_env: dict[str, Annotated[Variable, _Named]] = {}
    """Further headers: of each, the environment variable that holds its value."""
    image_urls: bool | None = None
    """Whether the server is handed the addresses of pictures, which it then fetches (default: a
    provider's own servers are)."""
    timeout: Duration = parse_duration("5m")
    """The longest silence of a model that is answering."""
    max_requests_per_minute: Annotated[int | None, Field(ge=1)] = None
    """The most requests a minute, of all workers together."""
    context_window: Annotated[int | None, Field(ge=1_000)] = None
    """What its models can take in, in tokens, where that is not known by their names."""
    price: Price | None = None
    """What tokens cost."""
    file: str | None = None
    """The answers of the provider `script`, in YAML or JSON."""

    @model_validator(mode="after")
    def _complete(self) -> "Endpoint":
        if self.provider == "script" and self.file is None:
            raise ValueError("provider `script` needs `file`; add it: its answers in YAML or JSON")
        if self.provider == "script" and self.context_window is not None:
            raise ValueError("a script has no window; leave `contextWindow` out")
        if self.provider != "script" and self.base_url is None:
            raise ValueError(f"provider `{self.provider}` needs `baseUrl`; add it")
        return self


class Endpoints(RootModel[dict[str, Endpoint]]):
    """`endpoints.yaml`: endpoints by name."""

    # What an editor checks the file with is no endpoint.
    model_config = ConfigDict(json_schema_extra={"properties": {"$schema": SCHEMA_URI}})
