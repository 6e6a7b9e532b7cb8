"""The answer of a model in one turn, and its cost."""

from decimal import Decimal
from typing import Annotated, Any, Final, Literal

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from holdfast.schemas.base import Json, Lenient
from holdfast.schemas.budget import OnLimit

_COUNTED = ("input_tokens", "output_tokens", "cost")
# In heartbeats and errors of `generate`: what answers used that ended in a failure, a `Usage`.
FAILED_USAGE: Final = "failedUsage"
StopReason = Literal["stop", "calls", "length", "filtered"]
AMOUNT_DIGITS = 9


def add_amounts(*amounts: float) -> float:
    """Return the sum of amounts of money, computed as decimals."""
    return round_amount(sum(map(decimal, amounts), Decimal()))


def decimal(amount: float) -> Decimal:
    """Return an amount as it is written: 0.1 is a tenth."""
    return Decimal(repr(amount))


def round_amount(amount: Decimal) -> float:
    """Return an amount as a number with at most nine decimal places."""
    return round(float(amount), AMOUNT_DIGITS)


class Usage(Lenient):
    """Tokens, and their price in the currency of the endpoint's price list. `None` is unknown."""

    input_tokens: int | None = None
    """Of the requests."""
    output_tokens: int | None = None
    """Of the answers."""
    cached_tokens: int | None = None
    """Of the requests, those that the provider had kept."""
    cost: float | None = None
    """By the endpoint's prices."""
    currency: Annotated[str | None, Field(exclude_if=lambda code: code is None)] = None
    """Of the cost, where the prices state one and the same."""
    # What it costs is reported, so it is of no use to a run, and never leaves the process.
    written_tokens: SkipJsonSchema[int | None] = Field(default=None, exclude=True)
    """Of the requests, those that the provider keeps from now on."""

    def plus(self, other: "Usage") -> "Usage":
        """Return the sum of both: unknown where one of them is unknown; no amount is converted."""
        pairs = {name: (getattr(self, name), getattr(other, name)) for name in _COUNTED}
        known = {name: None if None in pair else sum(pair) for name, pair in pairs.items()}
        if known["cost"] is not None:
            known["cost"] = add_amounts(*pairs["cost"])
        # A provider without a cache reports tokens, and none that were cached.
        cached = (self.cached_tokens or 0) + (other.cached_tokens or 0)
        known["cached_tokens"] = None if known["input_tokens"] is None else cached
        stated = {each.currency for each in (self, other) if each.cost}
        return Usage(**known, currency=stated.pop() if len(stated) == 1 else None)

    def minus(self, other: "Usage") -> "Usage":
        """Return the difference: unknown where one of both is unknown."""
        counts = [(name, getattr(other, name)) for name in (*_COUNTED, "cached_tokens")]
        less = {name: None if n is None else -n for name, n in counts}
        return self.plus(Usage(**less, currency=other.currency))


NO_USAGE: Final = Usage(input_tokens=0, output_tokens=0, cost=0.0)


class WrittenCall(Lenient):
    """A call as the model wrote it: nothing in it has been checked.

    `arguments` is None where none arrived, not even empty ones. `oversize_bytes` is the size of
    arguments that were too large to be kept.
    """

    provider_id: str | None = None
    tool: str
    arguments: dict[str, Any] | str | None = ""
    oversize_bytes: int | None = None


class OverBudget(Lenient):
    """A shared budget that a request does not fit into: of `limit`, `used` is used or reserved.

    A limit is `maxCost`, `maxTokens`, `maxRuns` or `maxCalls.TOOL`.
    """

    name: str
    scope: str
    limit: str
    used: float
    most: float
    on_limit: OnLimit
    approvers: list[str] | None = None

    @property
    def label(self) -> str:
        return f"{self.name} ({self.limit}: {self.used:.9g} of {self.most:.9g}, {self.scope})"


class Solution(Lenient):
    """One answer of a model.

    `provider_data` is what its provider requires with the answer in the next request, such as
    signatures of its reasoning. No one else reads it. `window` is the context window of the model,
    in tokens, if the conversation uses much of it. `too_long`: it exceeds the window, and there is
    no answer. `no_tools`: the model does not support tools, so a request with some has no answer.
    `refused` is why the provider ended the answer without one. `over_budget`: the request was not
    sent, since it does not fit into these budgets. `failed_usage` is that of failed answers before
    a request that has none. `genai_prices` is the version of that package, if the cost is by its
    list.
    """

    text: str = ""
    calls: list[WrittenCall] = []
    provider_data: Json = None
    stop_reason: StopReason = "stop"
    usage: Usage = Usage()
    model: str | None = None
    notices: list[str] = []
    window: int | None = None
    too_long: bool = False
    no_tools: bool = False
    refused: str | None = None
    over_budget: list[OverBudget] = []
    failed_usage: Usage | None = None
    genai_prices: str | None = None
