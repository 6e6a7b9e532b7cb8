"""`python -m bench.report`: write the stored figures into the docs again, as tables and curves.

They are in `bench/results.json`, and those of a cluster in `bench/cluster/results.json`, as
`measures/comparison.py` leaves them there: a row for each run, and the commit of each figure.
"""

import json
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.measures.measured import shown
from bench.process import ROOT
from bench.published import write_result, written
from bench.svg import Bar, Line, Panel, bars, curves

# By the name that a picture begins with.
RESULTS = {
    "bench": ROOT / "bench/results.json",
    "cluster": ROOT / "bench/cluster/results.json",
}
IMAGES = ROOT / "docs/images"
OURS = "holdfast"

Rows = Sequence[Mapping[str, Any]]
# By engine and by a number (turns, runs at a time): a median.
Medians = dict[tuple[str, int], float]

PER_TURN: dict[str, tuple[str, Callable[[float], float]]] = {
    "history_bytes": ("history per turn, KB", lambda bytes_: bytes_ / 1000),
    "events": ("events per turn", float),
    "actions": ("Actions per turn", float),
    "persistence_requests": ("persistence requests per turn", float),
    "cpu_seconds": ("worker CPU time per turn, ms", lambda seconds: seconds * 1000),
    "wall_seconds": ("wall time per turn, ms", lambda seconds: seconds * 1000),
}
# Of a run that came to its end: by its title, a figure and by what it is divided.
LIMITS = {
    "s": ("wall_seconds", 1),
    "parts": ("parts", 1),
    "history, MB": ("history_bytes", 1e6),
    "KB of history a turn, first tenth": ("first_turn_bytes", 1000),
    "last tenth": ("last_turn_bytes", 1000),
    "largest event, KB": ("largest_event_bytes", 1000),
    "worker grew by, MB": ("memory_grew_bytes", 1e6),
}
_NONE = "–"


def read(file: Path) -> dict[str, Any]:
    """The stored results."""
    stored: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return stored


def medians(rows: Rows, what: str, by: str) -> Medians:
    """The median of a figure, for each engine and each number that it was taken at."""
    found: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
    for row in rows:
        if what in row:
            found[row["engine"], row[by]].append(row[what])
    return {key: statistics.median(values) for key, values in found.items()}


def tables(results: Mapping[str, Any]) -> str:
    """Everything, in Markdown."""
    return "\n\n".join(text for text in sections(results).values() if text)


def sections(results: Mapping[str, Any]) -> dict[str, str]:
    """Each table in Markdown, by its name; an empty one where there are no rows."""
    return {
        "versions": _versions(results),
        **{what: _per_turn(results, what) for what in PER_TURN},
        "crowd": _crowd(results),
        "workers": _workers(results),
        "limits": _limits(results),
        "replay": _replay(results),
    }


def published(results: Mapping[str, Any], name: str) -> dict[str, str]:
    """Each table as its page has it, with its commit, by its name there."""
    at = results.get("commits", {})
    return {
        f"{name} {section}": written(text, at.get("turns" if section in PER_TURN else section, ""))
        for section, text in sections(results).items()
        if text
    }


def publish(results: Mapping[str, Any], name: str) -> None:
    """Write the tables into their pages."""
    for section, text in published(results, name).items():
        write_result(section, text)


def _versions(results: Mapping[str, Any]) -> str:
    titles, versions = results["titles"], results["versions"]
    rows = [
        f"| {titles[name]} | {', '.join(f'{package} {of}' for package, of in found.items())} |"
        for name, found in versions.items()
    ]
    where = f"Measured on {results['machine']}, with Python {results['python']}."
    return "\n".join(["| engine | versions |", "| --- | --- |", *rows, "", where])


def _per_turn(results: Mapping[str, Any], what: str) -> str:
    title, in_unit = PER_TURN[what]
    found = {
        (name, turns): in_unit(value) / turns
        for (name, turns), value in medians(results.get("turns", ()), what, "turns").items()
    }
    return _grid(title, "turns", found, results["titles"])


def _grid(title: str, by: str, found: Medians, titles: Mapping[str, str]) -> str:
    """A row for each engine, a column for each number; in brackets, ours divided by it."""
    if not found:
        return ""
    numbers = sorted({number for _, number in found})
    head = f"| {title} | {' | '.join(f'{number} {by}' for number in numbers)} |"
    lines = [head, f"| --- |{' ---: |' * len(numbers)}"]
    for name, of in titles.items():
        cells = [_cell(found.get((name, at)), found.get((OURS, at)), name) for at in numbers]
        lines.append(f"| {of} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(value: float | None, ours: float | None, name: str) -> str:
    if value is None:
        return _NONE
    if ours is None or name.startswith(OURS):
        return shown(value)
    return f"{shown(value)} ({ours / value:.3g})"


def _crowd(results: Mapping[str, Any]) -> str:
    rows = results.get("crowd", ())
    found = medians(rows, "runs_per_second", "at_a_time")
    return _grid("runs of ten turns per second", "at a time", found, results["titles"])


def _workers(results: Mapping[str, Any]) -> str:
    found = medians(results.get("workers", ()), "runs_per_second", "workers")
    return _grid("runs of ten turns per second", "worker(s)", found, results["titles"])


def _replay(results: Mapping[str, Any]) -> str:
    found = medians(results.get("replay", ()), "cpu_seconds", "turns")
    return _grid("CPU time of a replay, s", "turns", found, results["titles"])


def _limits(results: Mapping[str, Any]) -> str:
    titles = ["turns × calls × result", "engine", "result", *LIMITS]
    head = ["| " + " | ".join(titles) + " |", f"| --- | --- | --- |{' ---: |' * len(LIMITS)}"]
    rows = [
        f"| {row['turns']:,} × {row['calls']} × {row['result_bytes'] / 1000:g} KB "
        f"| {results['titles'][row['engine']]} | {_came_to(row)} |"
        for row in results.get("limits", ())
    ]
    return "\n".join([*head, *rows]) if rows else ""


def _came_to(row: Mapping[str, Any]) -> str:
    if "stopped" in row:
        why = f"stopped in turn {row['at_turn']}: {row['stopped'].replace('|', '/')}"
        return " | ".join([why, *[_NONE] * len(LIMITS)])
    return " | ".join(["finished", *(shown(row[what] / unit) for what, unit in LIMITS.values())])


def draw(results: Mapping[str, Any], folder: Path = IMAGES, name: str = "bench") -> list[Path]:
    """Draw what there is; the files, whose names begin with the name."""
    titles = results["titles"]
    panels = [_panel(results, what) for what in PER_TURN]
    panels = [panel for panel in panels if any(line.points for line in panel.lines)]
    crowd = medians(results.get("crowd", ()), "runs_per_second", "at_a_time")
    replay = medians(results.get("replay", ()), "cpu_seconds", "turns")
    drawn = {
        f"{name}-turns.svg": curves(panels, "turns of the run") if panels else "",
        f"{name}-crowd.svg": _bars("runs of ten turns per second", "at a time", crowd, titles),
        f"{name}-replay.svg": _bars("CPU time of a replay, s", "turns", replay, titles),
    }
    written = [folder / name for name, text in drawn.items() if text]
    for path in written:
        path.write_text(drawn[path.name], encoding="utf-8")
    return written


def _panel(results: Mapping[str, Any], what: str) -> Panel:
    title, in_unit = PER_TURN[what]
    found = medians(results.get("turns", ()), what, "turns")
    lines = [
        Line(
            titled,
            [
                (turns, in_unit(value) / turns)
                for (of, turns), value in sorted(found.items())
                if of == name
            ],
            ours=name.startswith(OURS),
        )
        for name, titled in results["titles"].items()
    ]
    return Panel(title, lines)


def _bars(title: str, by: str, found: Medians, titles: Mapping[str, str]) -> str:
    groups = {
        f"{title}, {number} {by}": [
            Bar(titled, found[name, number], ours=name.startswith(OURS))
            for name, titled in titles.items()
            if (name, number) in found
        ]
        for number in sorted({number for _, number in found})
    }
    return bars(groups) if groups else ""


if __name__ == "__main__":
    for name, path in RESULTS.items():
        publish(read(path), name)
        draw(read(path), name=name)
