"""Model endpoints: the worker's own configuration, which no agent, run or model can change."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, JsonValue, RootModel, model_validator

from holdfast.schemas.base import SCHEMA_URI, Duration, Strict, Variable, parse_duration

ProviderName = Literal[
    "openai", "openai-responses", "anthropic", "ollama", "gemini", "bedrock", "script"
]
# Those with models behind them.
MODEL_PROVIDERS = ("openai", "openai-responses", "anthropic", "ollama", "gemini", "bedrock")


class Price(Strict):
    """The price of a million tokens.

    Tokens that are read from the provider's cache, or written to it, cost `input` unless `cached`
    or `cache_write` is set.
    """

    input: Annotated[float, Field(ge=0)]
    """Of a million tokens of the request."""
    output: Annotated[float, Field(ge=0)]
    """Of a million tokens of the answer."""
    cached: Annotated[float, Field(ge=0)] | None = None
    """Of a million tokens of the request that the provider had kept (default: `input`)."""
    cache_write: Annotated[float, Field(ge=0)] | None = None
    """Of a million tokens of the request that the provider now keeps (default: `input`)."""
    currency: Annotated[str, Field(pattern="^[A-Z]{3}$")] | None = None
    """The currency, such as EUR (default: none is stated)."""


class AwsAuth(Strict):
    """Requests are signed with AWS credentials, found as the AWS command line finds them."""

    type: Literal["aws"]
    region: str | None = None
    """The region of the service (default: that of the address, else of the worker's settings)."""
    profile: str | None = None
    """A profile of the AWS configuration files."""


class GoogleAuth(Strict):
    """Requests carry an access token of Google's Application Default Credentials."""

    type: Literal["google"]


class AzureAuth(Strict):
    """Requests carry a token of Microsoft Entra, found as Azure's libraries find it."""

    type: Literal["azure"]
    scope: str = "https://cognitiveservices.azure.com/.default"
    """What the token is for."""


# For editors: what is checked when the worker starts.
_ADDRESS: JsonValue = "^https?://[^/@]+([/?]|$)"
# What `_complete` checks.
_NEEDED: dict[str, JsonValue] = {
    "if": {"properties": {"provider": {"const": "script"}}},
    "then": {"required": ["file"], "properties": {"auth": False, "contextWindow": False}},
    "else": {"required": ["baseUrl"]},
    "dependentSchemas": {"auth": {"properties": {"apiKeyEnv": False}}},
}


class Endpoint(Strict):
    """One model server: its format, its address, and where its key is."""

    model_config = ConfigDict(json_schema_extra=_NEEDED)

    provider: ProviderName
    """The format of the server; `script` answers from a file."""
    base_url: Annotated[str | None, Field(json_schema_extra={"pattern": _ADDRESS})] = None
    """Where it is, such as https://api.openai.com/v1."""
    api_key_env: Variable | None = None
    """The environment variable that holds the key; never the key."""
    auth: Annotated[AwsAuth | GoogleAuth | AzureAuth | None, Field(discriminator="type")] = None
    """The worker's identity in a cloud, in place of a key."""
    headers: dict[str, str] = {}
    """Headers of every request, none of them secret."""
    headers_env: dict[str, Variable] = {}
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
        if self.auth is not None and (self.provider == "script" or self.api_key_env is not None):
            other = "apiKeyEnv" if self.api_key_env is not None else "provider: script"
            raise ValueError(f"`auth` and `{other}` exclude each other; remove one of them")
        if self.provider != "script" and self.base_url is None:
            raise ValueError(f"provider `{self.provider}` needs `baseUrl`; add it")
        return self


class Endpoints(RootModel[dict[str, Endpoint]]):
    """`endpoints.yaml`: endpoints by name."""

    # What an editor checks the file with is no endpoint.
    model_config = ConfigDict(json_schema_extra={"properties": {"$schema": SCHEMA_URI}})
