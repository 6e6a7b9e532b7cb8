"""What the tokens of a model cost: the endpoint's own `price`, else a price of the extra `prices`.

The extra is the package genai-prices, with the list prices of public providers in each release:
none is fetched. A model is looked up among those of the provider whose address the endpoint has, so
a server of one's own has no price, whatever its models are called.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cache, lru_cache
from importlib import metadata
from typing import TYPE_CHECKING, Any, Final

import httpx

from holdfast.runtime.text_safety import extra_command
from holdfast.schemas.agent import ModelSettings
from holdfast.schemas.settings.endpoints import Endpoint, Price
from holdfast.validation.problems import ValueProblem

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, Provider

PriceAt = Callable[[int], Price | None]
"""Returns the price of a request with so many tokens; some models have a dearer one for many."""
CURRENCY: Final = "USD"
MAX_KEPT_MODELS: Final = 1_000
MAX_NAME_CHARACTERS: Final = 300
_TOKENS = {
    "input_mtok": "input",
    "output_mtok": "output",
    "cache_read_mtok": "cached",
    "cache_write_mtok": "cache_write",
}
# For what no request has, unless an agent's `options` add it.
_OPTIONAL = {
    *("web_searches_kcount", "storage_searches_kcount", "cache_write_1h_mtok"),
    *("input_audio_mtok", "cache_audio_read_mtok", "output_audio_mtok"),
}


@cache
def price_list() -> "tuple[str, list[Provider]] | None":
    """Return the version of genai-prices, and the providers of its list; None without the extra."""
    try:
        # Not its snapshot, which a program may have replaced by a fetched one.
        from genai_prices.data import providers
    except ImportError:
        return None
    return metadata.version("genai-prices"), providers


def list_version(endpoint: Endpoint) -> str | None:
    """Return the version of the list that has the prices of an endpoint; None if it has its own."""
    found = price_list() if endpoint.price is None else None
    return found and found[0]


def price_of(endpoint: Endpoint, model: ModelSettings, input_tokens: int = 0) -> Price | None:
    """Return the price of a request that is made now with so many tokens; None if it is unknown."""
    is_long = len(model.name) > MAX_NAME_CHARACTERS
    if endpoint.price is not None or endpoint.base_url is None or is_long:
        return endpoint.price
    if (found := _listed(endpoint.base_url, model.name)) is None:
        return None
    listed, is_own = found
    # The list has variants by fields of the request, such as `service_tier`.
    options = {name: each for name, each in model.options.items() if isinstance(each, str)}
    prices = vars(listed.get_prices(datetime.now(UTC), options if is_own else None))
    amounts = {name: _at(each, input_tokens) for name, each in prices.items() if each is not None}
    if not {"input_mtok", "output_mtok"} <= amounts.keys() <= _TOKENS.keys() | _OPTIONAL:
        return None
    fields = {field: amounts[name] for name, field in _TOKENS.items() if name in amounts}
    return Price(**fields, currency=CURRENCY)


def prices_of(
    models: Iterable[ModelSettings], served: Mapping[str, Endpoint]
) -> dict[str, Price | None]:
    """Return the prices of models, by label, as far as their endpoints are known."""
    known = [each for each in models if each.endpoint in served]
    return {each.label: price_of(served[each.endpoint], each) for each in known}


def cost_problem(where: tuple[str, ...], label: str) -> ValueProblem:
    """Return the problem of a `maxCost` that needs the price of a model."""
    reason, fix = f"the model `{label}` has no price: its endpoint has none", "add its `price`"
    if (found := price_list()) is None:
        fix += f" or, for a public provider, {extra_command('prices')}"
    else:
        reason += f", and genai-prices {found[0]} does not list it"
    return ValueProblem(where, reason, f"{fix}; or limit `maxTokens`")


def list_advice(
    models: Iterable[ModelSettings], served: Mapping[str, Endpoint]
) -> Iterator[ValueProblem]:
    """Yield which of an agent's models have prices of the list, if some have."""
    unpriced = {name: each for name, each in served.items() if each.price is None}
    names = [f"`{label}`" for label, price in prices_of(models, unpriced).items() if price]
    if names and (found := price_list()) is not None:
        version = f"genai-prices {found[0]}, in {CURRENCY}"
        reason = f"the prices of {', '.join(names)} are those of {version}"
        yield ValueProblem((), reason, "")


@lru_cache(MAX_KEPT_MODELS)
def _listed(base_url: str, name: str) -> "tuple[ModelInfo, bool] | None":
    """Return a model of the list, and whether it is one of the endpoint's provider itself."""
    if (found := price_list()) is None:
        return None
    url = httpx.URL(base_url)
    address = f"{url.scheme}://{url.netloc.decode()}{url.path}"
    for provider in found[1]:
        # A pattern without an end of its own also matches the beginning of another host's name.
        if re.match(rf"(?:{provider.api_pattern})(?:(?<=[./])|(?=[/:])|\Z)", address):
            model = provider.find_model(name, all_providers=found[1])
            own = any(model is each for each in provider.models)
            return None if model is None else (model, own)
    return None


def _at(price: Any, input_tokens: int) -> float:
    """Return a price, or of one with tiers that for so many tokens in the request."""
    reached = [tier.price for tier in getattr(price, "tiers", ()) if input_tokens > tier.start]
    return float(reached[-1] if reached else getattr(price, "base", price))
