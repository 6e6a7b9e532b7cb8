"""Prices of genai-prices: which model has which, what they cost, and what `check` reports."""

import sys
from collections.abc import Iterator
from typing import Any

import genai_prices
import pytest

from holdfast.activities.generate import token_cost
from holdfast.catalog import prices
from holdfast.catalog.loader import Catalog, load_catalog
from holdfast.catalog.prices import price_of
from holdfast.hosting.sdk_workarounds.activity_definitions import activity_definition
from holdfast.runtime.settings_files.file_problems import LoadError
from holdfast.schemas.agent import ModelSettings
from holdfast.schemas.internal.solution import Usage
from holdfast.schemas.settings.budgets import SharedBudget
from holdfast.schemas.settings.endpoints import Endpoint, Price
from tests.catalog.catalog_folder import Folder

OPENAI = "https://api.openai.com/v1"
ANTHROPIC = "https://api.anthropic.com"
GOOGLE = "https://generativelanguage.googleapis.com"
VERTEX = "https://europe-west1-aiplatform.googleapis.com/v1/projects/a/publishers/anthropic"
BEDROCK = "https://bedrock-runtime.eu-central-1.amazonaws.com"
AZURE = "https://acme.openai.azure.com/openai/v1"
LIST = f"genai-prices {genai_prices.__version__}"


def at(url: str | None, **more: Any) -> Endpoint:
    return Endpoint(provider="openai", base_url=url or "http://127.0.0.1:8080/v1", **more)


def of_list(url: str, name: str, **options: Any) -> Price | None:
    return price_of(at(url), ModelSettings(endpoint="m", name=name, options=options))


@pytest.fixture
def without_extra(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    kept = (prices.price_list, prices._listed)
    for each in kept:
        each.cache_clear()
    monkeypatch.setitem(sys.modules, "genai_prices.data", None)
    yield
    for each in kept:
        each.cache_clear()


@pytest.mark.parametrize(
    ("url", "name", "tokens", "options"),
    [
        (OPENAI, "gpt-4o-mini-2024-07-18", {"input": 900, "output": 80, "cache_read": 500}, {}),
        (OPENAI, "gpt-5", {"input": 900, "output": 80}, {"service_tier": "priority"}),
        (OPENAI, "ft:gpt-4o-mini-2024-07-18:acme::x", {"input": 900, "output": 80}, {}),
        (ANTHROPIC, "claude-sonnet-4-5", {"input": 200_000, "output": 80, "cache_write": 9}, {}),
        # A tier begins above so many tokens in the request, and has a price for all of them.
        (ANTHROPIC, "claude-sonnet-4-5", {"input": 200_001, "output": 80, "cache_write": 9}, {}),
        (GOOGLE, "gemini-2.5-flash", {"input": 900, "output": 80, "cache_read": 500}, {}),
        (VERTEX, "claude-sonnet-4-5@20250929", {"input": 900, "output": 80}, {"speed": "fast"}),
        (BEDROCK, "eu.anthropic.claude-sonnet-4-5-20250929-v1:0", {"input": 9, "output": 8}, {}),
        (AZURE, "gpt-4o", {"input": 900, "output": 80}, {}),
        ("https://openrouter.ai/api/v1", "openai/gpt-4o-mini", {"input": 900, "output": 80}, {}),
        ("https://api.moonshot.ai/v1", "kimi-k2-0905-preview", {"input": 9, "output": 8}, {}),
    ],
)
def test_a_request_costs_what_genai_prices_computes(
    url: str, name: str, tokens: dict[str, int], options: dict[str, str]
) -> None:
    listed = genai_prices.calc_price(
        genai_prices.Usage(**{f"{kind}_tokens": count for kind, count in tokens.items()}),
        name,
        provider_api_url=url,
        price_context=options,
    )
    usage = Usage(
        input_tokens=tokens["input"],
        output_tokens=tokens["output"],
        cached_tokens=tokens.get("cache_read"),
        written_tokens=tokens.get("cache_write"),
    )
    model = ModelSettings(endpoint="m", name=name, options=options)
    price = price_of(at(url), model, tokens["input"])
    assert price is not None
    assert price.currency == "USD"
    assert token_cost(usage, price) == pytest.approx(float(listed.total_price), abs=1e-9)
    assert listed.total_price > 0


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("http://127.0.0.1:8080/v1", "gpt-4o"),
        ("https://api.openai.com.proxy.acme.org/v1", "gpt-4o"),
        ("https://models.acme.org/api.openai.com", "gpt-4o"),
        (OPENAI, "claude-sonnet-4-5"),
        (OPENAI, "gpt-4o-of-ours"),
        (OPENAI, ""),
        # Prices of requests, or none of answers: tokens alone are not what it costs.
        ("https://api.perplexity.ai", "sonar"),
        (OPENAI, "text-embedding-3-small"),
    ],
)
def test_what_the_list_does_not_price_by_tokens_has_no_price(url: str, name: str) -> None:
    assert of_list(url, name) is None


def test_an_endpoints_own_price_wins() -> None:
    own = Price(input=1, output=2)
    model = ModelSettings(endpoint="m", name="gpt-4o")
    assert price_of(at(OPENAI, price=own), model) == own


@pytest.mark.usefixtures("without_extra")
def test_without_the_extra_no_model_has_a_listed_price() -> None:
    assert of_list(OPENAI, "gpt-4o") is None


def check(shop: Folder, *budgets: SharedBudget, **served: Endpoint) -> Catalog:
    return load_catalog(
        shop.path,
        endpoints=served,
        served=served,
        budgets=budgets,
        read_definition=activity_definition,
    )


def problems(shop: Folder, **served: Endpoint) -> list[str]:
    with pytest.raises(LoadError) as refused:
        check(shop, **served)
    return [str(each).replace(f"{shop.path}/", "") for each in refused.value.problems]


def test_check_reports_a_model_whose_cost_is_limited_and_unknown(shop: Folder) -> None:
    shop.write("budgets.yaml", "- name: all\n  per: all\n  window: day\n  maxCost: 20\n")
    shop.write("agents/a.yaml", "model: [{endpoint: m, name: gpt-4o}, {endpoint: n, name: x}]\n")
    none = f"has no price: its endpoint has none, and {LIST} does not list it"
    fix = "add its `price`; or limit `maxTokens`"
    assert problems(shop, m=at(OPENAI), n=at(None)) == [
        f"budgets.yaml:4: `[0].maxCost`: the model `n/x` {none}; {fix}",
    ]


@pytest.mark.parametrize(
    ("place", "line", "budget"),
    [
        ("budget.maxCost", 3, "budget:\n  maxCost: 2\n"),
        ("budget.total.maxCost", 4, "budget:\n  total:\n    maxCost: 2\n"),
        ("budget.perMessage.maxCost", 2, "budget: {perMessage: {maxCost: 2}}\n"),
        # Of the catalog's limits.
        ("budget.maxCost", 1, ""),
    ],
)
def test_check_reports_an_agents_own_limit_of_an_unknown_cost(
    place: str, line: int, budget: str, shop: Folder
) -> None:
    shop.write("limits.yaml", "budget: {}\n" if budget else "budget: {maxCost: 2}\n")
    shop.write("agents/a.yaml", f"model: m:gpt-0\n{budget}")
    [problem] = problems(shop, m=at(OPENAI))
    assert problem.startswith(f"agents/a.yaml:{line}: `{place}`: the model `m/gpt-0` has no price")


@pytest.mark.usefixtures("without_extra")
def test_check_names_the_extra_that_is_missing(shop: Folder) -> None:
    shop.write("agents/a.yaml", "model: m:gpt-4o\n")
    shop.write("budgets.yaml", "- {name: all, per: all, window: day, maxCost: 20}\n")
    assert problems(shop, m=at(OPENAI)) == [
        "budgets.yaml:1: `[0].maxCost`: the model `m/gpt-4o` has no price: its endpoint has"
        " none; add its `price` or, for a public provider, pip install 'holdfast-agents[prices]';"
        " or limit `maxTokens`"
    ]


def test_check_reports_which_prices_are_listed(shop: Folder) -> None:
    shop.write("agents/a.yaml", "model: [{endpoint: m, name: gpt-4o}, {endpoint: n}]\n")
    own = SharedBudget(name="desk", per="all", window="week", max_cost=9)
    price = Price(input=1, output=2, currency="USD")
    catalog = check(shop, own, m=at(OPENAI), n=at(None, price=price))
    assert [each.currency for each in catalog.budgets] == ["USD"]
    assert [str(each).replace(f"{shop.path}/", "") for each in catalog.advice] == [
        "agents/a.yaml:1: its runs use the budgets `desk` (maxCost 9 USD for all runs a week)",
        f"agents/a.yaml:1: the prices of `m/gpt-4o` are those of {LIST}, in USD",
    ]


def test_a_listed_price_in_another_currency_is_not_converted(shop: Folder) -> None:
    shop.write("agents/a.yaml", "model: [{endpoint: m, name: gpt-4o}, {endpoint: n}]\n")
    shop.write("budgets.yaml", "- {name: all, per: all, window: day, maxCost: 20}\n")
    price = Price(input=1, output=2, currency="EUR")
    [problem] = problems(shop, m=at(OPENAI), n=at(None, price=price))
    assert "the prices of the models have several currencies: EUR, USD" in problem
