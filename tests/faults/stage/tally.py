"""What a pass comes to: its counts, and the cases that failed."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.faults.stage.checks import KINDS, Problem
from tests.faults.stage.kinds import MODEL
from tests.faults.stage.left import Left
from tests.faults.stage.passes import Plan


@dataclass
class Tally:
    """The counts of a pass. `not_met` are plans of which a point was not come to."""

    scenarios: int = 0
    points: int = 0
    runs: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    problems: Counter[str] = field(default_factory=Counter)
    reconciled: int = 0
    not_met: list[str] = field(default_factory=list)
    failing: dict[str, list[str]] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def clean(self) -> bool:
        """Whether nothing was wrong with any case."""
        return not self.failing

    def add(self, plan: Plan, left: Left, problems: Sequence[Problem]) -> None:
        """Count a case."""
        self.runs += 1
        self.faults.update(_kind(fault.kind) for fault in left.struck)
        self.reconciled += left.reconciled
        self.problems.update(problem.kind for problem in problems)
        if problems:
            self.failing[str(plan)] = [f"{one.kind}: {one.words}" for one in problems]

    def to_json(self) -> dict[str, Any]:
        """As it is written down."""
        return {
            "scenarios": self.scenarios,
            "points": self.points,
            "runs": self.runs,
            "faults": sum(self.faults.values()),
            "kinds": dict(sorted(self.faults.items())),
            "askedWhetherItHappened": self.reconciled,
            **{camel(kind): self.problems[kind] for kind in KINDS},
            "pointsNotComeTo": len(self.not_met),
            "failing": self.failing,
            "seconds": round(self.seconds),
        }

    def told(self) -> str:
        """In lines for people."""
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.faults.items()))
        problems = ", ".join(f"{self.problems[kind]} {kind}" for kind in KINDS)
        lines = [
            f"{self.scenarios} scenarios, {self.points} points, {self.runs} runs,"
            f" {self.seconds:.0f} s",
            f"{sum(self.faults.values())} faults: {kinds}",
            f"{self.reconciled} times somebody was asked whether it happened",
            problems,
        ]
        if self.not_met:
            lines.append(f"{len(self.not_met)} plans with points that were not come to:")
            lines += [f"  {plan}" for plan in self.not_met]
        for plan, words in self.failing.items():
            lines.append(f"FAILED  make test-faults ARGS='--only \"{plan}\"'")
            lines += [f"  {each}" for each in words]
        return "\n".join(lines)


def _kind(kind: str) -> str:
    """The kind, without the name of a row."""
    return "rude model" if kind.startswith(MODEL) else kind


def camel(words: str) -> str:
    """Words as the name of a field."""
    first, *rest = words.split()
    return "".join([first, *map(str.capitalize, rest)])
