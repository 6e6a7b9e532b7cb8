"""One budget of one scope and window, as one worker uses it.

Reservations that come while an update is on its way share the next one, which also has the
settlements of earlier requests; so a request costs at most one Action. A scope that is busy leases:
its update asks for a share of what is left, about what it reserved in the last minute, and the
requests of the next minute spend that share without an update. What is left to settle is sent by a
signal: soon after an answer without calls, which may be the last of its run, else after a minute,
and when the worker stops. A settlement that is lost leaves the reservation, or the lease, counted.
"""

import asyncio
import logging
import math
from collections import deque
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import uuid4

from temporalio.client import Client, WithStartWorkflowOperation
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.service import RPCError, RPCStatusCode

from holdfast.runtime.text_safety import clean
from holdfast.schemas import names
from holdfast.schemas.internal import shared_budgets
from holdfast.schemas.internal.shared_budgets import Reservation, Settlement
from holdfast.schemas.internal.solution import add_amounts

UPDATE_TIMEOUT: Final = timedelta(seconds=10)
SOON: Final = timedelta(seconds=1)
LATEST: Final = timedelta(minutes=1)
MAX_SETTLEMENTS: Final = 10_000
# So many requests within a lease's time make a scope busy; and so many are remembered of it.
BUSY: Final = 10
MAX_REMEMBERED: Final = 1_000
_LEASED: Final = shared_budgets.BudgetReceipt()
_Future = asyncio.Future[shared_budgets.BudgetReceipt]
logger = logging.getLogger("holdfast")


class BudgetError(Exception):
    """A request must not be sent: a budget does not answer, or, if `is_final`, cannot count it."""

    def __init__(self, message: str, *, is_final: bool = False) -> None:
        super().__init__(message)
        self.is_final = is_final


class BudgetAccount:
    """The reservations and settlements of one worker in one budget, and the share it leases."""

    def __init__(self, client: Client, task_queue: str, state: shared_budgets.BudgetState) -> None:
        self.state = state
        self.limits = state.limits
        # What is used of each limit, as a part of it, at the time of the last update.
        self.shares: dict[str, float] = {}
        self._client, self._task_queue = client, task_queue
        self._waiting: dict[str, tuple[Reservation, _Future]] = {}
        self._settled: list[Settlement] = []
        self._sending: asyncio.Task[None] | None = None
        self._flushing: asyncio.Task[None] | None = None
        self._flush_at = math.inf
        # The requests that could spend of a lease, by the loop's time.
        self._recent = deque[tuple[float, Reservation]](maxlen=MAX_REMEMBERED)
        self._lease: _Lease | None = None
        # The lease that an unsettled request spends of.
        self._lease_of: dict[str, _Lease] = {}

    def apply_file(self, limits: shared_budgets.BudgetLimitsNow, ends_at: datetime) -> None:
        """Apply the limits and the window's end by the worker's file from now on."""
        self.state = self.state.model_copy(update={"ends_at": ends_at})
        if limits != self.limits:
            self._end_lease(self._lease)
            self.limits = limits

    async def reserve(self, wanted: Reservation) -> shared_budgets.BudgetReceipt:
        """Reserve of the lease, or with the next update; return the receipt.

        Raises:
            BudgetError: the budget does not answer.
        """
        loop = asyncio.get_running_loop()
        if self._can_lease(wanted):
            self._recent.append((loop.time(), wanted))
            if self._spend(wanted):
                return _LEASED
        future: _Future = loop.create_future()
        self._waiting[wanted.key] = (wanted, future)
        if self._sending is None:
            self._sending = asyncio.create_task(self._send())
        return await future

    def release(self, key: str) -> None:
        """Free a reservation whose request is not sent."""
        if self._waiting.pop(key, None) is None:
            self.settle(Settlement(key=key, tokens=0, cost=0.0))

    def settle(self, settlement: Settlement, *, is_last: bool = False) -> None:
        """Settle with the lease, the next update, or a signal: soon, if it may be the last."""
        if (lease := self._lease_of.pop(settlement.key, None)) is None:
            self._report(settlement, SOON if is_last else LATEST)
            return
        lease.settle(settlement)
        if lease is not self._lease and not (total := lease.total()).is_open:
            self._report(total, SOON)

    async def close(self) -> None:
        """Return what is left of the lease, and send the settlements."""
        self._end_lease(self._lease)
        await self._flush()

    def _can_lease(self, wanted: Reservation) -> bool:
        # Runs and calls are counted one by one, and a request that may exceed the budget is, too.
        return self.limits.max_runs is None and not (wanted.calls or wanted.is_exempt)

    def _spend(self, wanted: Reservation) -> bool:
        """Reserve of the lease, if it has room and time left."""
        lease, now = self._lease, asyncio.get_running_loop().time()
        if lease is None or now >= lease.ends_at or not lease.spend(wanted):
            return False
        self._lease_of[wanted.key] = lease
        return True

    def _wanted_lease(self) -> shared_budgets.Lease | None:
        """Return the share that a busy scope asks for: what it reserved within a lease's time."""
        since = asyncio.get_running_loop().time() - shared_budgets.LEASE.total_seconds()
        while self._recent and self._recent[0][0] < since:
            self._recent.popleft()
        if len(self._recent) < BUSY:
            return None
        recent = [each for _, each in self._recent]
        return shared_budgets.Lease(
            key=uuid4().hex,
            tokens=sum(each.tokens for each in recent),
            cost=add_amounts(*(each.cost for each in recent)),
        )

    def _begin_lease(self, share: shared_budgets.Lease, asked_at: float) -> None:
        # Its time is counted from before it was granted: no clock but this one is compared.
        ends_at = asked_at + shared_budgets.LEASE.total_seconds()
        lease = self._lease = _Lease(share, ends_at)
        asyncio.get_running_loop().call_at(ends_at, self._end_lease, lease)
        for wanted, future in list(self._waiting.values()):
            if self._can_lease(wanted) and self._spend(wanted):
                del self._waiting[wanted.key]
                _answer(future, _LEASED)

    def _end_lease(self, lease: "_Lease | None") -> None:
        """Report a lease, if it has not ended yet."""
        if lease is not None and lease is self._lease:
            self._lease = None
            self._report(lease.total(), SOON)

    def _report(self, settlement: Settlement, within: timedelta) -> None:
        self._settled = [*self._settled, settlement][-MAX_SETTLEMENTS:]
        self._schedule_flush(within)

    def _schedule_flush(self, within: timedelta) -> None:
        at = asyncio.get_running_loop().time() + within.total_seconds()
        if at < self._flush_at:
            if self._flushing is not None:
                self._flushing.cancel()
            self._flush_at, self._flushing = at, asyncio.create_task(self._flush_in(within))

    async def _flush(self) -> None:
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
        await self._flush()
        if self._settled:  # Temporal did not answer
            self._schedule_flush(LATEST)

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
                batch = [self._waiting.pop(key) for key in keys]
                await self._send_batch([each for each, _ in batch], [each for _, each in batch])
        finally:
            self._sending = None

    async def _send_batch(self, reserve: list[Reservation], futures: list[_Future]) -> None:
        asked_at, lease = asyncio.get_running_loop().time(), None
        if any(map(self._can_lease, reserve)):
            self._end_lease(self._lease)  # it has no room or no time for these
            lease = self._wanted_lease()
        settled = self._take_settled()
        update = shared_budgets.BudgetUpdate(
            limits=self.limits,
            ends_at=self.state.ends_at,
            reserve=reserve,
            settle=settled,
            lease=lease,
        )
        try:
            receipt = await self._update(update)
        except Exception as error:
            # Settled twice is settled once: it may have arrived.
            self._settled = [*settled, *self._settled]
            if lease is not None:
                self._report(Settlement(key=lease.key, tokens=0, cost=0.0), LATEST)
            failure = BudgetError(f"the budget {self.state.name} does not answer: {error}")
            for future in futures:
                if not future.done():
                    future.set_exception(failure)
            return
        for future in futures:
            if _answer(future, receipt):
                receipt = receipt.model_copy(update={"warned": []})
        if receipt.lease is not None:
            self._begin_lease(receipt.lease, asked_at)

    async def _update(self, update: shared_budgets.BudgetUpdate) -> shared_budgets.BudgetReceipt:
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


class _Lease:
    """A share of a budget, which requests of this worker spend until `ends_at`, a loop's time."""

    def __init__(self, share: shared_budgets.Lease, ends_at: float) -> None:
        self.ends_at = ends_at
        self._key = share.key
        self._left_tokens, self._left_cost = share.tokens, share.cost
        self._tokens = self._estimated_tokens = 0
        self._cost = self._estimated_cost = 0.0
        self._running: dict[str, Reservation] = {}

    def spend(self, wanted: Reservation) -> bool:
        """Reserve what an attempt may use, if that much is left."""
        if wanted.tokens > self._left_tokens or wanted.cost > self._left_cost:
            return False
        self._running[wanted.key] = wanted
        self._left_tokens -= wanted.tokens
        self._left_cost = add_amounts(self._left_cost, -wanted.cost)
        return True

    def settle(self, settlement: Settlement) -> None:
        """Count what an attempt has used, and have the rest of its reservation left again."""
        reserved = self._running.pop(settlement.key)
        tokens, cost = settlement.tokens, settlement.cost
        if tokens is None:
            tokens = reserved.tokens
            self._estimated_tokens += tokens
        if cost is None:
            cost = reserved.cost
            self._estimated_cost = add_amounts(self._estimated_cost, cost)
        self._left_tokens += reserved.tokens - tokens
        self._left_cost = add_amounts(self._left_cost, reserved.cost, -cost)
        self._tokens += tokens
        self._cost = add_amounts(self._cost, cost)

    def total(self) -> Settlement:
        """Return what is used, and with it what attempts on their way have reserved."""
        running = self._running.values()
        return Settlement(
            key=self._key,
            tokens=self._tokens + sum(each.tokens for each in running),
            cost=add_amounts(self._cost, *(each.cost for each in running)),
            estimated_tokens=self._estimated_tokens,
            estimated_cost=self._estimated_cost,
            is_open=bool(running),
        )


def _answer(future: _Future, receipt: shared_budgets.BudgetReceipt) -> bool:
    """Give a request its receipt, unless it is cancelled."""
    if future.done():
        return False
    future.set_result(receipt)
    return True
