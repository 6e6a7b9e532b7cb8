"""What a case leaves behind, for those who judge it."""

from dataclasses import dataclass, field
from typing import Any

from tests.faults.stage.kinds import KILL


@dataclass(frozen=True)
class Fault:
    """What befalls whom at which point: by its name, or as `+3`, the third after the last fault."""

    point: str
    kind: str = KILL

    def __str__(self) -> str:
        return f"{self.kind} at {self.point}"

    @property
    def later(self) -> int | None:
        """How many points after the fault before it."""
        return int(self.point) if self.point.startswith("+") else None


@dataclass
class Part:
    """What a workflow of a case left behind."""

    events: list[dict[str, Any]]
    context: list[dict[str, Any]]
    state: Any
    task_failures: list[str]
    runs: int


@dataclass
class Left:
    """What a case left behind."""

    id: str
    faults: tuple[Fault, ...]
    points: list[str] = field(default_factory=list)
    struck: list[Fault] = field(default_factory=list)
    result: Any = None
    stuck: str = ""
    broken: list[str] = field(default_factory=list)
    parts: dict[str, Part] = field(default_factory=dict)
    effects: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def reconciled(self) -> int:
        """How often somebody was asked whether a call happened."""
        events = [event for part in self.parts.values() for event in part.events]
        return sum(1 for event in events if is_reconcile(event))


def is_reconcile(event: dict[str, Any]) -> bool:
    """Whether the event asks whether a call happened."""
    asks: bool = event["type"] == "confirmation_required"
    return asks and event["approval"]["kind"] == "reconcile"
