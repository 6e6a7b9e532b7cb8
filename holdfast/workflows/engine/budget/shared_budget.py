"""The count of one shared budget, for one scope and window.

    reserve ─┬─► refused: with all that is used and reserved, it would exceed a limit
             └─► open ─┬─► settled, by its usage
                       └─► settled as reserved, estimated: its end is unknown

A key is reserved once and settled once: a repetition changes nothing, and a settlement without its
reservation is ignored. A reservation whose settlement was lost stays open, and counts as reserved.
So does a lease, which is a reservation that a worker makes ahead for the requests of a minute.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Final

from holdfast.schemas.internal import shared_budgets
from holdfast.schemas.internal.shared_budgets import LimitUse, Reservation, Settlement
from holdfast.schemas.internal.solution import add_amounts, decimal, round_amount

MAX_OPEN: Final = 2_000
# A lease has at most one of so many equal parts of what is left.
SHARES: Final = 10
# No request takes longer: an older reservation has ended, and its settlement is lost.
LONGEST_REQUEST: Final = timedelta(hours=1)


class BudgetCount(shared_budgets.BudgetState, frozen=False):
    """The count of a budget; as JSON, its state."""

    def apply(
        self, update: shared_budgets.BudgetUpdate, now: datetime
    ) -> shared_budgets.BudgetReceipt:
        """Settle and reserve, by the limits of the worker that sends the update."""
        is_other, self.limits = update.limits != self.limits, update.limits
        # The id of a count that has ended begins no other: its window lasts as long as any file's.
        self.ends_at = max(self.ends_at, update.ends_at or self.ends_at)
        self.settle(update.settle)
        refused = dict[str, LimitUse]()
        for each in update.reserve:
            if each.key in self.open or each.key in self.call_keys:
                continue
            refusal = None if each.is_exempt else self._refusal(each)
            if refusal is None:
                self._reserve(each, now)
            else:
                refused[each.key] = refusal
        lease = self._grant(update, now)
        uses = list(self._uses())
        near = [use.limit for use in uses if use.used >= self.limits.warn_at * use.most]
        warned = [name for name in near if name not in self.warned]
        # A limit that is no longer near, since it was raised, is warned of again.
        self.warned = near if is_other else [*self.warned, *warned]
        shares = {use.limit: round(use.used / (use.most or 1), 4) for use in uses}
        return shared_budgets.BudgetReceipt(
            refused=refused, warned=warned, lease=lease, shares=shares
        )

    def settle(self, settlements: Iterable[Settlement]) -> None:
        """Count what attempts have used, in place of what they reserved."""
        for each in settlements:
            if (reserved := self._release(each.key)) is None:
                continue
            tokens = reserved.tokens if each.tokens is None else each.tokens
            cost = reserved.cost if each.cost is None else each.cost
            if each.is_open:
                rest = {"tokens": tokens, "cost": cost, "until": None}
                self._hold(each.key, reserved.model_copy(update=rest))
                continue
            self.tokens += tokens
            self.cost = add_amounts(self.cost, cost)
            self.estimated_tokens += (
                reserved.tokens if each.tokens is None else each.estimated_tokens
            )
            lost = reserved.cost if each.cost is None else each.estimated_cost
            self.estimated_cost = add_amounts(self.estimated_cost, lost)

    def view(self, now: datetime) -> shared_budgets.BudgetView:
        """Return the budget as people see it."""
        lost = [one for one in self.open.values() if one.is_over or self._is_late(one, now)]
        tokens = self.estimated_tokens + sum(one.tokens for one in lost)
        cost = add_amounts(self.estimated_cost, *(one.cost for one in lost))
        parts = {"maxTokens": (self.open_tokens, tokens), "maxCost": (self.open_cost, cost)}
        uses = []
        for use in self._uses():
            reserved, estimated = parts.get(use.limit, (0, 0))
            uses.append(use.model_copy(update={"reserved": reserved, "estimated": estimated}))
        same = ("name", "scope", "window", "ends_at", "currency")
        return shared_budgets.BudgetView(**{name: getattr(self, name) for name in same}, uses=uses)

    def _is_late(self, one: shared_budgets.OpenReservation, now: datetime) -> bool:
        return now > (one.until or one.since + LONGEST_REQUEST)

    def _uses(self) -> Iterator[LimitUse]:
        limits = self.limits
        used: list[tuple[str, float, float | None]] = [
            ("maxCost", add_amounts(self.cost, self.open_cost), limits.max_cost),
            ("maxTokens", self.tokens + self.open_tokens, limits.max_tokens),
            ("maxRuns", len(self.runs), limits.max_runs),
            *(
                (f"maxCalls.{tool}", self.calls.get(tool, 0), most)
                for tool, most in limits.max_calls.items()
            ),
        ]
        for name, amount, most in used:
            if most is not None:
                yield LimitUse(limit=name, most=most, used=amount)

    def _refusal(self, wanted: Reservation) -> LimitUse | None:
        more = {
            "maxCost": wanted.cost,
            "maxTokens": wanted.tokens,
            "maxRuns": int(not wanted.calls and wanted.run not in self.runs),
            **{f"maxCalls.{tool}": n for tool, n in wanted.calls.items()},
        }
        for use in self._uses():
            added = more.get(use.limit, 0)
            if added and add_amounts(use.used, added) > use.most:
                return use
        return None

    def _reserve(self, wanted: Reservation, now: datetime) -> None:
        if wanted.calls:
            for tool, n in wanted.calls.items():
                self.calls[tool] = self.calls.get(tool, 0) + n
            self.call_keys[wanted.key] = None
            if len(self.call_keys) > MAX_OPEN:
                del self.call_keys[next(iter(self.call_keys))]
            return
        for key in wanted.earlier:
            if (replaced := self.open.get(key)) is not None:
                self.open[key] = replaced.model_copy(update={"is_over": True})
        self._hold(
            wanted.key,
            shared_budgets.OpenReservation(tokens=wanted.tokens, cost=wanted.cost, since=now),
        )
        if self.limits.max_runs is not None:
            self.runs[wanted.run] = None
        if len(self.open) > MAX_OPEN:
            self.settle([Settlement(key=next(iter(self.open)))])

    def _grant(
        self, update: shared_budgets.BudgetUpdate, now: datetime
    ) -> shared_budgets.Lease | None:
        """Grant what a worker asks for, as far as other workers have most of what is left.

        A share that one more request like those of the update would not fit into is of no use.
        """
        wanted = update.lease
        if wanted is None:
            return None
        left = {use.limit: (use.most - use.used) / SHARES for use in self._uses()}
        tokens = min(wanted.tokens, int(left.get("maxTokens", wanted.tokens)))
        cost = round_amount(decimal(min(wanted.cost, left.get("maxCost", wanted.cost))))
        if any(each.tokens > tokens or each.cost > cost for each in update.reserve):
            return None
        until = now + shared_budgets.LEASE
        lease = shared_budgets.OpenReservation(tokens=tokens, cost=cost, since=now, until=until)
        self._hold(wanted.key, lease)
        return shared_budgets.Lease(key=wanted.key, tokens=tokens, cost=cost)

    def _hold(self, key: str, reserved: shared_budgets.OpenReservation) -> None:
        self.open[key] = reserved
        self.open_tokens += reserved.tokens
        self.open_cost = add_amounts(self.open_cost, reserved.cost)

    def _release(self, key: str) -> shared_budgets.OpenReservation | None:
        if (reserved := self.open.pop(key, None)) is not None:
            self.open_tokens -= reserved.tokens
            self.open_cost = add_amounts(self.open_cost, -reserved.cost)
        return reserved
