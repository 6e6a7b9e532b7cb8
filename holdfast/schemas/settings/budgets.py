"""The budgets that many runs share, of a catalog's folder: `budgets.yaml`."""

from typing import Annotated, Final, Literal, get_args
from zoneinfo import ZoneInfo, available_timezones

from pydantic import AfterValidator, Field, RootModel, model_validator

from holdfast.schemas.base import Strict
from holdfast.schemas.budget import BudgetName, OnLimit
from holdfast.schemas.phrases import NAME_PATTERN, suggest_names

Per = Literal["principal", "agent", "team", "all"]
Window = Literal["day", "week", "month"]
MAX_BUDGETS: Final = 20
# A budget remembers which runs it has counted.
MAX_RUNS_COUNTED: Final = 10_000
MAX_TOOLS_COUNTED: Final = 20


def _known_zone(zone: str) -> str:
    try:
        ZoneInfo(zone)
    except (KeyError, OSError, ValueError):
        fix = suggest_names(zone, available_timezones(), "write one like Europe/Berlin")
        raise ValueError(f"there is no time zone `{zone}` on this machine; {fix}") from None
    return zone


TimeZone = Annotated[str, Field(max_length=100), AfterValidator(_known_zone)]


class SharedBudget(Strict):
    """How much all runs of a scope may use together, in each day, week or month."""

    name: Annotated[str, Field(pattern=NAME_PATTERN)]
    """Its name, in logs and lists."""
    per: Per
    """The runs that share it: those of a principal, an agent, a team, or all."""
    window: Window
    """The time after which it begins again; a week begins on Monday."""
    zone: TimeZone = "UTC"
    """The time zone of the window, such as Europe/Berlin."""
    max_cost: Annotated[float, Field(gt=0)] | None = None
    """Cost, by the endpoints' prices."""
    currency: Annotated[str, Field(pattern="^[A-Z]{3}$")] | None = None
    """The currency of `max_cost` (default: that of the endpoints, if all prices have the same)."""
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    """Tokens, of requests and answers."""
    max_runs: Annotated[int, Field(ge=1, le=MAX_RUNS_COUNTED)] | None = None
    """Runs that request a model."""
    max_calls: Annotated[
        dict[str, Annotated[int, Field(ge=0)]], Field(max_length=MAX_TOOLS_COUNTED)
    ] = {}
    """Calls of a tool, by the tool's name."""
    warn_at: Annotated[float, Field(gt=0, le=1)] = 0.8
    """The part of a limit at which the log warns."""
    on_limit: OnLimit = "finalize"
    """What a run does whose request does not fit: `finalize`, `fail` or `ask`."""
    approvers: Annotated[list[str], Field(min_length=1, max_length=100)] | None = None
    """Who decides with `ask` (default: the approvers of the run's agent)."""
    reserve: Annotated[int, Field(ge=1)] | None = None
    """The tokens that a request reserves (default: its estimated input and `maxOutputTokens`)."""

    @model_validator(mode="after")
    def _consistent(self) -> "SharedBudget":
        if self.name in get_args(BudgetName):
            raise ValueError(f"`{self.name}` is the name of a run's own budget; write another")
        if not (self.max_cost or self.max_tokens or self.max_runs or self.max_calls):
            raise ValueError(
                "the budget limits nothing; add `maxCost`, `maxTokens`, `maxRuns` or `maxCalls`"
            )
        if self.approvers and self.on_limit != "ask":
            raise ValueError(
                "`approvers` decide nothing without `onLimit: ask`; add it, or leave them out"
            )
        return self

    def describe(self) -> str:
        """Return what it limits: `maxCost 20 EUR, maxRuns 9 for each team a day`."""
        currency = f" {self.currency}" if self.currency else ""
        limits = [] if self.max_cost is None else [f"maxCost {self.max_cost:g}{currency}"]
        limits += [] if self.max_tokens is None else [f"maxTokens {self.max_tokens}"]
        limits += [] if self.max_runs is None else [f"maxRuns {self.max_runs}"]
        limits += [f"{most} calls of `{tool}`" for tool, most in self.max_calls.items()]
        whose = "all runs" if self.per == "all" else f"each {self.per}"
        return f"{', '.join(limits)} for {whose} a {self.window}"


class Budgets(RootModel[Annotated[list[SharedBudget], Field(max_length=MAX_BUDGETS)]]):
    """`budgets.yaml`: a list of budgets."""
