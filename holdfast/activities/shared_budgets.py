"""The worker's side of shared budgets: a request reserves its part before it is sent.

Each budget counts in a workflow for each scope and window, which a `BudgetAccount` updates.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from holdfast.activities.budget_account import BudgetAccount, BudgetError
from holdfast.schemas import names
from holdfast.schemas.internal import shared_budgets
from holdfast.schemas.internal.shared_budgets import Reservation, Settlement
from holdfast.schemas.internal.solution import OverBudget, Usage, decimal, round_amount
from holdfast.schemas.settings.budgets import SharedBudget
from holdfast.schemas.settings.endpoints import Price

_MILLION: Final = 1_000_000


def window_at(budget: SharedBudget, now: datetime) -> tuple[str, datetime]:
    """Return the name of a budget's window at a time, and its end, by the clocks of its zone."""
    today = now.astimezone(ZoneInfo(budget.zone)).date()
    match budget.window:
        case "day":
            name, following = today.isoformat(), today + timedelta(days=1)
        case "week":
            year, week, weekday = today.isocalendar()
            name, following = f"{year}-W{week:02}", today + timedelta(days=8 - weekday)
        case "month":
            name = f"{today:%Y-%m}"
            following = date(today.year + today.month // 12, today.month % 12 + 1, 1)
    midnight = datetime.combine(following, time(), ZoneInfo(budget.zone))
    return name, midnight.astimezone(UTC)


class Reserved:
    """The reservations of one attempt at a request, until it is settled; `notices` are of them."""

    def __init__(
        self, key: str = "", accounts: Sequence[BudgetAccount] = (), notices: Sequence[str] = ()
    ) -> None:
        self._key, self._accounts, self._notices = key, accounts, notices

    def settle(self, usage: Usage, *, is_last: bool = False) -> Sequence[str]:
        """Settle with the usage, as far as it is known, and return notices for the run's log.

        `is_last`: the run may have ended.
        """
        counts = (usage.input_tokens, usage.output_tokens)
        tokens = None if None in counts else sum(n or 0 for n in counts)
        settlement = Settlement(key=self._key, tokens=tokens, cost=usage.cost)
        for each in self._accounts:
            each.settle(settlement, is_last=is_last)
        return self._notices


class SharedBudgets:
    """The shared budgets of one worker: those that its catalog has at the time of a request."""

    def __init__(
        self,
        client: Client,
        task_queue: str,
        budgets: Callable[[], Sequence[SharedBudget]],
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._client, self._task_queue = client, task_queue
        self._budgets, self._clock = budgets, clock
        self._accounts: dict[str, BudgetAccount] = {}

    @property
    def is_empty(self) -> bool:
        """Return whether the catalog has no shared budgets."""
        return not self._budgets()

    async def reserve(
        self,
        scopes: shared_budgets.BudgetScopes,
        attempt: Reservation,
        price: Price | None = None,
    ) -> Reserved | list[OverBudget]:
        """Reserve in every budget of a run, or in none; return the budgets that refuse.

        The attempt's `tokens` are estimated; its `calls` are reserved where a budget limits them.

        Raises:
            BudgetError: a budget does not answer, or limits a cost that is unknown.
        """
        wanted = [
            (budget, reservation)
            for budget in self._budgets()
            if (reservation := _part(budget, attempt, price, budget.name in scopes.exempt))
        ]
        accounts = [self._account(budget, scopes.of(budget.per)) for budget, _ in wanted]
        pairs = list(zip(accounts, (each for _, each in wanted), strict=True))
        try:
            receipts = await asyncio.gather(*(one.reserve(part) for one, part in pairs))
        except BaseException:
            # Nothing is sent: what was reserved, or still is, is free again.
            for one, part in pairs:
                one.release(part.key)
            raise
        over = [
            OverBudget(
                name=budget.name,
                scope=one.state.scope,
                on_limit=budget.on_limit,
                approvers=budget.approvers,
                **refusal.model_dump(include={"limit", "used", "most"}),
            )
            for (budget, part), one, receipt in zip(wanted, accounts, receipts, strict=True)
            if (refusal := receipt.refused.get(part.key)) is not None
        ]
        if over:
            for one, part in pairs:
                one.release(part.key)
            return over
        notices = [
            f"the budget {one.state.name} of {one.state.scope} is nearly used up: {limit}"
            for one, receipt in zip(accounts, receipts, strict=True)
            for limit in receipt.warned
        ]
        return Reserved(attempt.key, accounts, notices)

    @activity.defn(name=names.RESERVE_CALL)
    async def reserve_call(self, call: dict[str, Any]) -> str | None:
        """Count the call of a `CallReservation`; return the budget that has none left, if one has.

        Raises:
            ApplicationError: a budget does not answer.
        """
        wanted = shared_budgets.CallReservation.read(call)
        key = shared_budgets.key_of(wanted.key)
        attempt = Reservation(key=key, run=key, calls={wanted.tool: 1})
        try:
            found = await self.reserve(wanted.scopes, attempt)
        except BudgetError as error:
            raise ApplicationError(str(error)) from None
        return found[0].label if isinstance(found, list) else None

    def shares(self) -> dict[tuple[str, str], float]:
        """Return of each budget and limit the part that is used by the scope that uses most."""
        now, found = self._clock(), dict[tuple[str, str], float]()
        # An exporter's thread reads them, and requests add some meanwhile.
        for each in list(self._accounts.values()):
            for limit, share in each.shares.items() if each.state.ends_at > now else ():
                key = (each.state.name, limit)
                found[key] = max(share, found.get(key, 0.0))
        return found

    async def close(self) -> None:
        """Send what is left to settle."""
        await asyncio.gather(*(each.close() for each in self._accounts.values()))

    def _account(self, budget: SharedBudget, scope: str) -> BudgetAccount:
        now = self._clock()
        window, ends_at = window_at(budget, now)
        state = shared_budgets.BudgetState(
            name=budget.name, scope=scope, window=window, ends_at=ends_at, currency=budget.currency
        )
        if (account := self._accounts.get(state.workflow_id)) is None:
            for id, each in list(self._accounts.items()):
                if each.state.ends_at + timedelta(days=1) < now:
                    del self._accounts[id]
            account = BudgetAccount(self._client, self._task_queue, state)
            self._accounts[state.workflow_id] = account
        account.apply_file(shared_budgets.BudgetLimitsNow.of(budget), ends_at)
        return account


def _part(
    budget: SharedBudget, attempt: Reservation, price: Price | None, is_exempt: bool
) -> Reservation | None:
    """Return what an attempt reserves in a budget; None if the budget does not limit it."""
    calls = {tool: n for tool, n in attempt.calls.items() if tool in budget.max_calls}
    if attempt.calls:
        changes: dict[str, Any] = {"calls": calls, "is_exempt": is_exempt}
        return attempt.model_copy(update=changes) if calls else None
    if budget.max_cost is None and budget.max_tokens is None and budget.max_runs is None:
        return None
    tokens, cost = budget.reserve or attempt.tokens, attempt.cost
    if budget.max_cost is not None:
        if price is None or price.currency != budget.currency:
            raise BudgetError(
                f"the budget {budget.name} limits costs, and the endpoint has no price in"
                f" {budget.currency or 'its currency'}; add its `price`",
                is_final=True,
            )
        if budget.reserve is not None:
            dearest = decimal(max(price.input, price.output))
            cost = round_amount(budget.reserve * dearest / _MILLION)
    return attempt.model_copy(update={"tokens": tokens, "cost": cost, "is_exempt": is_exempt})
