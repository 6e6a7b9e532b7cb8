"""Model endpoints: the worker's own configuration, which no agent, run or model can change."""

from typing import Annotated, Literal

from pydantic import Field, RootModel, model_validator

from schemas.base import Duration, Strict, parse_duration

ProviderName = Literal["openai", "script"]


class Price(Strict):
    """The price of a million tokens. Cached tokens cost `input` unless `cached` is said."""

    input: Annotated[float, Field(ge=0)]
    output: Annotated[float, Field(ge=0)]
    cached: Annotated[float, Field(ge=0)] | None = None


class Endpoint(Strict):
    """One model server: which format it speaks, where it is, and where its key is kept.

    `timeout` is the longest silence of a model that is answering. `api_key_env` names the
    environment variable that holds the key. `file` is the provider `script`'s file of answers.
    """

    provider: ProviderName
    base_url: str | None = None
    api_key_env: str | None = None
    headers: dict[str, str] = {}
    timeout: Duration = parse_duration("5m")
    price: Price | None = None
    file: str | None = None

    @model_validator(mode="after")
    def _complete(self) -> "Endpoint":
        if self.provider == "script" and self.file is None:
            raise ValueError("provider `script` needs `file`, the YAML or JSON file of its answers")
        if self.provider != "script" and self.base_url is None:
            raise ValueError(f"provider `{self.provider}` needs `baseUrl`")
        return self


class Endpoints(RootModel[dict[str, Endpoint]]):
    """`endpoints.yaml`: endpoints by name."""
