"""What a run has used, and what is left of its budgets."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from holdfast.client import result
from holdfast.schemas.base import parse_duration
from holdfast.schemas.internal.solution import Usage
from holdfast.schemas.run import RunResult, Spent
from holdfast.web.budget_text import label
from holdfast.web.run.snapshot import Seen

_NEARLY: Final = 0.8


@dataclass(frozen=True)
class Share:
    """A budget: what was used, of how much, and what is left of it in words."""

    name: str
    used: str
    limit: str
    left: str
    nearly: bool


def used(seen: Seen) -> str:
    """`3 turns, 4 calls, 1,234 tokens in, 220 out, cost unknown`; empty where nobody says it."""
    if (spent := _spent(seen)) is None:
        return ""
    unknown = spent.turns and spent.usage.cost is None
    return result.usage_line(spent) + (", cost unknown" if unknown else "")


def budgets(seen: Seen) -> list[Share]:
    """Each budget that has a limit."""
    found = seen.status.get("budget", {}).items()
    return [
        _share(label(name), view.get("used"), view["limit"])
        for name, view in found
        if view.get("limit") is not None
    ]


def _spent(seen: Seen) -> RunResult | Spent | None:
    """What was used: by the run's own account of its end, or of what it has done so far."""
    if seen.ending is not None and (said := seen.ending.result or seen.ending.spent) is not None:
        return said
    if not (budget := seen.status.get("budget")):
        return None
    turns, calls = (budget.get(name, {}).get("used") or 0 for name in ("maxTurns", "maxCalls"))
    return Spent(turns=turns, calls=calls, usage=Usage.read(seen.status.get("usage", {})))


def _share(name: str, used: Any, limit: Any) -> Share:
    if used is None:
        return Share(name, "unknown", _shown(limit), "unknown: the provider does not say", False)
    spent, most = _number(used), _number(limit)
    left = max(most - spent, 0)
    nearly = most > 0 and spent >= _NEARLY * most
    return Share(name, _shown(used), _shown(limit), _left(left, limit), nearly)


def _left(left: float, limit: Any) -> str:
    if not left:
        return "nothing"
    return _time(left) if isinstance(limit, str) else _shown(round(left, 4))


def _number(value: Any) -> float:
    if isinstance(value, str):
        return 0.0 if value == "0ms" else parse_duration(value).total_seconds()
    return float(value)


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return _time(_number(value))
    return f"{value:,.4f}".rstrip("0").rstrip(".") if isinstance(value, float) else f"{value:,}"


def _time(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
