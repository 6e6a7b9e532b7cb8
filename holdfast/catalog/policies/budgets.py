"""The budgets that runs share: `budgets.yaml`, and those of Python.

They are checked against the tools that they count and the prices of the models, and apply to each
request.
"""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from holdfast.catalog.prices import cost_problem
from holdfast.runtime.settings_files.file_problems import FileProblem, LoadError
from holdfast.runtime.settings_files.source import Source, read_source
from holdfast.schemas.budget import Budget
from holdfast.schemas.phrases import distinct_names, suggest_names
from holdfast.schemas.settings.budgets import Budgets, SharedBudget
from holdfast.schemas.settings.endpoints import Price
from holdfast.validation.problems import ValueProblem

BUDGETS = "budgets.yaml"


def load_budgets(
    folder: Path | None,
    python: Sequence[SharedBudget],
    tools: Collection[str] | None,
    prices: Mapping[str, Price | None],
) -> tuple[SharedBudget, ...]:
    """Load the budgets of a catalog folder, with those of Python.

    `tools` are the names that `maxCalls` may have, None if some are unknown, and `prices` those of
    the models that agents use, by label: a budget is returned with their currency.

    Raises:
        LoadError: a budget does not load, or does not fit the tools or the prices.
    """
    source = Source(BUDGETS, [])
    if folder is not None and os.path.lexists(folder / BUDGETS):
        source = read_source(folder / BUDGETS)
        if not isinstance(source.value, list):
            fix = "write each as `- {name: …, per: …, window: …}`"
            raise LoadError([source.problem(ValueProblem((), "budgets are a list", fix))])
    written = [*source.parse_as(Budgets).root, *python]
    faults = [
        fault.under(n)
        for n, each in enumerate(written)
        for fault in _budget_problems(each, written[:n], tools, prices)
    ]
    own = len(written) - len(python)
    problems = source.problems(each for each in faults if int(each.where[0]) < own)
    problems += (
        FileProblem(f"budget `{written[int(each.where[0])].name}`", None, each.reason, each.fix)
        for each in faults
        if int(each.where[0]) >= own
    )
    if problems:
        raise LoadError(problems)
    currencies = {price.currency for price in prices.values() if price}
    stated = currencies.pop() if len(currencies) == 1 else None
    return tuple(
        each if each.currency else each.model_copy(update={"currency": stated}) for each in written
    )


def budget_advice(budgets: Iterable[SharedBudget]) -> ValueProblem:
    """Return which budgets an agent's runs use."""
    told = "; ".join(f"`{each.name}` ({each.describe()})" for each in budgets)
    return ValueProblem((), f"its runs use the budgets {told}", "")


def cost_limit(budget: Budget) -> tuple[str, ...] | None:
    """Return the place of the `maxCost` of an agent's budget, if it has one."""
    parts = {(): budget, ("perMessage",): budget.per_message, ("total",): budget.total}
    places = (each for each, part in parts.items() if part and part.max_cost is not None)
    return next((("budget", *each, "maxCost") for each in places), None)


def _budget_problems(
    budget: SharedBudget,
    before: Iterable[SharedBudget],
    tools: Collection[str] | None,
    prices: Mapping[str, Price | None],
) -> Iterator[ValueProblem]:
    if any(each.name == budget.name for each in before):
        reason = f"another budget has the name `{budget.name}`"
        yield ValueProblem(("name",), reason, "give one of them another name")
    for tool in () if tools is None else budget.max_calls.keys() - {*tools}:
        reason, fix = f"there is no tool `{tool}`", suggest_names(tool, tools or (), "leave it out")
        yield ValueProblem(("maxCalls", tool), reason, fix)
    if budget.max_cost is None:
        return
    for name, price in prices.items():
        if price is None:
            yield cost_problem(("maxCost",), name)
    stated = {price.currency: name for name, price in prices.items() if price}
    if budget.currency is None and len(stated) > 1:
        found = distinct_names(sorted(each or "none" for each in stated))
        reason = f"the prices of the models have several currencies: {found}"
        yield ValueProblem(("maxCost",), reason, "make it a budget of `maxTokens`: none converts")
    for currency, name in stated.items() if budget.currency else ():
        if currency != budget.currency:
            has = f"has a price in {currency}" if currency else "states no currency of its price"
            reason = f"the budget is in {budget.currency}, and the model `{name}` {has}"
            fix = "write one `currency` in both: none is converted"
            yield ValueProblem(("currency",), reason, fix)
