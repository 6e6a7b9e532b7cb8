"""The counts of the passes, as `docs/faults.md` shows them: `python -m tests.faults.page`.

They are taken from `counts/*.json`; `python -m tests.faults --write` writes both.
"""

import json
from pathlib import Path
from typing import Any

from bench.published import write_result

COUNTS = Path(__file__).with_name("counts")
PASSES = ("systematic", "random", "cluster")
RESULT = "faults"
_ROWS = {
    "scenarios": "scenarios",
    "points": "points",
    "runs": "runs",
    "faults": "faults",
    "askedWhetherItHappened": "times a person was asked whether it happened",
    "lost": "lost",
    "doubled": "doubled",
    "stuck": "stuck",
    "different": "different from undisturbed",
    "outOfOrder": "out of order",
    "unasked": "effects or decisions without a question",
    "broken": "failed workflow tasks, or workers that ended by themselves",
    "pointsNotComeTo": "plans whose points were not come to",
}


def read() -> dict[str, dict[str, Any]]:
    """The counts of each pass."""
    return {
        name: json.loads((COUNTS / f"{name}.json").read_text(encoding="utf-8")) for name in PASSES
    }


def table(counts: dict[str, dict[str, Any]]) -> str:
    """The counts side by side, then each kind of fault."""
    kinds = sorted({kind for each in counts.values() for kind in each["kinds"]})
    rows = [(words, [f"{each[key]:,}" for each in counts.values()]) for key, words in _ROWS.items()]
    rows += [
        (f"`{kind}`", [f"{each['kinds'].get(kind, 0):,}" for each in counts.values()])
        for kind in kinds
    ]
    # A pass before this row has none.
    at = [f"`{each['commit']}`" if "commit" in each else "–" for each in counts.values()]
    lines = [f"| {words} | {' | '.join(of)} |" for words, of in [*rows, ("commit", at)]]
    heads = [_head(name, each) for name, each in counts.items()]
    rule = f"| --- |{' ---: |' * len(heads)}"
    return "\n".join([f"| | {' | '.join(heads)} |", rule, *lines, ""])


def _head(name: str, counts: dict[str, Any]) -> str:
    minutes = f"{round(counts['seconds'] / 60)} minutes"
    return f"{name}, {minutes}" + (f", seed {counts['seed']}" if name == "random" else "")


if __name__ == "__main__":
    write_result(RESULT, table(read()))
