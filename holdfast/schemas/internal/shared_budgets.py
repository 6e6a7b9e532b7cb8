"""What workers, runs and the workflow of a shared budget exchange.

A request to a model reserves a part of each budget before it is sent, and settles the part when its
usage is known. Scopes come from the worker and from verified tokens, never from a caller.
"""

from datetime import datetime, timedelta
from typing import Annotated, Final

from pydantic import AwareDatetime, Field

from holdfast.schemas import names
from holdfast.schemas.base import Lenient, sha256
from holdfast.schemas.settings.budgets import Per, SharedBudget

# A server accepts two thousand updates of a run.
MAX_UPDATES_A_RUN: Final = 1_000
LEASE: Final = timedelta(minutes=1)
"""How long a worker reserves of a lease."""
MAX_BATCH: Final = 200
"""Reservations of one update, and settlements of one update or signal."""


def key_of(name: str) -> str:
    """Return the key of an attempt, a run or a call: a workflow's id in it may be long."""
    return sha256(name.encode())[:32]


class BudgetScopes(Lenient):
    """The scopes that a run is counted in, and the budgets that its next request may exceed."""

    agent: str = names.UNASSIGNED
    principal: str = names.UNASSIGNED
    team: str = names.UNASSIGNED
    exempt: list[str] = []

    def of(self, per: Per) -> str:
        return "all" if per == "all" else str(getattr(self, per))


NO_SCOPES: Final = BudgetScopes()


class Reservation(Lenient):
    """What a request may use; `key` names one attempt at it, and `earlier` those before it.

    An `is_exempt` one is counted, and never refused. One of `calls` is settled at once.
    """

    key: str
    earlier: list[str] = []
    run: str
    tokens: int = 0
    cost: float = 0.0
    calls: dict[str, int] = {}
    is_exempt: bool = False


class CallReservation(Lenient):
    """The input of the activity `reserve_call`: a call that is about to run."""

    tool: str
    key: str
    scopes: BudgetScopes


class Lease(Lenient):
    """A share of a budget that a worker asks for, or has: for `LEASE`, it reserves of it itself."""

    key: str
    tokens: int
    cost: float


class Settlement(Lenient):
    """What an attempt has used; None: its end is unknown, and it counts as it reserved.

    Of a lease, it is the sum of its attempts and of that the estimated part. One that `is_open`
    has attempts that are on their way: it is as large as that now, and settled later.
    """

    key: str
    tokens: int | None = None
    cost: float | None = None
    estimated_tokens: int = 0
    estimated_cost: float = 0.0
    is_open: bool = False


class BudgetLimitsNow(Lenient):
    """The limits that a worker applies to its own reservations: those of its file."""

    max_cost: float | None = None
    max_tokens: int | None = None
    max_runs: int | None = None
    max_calls: dict[str, int] = {}
    warn_at: float = 0.8

    @classmethod
    def of(cls, budget: SharedBudget) -> "BudgetLimitsNow":
        return cls(**{name: getattr(budget, name) for name in cls.model_fields})


class BudgetUpdate(Lenient):
    """The argument of the update `reserve`: settlements count before reservations.

    `ends_at` is the end of the window by the worker's file, whose zone may have changed.
    """

    limits: BudgetLimitsNow
    ends_at: AwareDatetime | None = None
    reserve: Annotated[list[Reservation], Field(max_length=MAX_BATCH)] = []
    lease: Lease | None = None
    settle: Annotated[list[Settlement], Field(max_length=MAX_BATCH)] = []


class LimitUse(Lenient):
    """One limit of a budget."""

    limit: str
    """`maxCost`, `maxTokens`, `maxRuns` or `maxCalls.TOOL`."""
    most: float
    """The limit."""
    used: float
    """What is used, with what is reserved."""
    reserved: float = 0.0
    """Of that, what requests have reserved that are not settled yet."""
    estimated: float = 0.0
    """Of that, what attempts count whose end is unknown."""

    def text(self, currency: str | None = None) -> str:
        """Return it for people: `12.5 of 20 EUR (2 estimated)`."""
        kind, _, tool = self.limit.partition(".")
        units = {"maxCost": currency or "in cost", "maxCalls": f"calls of {tool}"}
        unit = units.get(kind) or kind.removeprefix("max").lower()
        lost = f" ({self.estimated:,.9g} estimated)" if self.estimated else ""
        return f"{self.used:,.9g} of {self.most:,.9g} {unit}{lost}"


class BudgetReceipt(Lenient):
    """The result of the update `reserve`: refusals by key, and limits that are nearly reached.

    `lease` is granted, in whole or in part. `shares` are what is used of each limit, as parts of
    it.
    """

    refused: dict[str, LimitUse] = {}
    warned: list[str] = []
    lease: Lease | None = None
    shares: dict[str, float] = {}


class OpenReservation(Lenient):
    """A reservation or a lease that is not settled.

    `is_over`: a later attempt has replaced its attempt. `until`: when its lease is to be reported.
    """

    tokens: int
    cost: float
    since: datetime
    until: datetime | None = None
    is_over: bool = False


class BudgetState(Lenient):
    """The state of one budget for one scope and window.

    `tokens` and `cost` are settled; of these, the estimated parts are those of attempts whose end
    is unknown. The sums of the `open` reservations are beside them. `runs` and `call_keys` are of
    those that were counted. `updates_a_run` stays as it was at the start: a run that is replayed
    with another would continue as new elsewhere.
    """

    name: str
    scope: str
    window: str
    ends_at: AwareDatetime
    currency: str | None = None
    limits: BudgetLimitsNow = BudgetLimitsNow()
    tokens: int = 0
    cost: float = 0.0
    estimated_tokens: int = 0
    estimated_cost: float = 0.0
    open_tokens: int = 0
    open_cost: float = 0.0
    runs: dict[str, None] = {}
    calls: dict[str, int] = {}
    call_keys: dict[str, None] = {}
    updates_a_run: int = MAX_UPDATES_A_RUN
    open: dict[str, OpenReservation] = {}
    warned: list[str] = []

    @property
    def workflow_id(self) -> str:
        return names.budget_workflow_id(self.name, self.scope, self.window)


class BudgetView(Lenient):
    """A budget for one scope and window, as people see it."""

    name: str
    """Its name."""
    scope: str
    """The principal, the agent or the team whose runs it counts, or `all`."""
    window: str
    """The day, week or month: `2026-03-01`, `2026-W09`, `2026-03`."""
    ends_at: AwareDatetime | None = None
    """When the window ends; without it, the budget's worker does not answer."""
    currency: str | None = None
    """The currency of costs, if the prices state one."""
    uses: list[LimitUse] = []
    """What is used of each limit."""

    def lines(self) -> list[str]:
        """Return the use of each limit, for people."""
        return [each.text(self.currency) for each in self.uses]
