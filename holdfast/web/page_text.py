"""Texts that several pages share: statuses, and the limits of budgets."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from holdfast.runtime import text_safety
from holdfast.runtime.narration.phrases import budget_phrase
from holdfast.schemas.base import format_duration, parse_duration
from holdfast.schemas.names import ErrorCode

# Each status with its label and the tone of its badge.
STATUS_LABELS: Final[Mapping[str, tuple[str, str]]] = {
    "running": ("running", "plain"),
    "awaiting_approval": ("waiting for approval", "asks"),
    "awaiting_message": ("waiting for a message", "asks"),
    "completed": ("completed", "good"),
    "stopped": ("ended by a tool", "good"),
    "budget_exceeded": ("out of budget", "bad"),
    "failed": ("failed", "bad"),
    "cancelled": ("cancelled", "dim"),
    "terminated": ("terminated", "bad"),
    "timed_out": ("timed out", "bad"),
}
_NEARLY: Final = 0.8
_UNREPORTED: Final = "unknown: not reported by the provider"
# Amounts of money are rounded to this number of digits.
_DIGITS: Final = 6


def status_label(status: str, code: str | None = None) -> tuple[str, str]:
    """Return the label and the tone of a status; `code` is the error of a failed run."""
    if (status, code) == ("failed", ErrorCode.DENIED):
        return "denied", "dim"
    return STATUS_LABELS.get(status, (text_safety.clean(status), "bad"))


@dataclass(frozen=True)
class BudgetUse:
    """The used and the remaining part of a budget in words."""

    name: str
    label: str
    used: str
    limit: str
    remaining: str
    is_nearly_used: bool = False
    is_exceeded: bool = False


def budget_uses(budget: Mapping[str, Any]) -> Iterator[BudgetUse]:
    """Yield the use of each budget that has a limit, from the `budget` of a run's status.

    In a conversation, the limits are those of a message, and `total` has those of the whole.
    """
    parts = [(name, budget_phrase(name, starts=True), one) for name, one in budget.items()]
    totals = [(f"total.{name}", f"{label} in all", one.get("total")) for name, label, one in parts]
    for name, label, one in [*parts, *totals]:
        if not one or one["limit"] is None:
            continue
        is_time, most = isinstance(one["limit"], str), one["limit"]
        if is_time:
            most = parse_duration(most).total_seconds()
        limit = _amount_text(most, is_time=is_time)
        spent = one.get("used")
        if spent is None:
            yield BudgetUse(name, label, "unknown", limit, _UNREPORTED)
            continue
        if is_time:
            spent = 0 if spent == "0ms" else parse_duration(spent).total_seconds()
        rest = most - spent
        yield BudgetUse(
            name,
            label,
            _amount_text(spent, is_time=is_time),
            limit,
            _amount_text(rest, is_time=is_time) if rest > 0 else "none",
            is_nearly_used=most > 0 and spent >= _NEARLY * most,
            is_exceeded=rest < 0,
        )


def _amount_text(amount: float, *, is_time: bool) -> str:
    return str(timedelta(seconds=round(amount))) if is_time else f"{round(amount, 4):,}"


def extended_limit(name: str, limit: Any, used: Any, granted: Any) -> Any:
    """Return the limit after an approval: the limit or the higher use, plus the first limit.

    `None` where a value is unknown.
    """
    if isinstance(limit, str) and isinstance(granted, str):
        return format_duration(parse_duration(limit) + parse_duration(granted))
    if not (_is_number(limit) and _is_number(granted)):
        return None
    # The count of calls in a row restarts.
    spent = used if _is_number(used) and name != "maxSameTool" else limit
    return round(max(limit, spent) + (granted or 1), _DIGITS)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
