"""The limits of a run's budgets in words: what each counts, which is reached, what a yes grants."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from holdfast.runtime.text_safety import format_argument, one_line
from holdfast.schemas.base import format_duration, parse_duration
from holdfast.schemas.decision import PendingApproval

NAMES: Final = {
    "maxIterations": "Rounds of calls",
    "maxTurns": "Requests to the model",
    "maxCalls": "Calls",
    "maxDuration": "Time at work",
    "maxTokens": "Tokens",
    "maxCost": "Cost",
    "maxSameTool": "Calls of one tool in a row",
    "maxDepth": "Delegates of delegates",
}
_NAME_CHARS: Final = 60
_TITLE_CHARS: Final = 200
# Money is no sum of sixteen digits.
_PLACES: Final = 6


@dataclass(frozen=True)
class Used:
    """What was used of a budget, of how much; `beyond`: more than that."""

    name: str
    label: str
    said: str
    beyond: bool


def label(name: str) -> str:
    """What a limit counts: `Cost`."""
    return NAMES.get(name) or one_line(name, _NAME_CHARS)


def within(name: str) -> str:
    """The same in a sentence: `cost`."""
    found = label(name)
    return found[:1].lower() + found[1:]


def reached(waiting: PendingApproval, agent: str) -> str:
    """Which limit a run is at: `lost_property has reached its limit of cost: 1.0`."""
    said = ", ".join(
        f"{within(name)}: {format_argument(limit)}" for name, limit in waiting.arguments.items()
    )
    who = one_line(agent, _NAME_CHARS) or "The run"
    return one_line(f"{who} has reached its limit of {said}", _TITLE_CHARS)


def used_of(budget: Mapping[str, Any]) -> Iterator[Used]:
    """What a run has used of each budget that has a limit, as its status tells it."""
    for name in NAMES:
        one = budget.get(name) or {}
        used, limit = one.get("used"), one.get("limit")
        if limit is not None:
            said = "unknown" if used is None else format_argument(used)
            beyond = _is_number(used) and _is_number(limit) and used > limit
            yield Used(name, label(name), f"{said} of {format_argument(limit)}", beyond)


def raised(name: str, limit: Any, used: Any, granted: Any) -> Any:
    """What a yes makes of a limit: as much more as was `granted` first, and what was used beyond
    it; `None` where that cannot be told."""
    if isinstance(limit, str) and isinstance(granted, str):
        return format_duration(parse_duration(limit) + parse_duration(granted))
    if not (_is_number(limit) and _is_number(granted)):
        return None
    # Calls in a row are counted anew then.
    spent = used if _is_number(used) and name != "maxSameTool" else limit
    return round(max(limit, spent) + (granted or 1), _PLACES)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
