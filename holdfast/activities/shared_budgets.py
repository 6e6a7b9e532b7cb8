"""The worker's side of shared budgets: a request reserves its part before it is sent.

Each budget counts in a workflow for each scope and window. The reservations of a worker's requests
that come while an update is on its way share the next one, which also has the settlements of
earlier requests; so a request costs at most one Action for each budget. What is left to settle is
sent by a signal: soon after an answer without calls, which may be the last of its run, else after a
minute, and when the worker stops. A settlement that is lost leaves the reservation counted.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final
from uuid import uuid4
from zoneinfo import ZoneInfo

from temporalio import activity
from temporalio.client import Client, WithStartWorkflowOperation
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from holdfast.runtime.text_safety import clean
from holdfast.schemas import names
from holdfast.schemas.internal import shared_budgets
from holdfast.schemas.internal.shared_budgets import Reservation, Settlement
from holdfast.schemas.internal.solution import OverBudget, Usage, decimal, round_amount
from holdfast.schemas.settings.budgets import SharedBudget
from holdfast.schemas.settings.endpoints import Price

UPDATE_TIMEOUT: Final = timedelta(seconds=10)
SOON: Final = timedelta(seconds=1)
LATEST: Final = timedelta(minutes=1)
MAX_SETTLEMENTS: Final = 10_000
logger = logging.getLogger("holdfast")
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


class BudgetError(Exception):
    """A request must not be sent: a budget does not answer, or, if `is_final`, cannot count it."""

    def __init__(self, message: str, *, is_final: bool = False) -> None:
        super().__init__(message)
        self.is_final = is_final


class Reserved:
    """The reservations of one attempt at a request, until it is settled; `notices` are of them."""

    def __init__(
        self, key: str = "", accounts: "Sequence[_Account]" = (), notices: Sequence[str] = ()
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
            each.settle(settlement, SOON if is_last else LATEST)
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
        self._accounts: dict[str, _Account] = {}

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
                **dict(refusal),
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
        attempt = Reservation(key=wanted.key, run=wanted.key, calls={wanted.tool: 1})
        try:
            found = await self.reserve(wanted.scopes, attempt)
        except BudgetError as error:
            raise ApplicationError(str(error)) from None
        return found[0].label if isinstance(found, list) else None

    def shares(self) -> dict[tuple[str, str], float]:
        """Return of each budget and limit the part that is used by the scope that uses most."""
        now, found = self._clock(), dict[tuple[str, str], float]()
        for each in self._accounts.values():
            for limit, share in each.shares.items() if each.state.ends_at > now else ():
                key = (each.state.name, limit)
                found[key] = max(share, found.get(key, 0.0))
        return found

    async def close(self) -> None:
        """Send what is left to settle."""
        await asyncio.gather(*(each.flush() for each in self._accounts.values()))

    def _account(self, budget: SharedBudget, scope: str) -> "_Account":
        now = self._clock()
        window, ends_at = window_at(budget, now)
        state = shared_budgets.BudgetState(
            name=budget.name, scope=scope, window=window, ends_at=ends_at, currency=budget.currency
        )
        if (account := self._accounts.get(state.workflow_id)) is None:
            for id, each in list(self._accounts.items()):
                if each.state.ends_at + timedelta(days=1) < now:
                    del self._accounts[id]
            account = _Account(self._client, self._task_queue, state)
            self._accounts[state.workflow_id] = account
        account.limits = shared_budgets.BudgetLimitsNow.of(budget)
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
            cost = tokens_cost(budget.reserve, max(price.input, price.output))
    return attempt.model_copy(update={"tokens": tokens, "cost": cost, "is_exempt": is_exempt})


def tokens_cost(tokens: int, price: float) -> float:
    return round_amount(tokens * decimal(price) / _MILLION)


class _Account:
    """One budget of one scope and window, with the reservations and settlements to be sent."""

    def __init__(self, client: Client, task_queue: str, state: shared_budgets.BudgetState) -> None:
        self.state = state
        self.limits = state.limits
        # What is used of each limit, as a part of it, at the time of the last update.
        self.shares: dict[str, float] = {}
        self._client, self._task_queue = client, task_queue
        self._waiting: dict[str, tuple[Reservation, asyncio.Future[Any]]] = {}
        self._settled: list[Settlement] = []
        self._sending: asyncio.Task[None] | None = None
        self._flushing: asyncio.Task[None] | None = None
        self._flush_at = math.inf

    async def reserve(self, wanted: Reservation) -> shared_budgets.BudgetReceipt:
        """Reserve with the next update, and return its receipt."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[shared_budgets.BudgetReceipt] = loop.create_future()
        self._waiting[wanted.key] = (wanted, future)
        if self._sending is None:
            self._sending = asyncio.create_task(self._send())
        return await future

    def release(self, key: str) -> None:
        """Free a reservation whose request is not sent."""
        if self._waiting.pop(key, None) is None:
            self.settle(Settlement(key=key, tokens=0, cost=0.0), LATEST)

    def settle(self, settlement: Settlement, within: timedelta) -> None:
        """Settle with the next update, or by a signal within a time."""
        self._settled = [*self._settled, settlement][-MAX_SETTLEMENTS:]
        at = asyncio.get_running_loop().time() + within.total_seconds()
        if at < self._flush_at:
            if self._flushing is not None:
                self._flushing.cancel()
            self._flush_at, self._flushing = at, asyncio.create_task(self._flush_in(within))

    async def flush(self) -> None:
        """Send the settlements by signals: they need no worker that answers."""
        if self._flushing is not None and self._flushing is not asyncio.current_task():
            self._flushing.cancel()
        self._flush_at, self._flushing = math.inf, None
        handle = self._client.get_workflow_handle(self.state.workflow_id)
        while self._settled:
            batch = self._take_settled()
            update = shared_budgets.BudgetUpdate(limits=self.limits, settle=batch)
            try:
                await handle.signal(names.SETTLE, update.to_json(), rpc_timeout=UPDATE_TIMEOUT)
            except RPCError as error:
                if error.status == RPCStatusCode.NOT_FOUND:
                    continue  # its window is over
                self._settled = [*batch, *self._settled]
                return

    async def _flush_in(self, pause: timedelta) -> None:
        await asyncio.sleep(pause.total_seconds())
        await self.flush()

    def _take_settled(self) -> list[Settlement]:
        batch = self._settled[: shared_budgets.MAX_BATCH]
        self._settled = self._settled[len(batch) :]
        return batch

    async def _send(self) -> None:
        """Send updates until no reservation waits."""
        try:
            while self._waiting:
                await asyncio.sleep(0)  # requests of the same moment share an update
                keys = list(self._waiting)[: shared_budgets.MAX_BATCH]
                batch, settled = [self._waiting.pop(key) for key in keys], self._take_settled()
                try:
                    receipt = await self._update([each for each, _ in batch], settled)
                except Exception as error:
                    # Settled twice is settled once: it may have arrived.
                    self._settled = [*settled, *self._settled]
                    reason = f"the budget {self.state.name} does not answer: {error}"
                    for _, future in batch:
                        if not future.done():
                            future.set_exception(BudgetError(reason))
                else:
                    for _, future in batch:
                        if not future.done():
                            future.set_result(receipt)
                            receipt = receipt.model_copy(update={"warned": []})
        finally:
            self._sending = None

    async def _update(
        self, reserve: Iterable[Reservation], settled: list[Settlement]
    ) -> shared_budgets.BudgetReceipt:
        start: WithStartWorkflowOperation[Any, Any] = WithStartWorkflowOperation(
            names.BUDGET_WORKFLOW,
            self.state.to_json(),
            id=self.state.workflow_id,
            task_queue=self._task_queue,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            # An operator starts a count again by terminating it.
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY,
            static_summary=f"The budget {self.state.name} of {self.state.scope}",
        )
        update = shared_budgets.BudgetUpdate(limits=self.limits, reserve=[*reserve], settle=settled)
        receipt = await self._client.execute_update_with_start_workflow(
            names.RESERVE,
            update.to_json(),
            start_workflow_operation=start,
            id=uuid4().hex,
            rpc_timeout=UPDATE_TIMEOUT,
        )
        found = shared_budgets.BudgetReceipt.read(receipt)
        self.shares = found.shares
        for limit in found.warned:
            name, scope = self.state.name, self.state.scope
            logger.warning("the budget %s of %s is nearly used up: %s", name, clean(scope), limit)
        return found
