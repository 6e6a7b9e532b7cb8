"""The tables of transitions as SVG; `python -m bench.structure.diagrams` draws them.

A state has a place by hand; its moves are drawn from the table. An event that leads from three
states or more to one is written below that one, with their names.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from enum import Enum
from html import escape
from math import hypot
from typing import Any

from bench.process import ROOT
from holdfast.workflows.engine import phases
from holdfast.workflows.engine.call import states

COLUMN, ROW, BOX, TALL, MARGIN = 270, 130, 130, 36, 40
# Between the two moves of two states; the lines of a text, and the names in one.
APART, LINE, NAMES = 16, 14, 3
MANY = 3
Places = Mapping[str, tuple[int, int]]
Table = Mapping[Any, Enum]
PHASES: Places = {
    "calling": (1, 0),
    "requesting": (0, 1),
    "ready": (1, 1),
    "extending": (2, 1),
    "idle": (0, 2),
    "answered": (1, 2),
    "ended": (2, 2),
}
STAGES: Places = {
    "proposed": (0, 0),
    "pending": (1, 0),
    "waiting": (2, 0),
    "queued": (0, 1),
    "running": (1, 1),
    "unsure": (2, 1),
    "ended": (0, 2),
    "reviewed": (1, 2),
    "published": (2, 2),
    "closed": (2, 3),
}
DIAGRAMS: Mapping[str, tuple[Table, Places]] = {
    "run-phases.svg": (phases.TRANSITIONS, PHASES),
    "call-stages.svg": (states.TRANSITIONS, STAGES),
}
_STYLE = (
    "text{font:12px system-ui,sans-serif;text-anchor:middle;fill:#1f2328}"
    ".state{font-weight:600;font-size:13px}rect{fill:none;stroke:#0969da;stroke-width:1.6}"
    "path{fill:none;stroke:#8c959f;stroke-width:1.4}marker path{fill:#8c959f;stroke:none}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}rect{stroke:#58a6ff}}"
)
_ARROW = (
    '<marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8"'
    ' orient="auto"><path d="M0 0L8 4L0 8z"/></marker>'
)


def state_diagram(table: Table, places: Places) -> str:
    """Draw a table of transitions; a state without a place is a `KeyError`."""
    sources = defaultdict[tuple[str, str], list[str]](list)
    for (source, event), target in table.items():
        sources[event.value, target.value].append(source.value)
    parts = [_state(name, place) for name, place in places.items()]
    for (event, to), names in sources.items():
        if len(names) < MANY:
            parts += [_move(places[name], places[to], event) for name in names]
        else:
            parts.append(_moves_of_many(places[to], event, names))
    width = max(x for x, _ in places.values()) * COLUMN + BOX + 2 * MARGIN
    height = max(y for _, y in places.values()) * ROW + TALL + 2 * MARGIN + LINE
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">'
    return "\n".join([head, f"<style>{_STYLE}</style><defs>{_ARROW}</defs>", *parts, "</svg>", ""])


def _state(name: str, place: tuple[int, int]) -> str:
    x, y = _centre(place)
    box = f'x="{x - BOX / 2:g}" y="{y - TALL / 2:g}" width="{BOX}" height="{TALL}" rx="8"'
    return f'<rect {box}/><text class="state" x="{x:g}" y="{y + 4:g}">{name}</text>'


def _move(source: tuple[int, int], target: tuple[int, int], event: str) -> str:
    """Draw an arrow beside the line between two states, so that one back has room."""
    (x, y), (u, v) = _centre(source), _centre(target)
    length = hypot(u - x, v - y)
    across, along = (u - x) / length, (v - y) / length
    # To the left, as the arrow goes.
    x, u = x + along * APART / 2, u + along * APART / 2
    y, v = y - across * APART / 2, v - across * APART / 2
    cut = min(BOX / 2 / abs(across or 1e-9), TALL / 2 / abs(along or 1e-9)) + 2
    x, y, u, v = x + across * cut, y + along * cut, u - across * cut, v - along * cut
    is_level = abs(along) < abs(across) / 2
    beside = (0, 16 if across < 0 else -6) if is_level else (along * 50, 0)
    path = f'<path d="M{x:.1f} {y:.1f}L{u:.1f} {v:.1f}" marker-end="url(#arrow)"/>'
    return path + _text((x + u) / 2 + beside[0], (y + v) / 2 + beside[1], [event])


def _moves_of_many(target: tuple[int, int], event: str, names: Sequence[str]) -> str:
    x, y = _centre(target)
    below = y + TALL / 2
    path = f'<path d="M{x:g} {below + 20:g}V{below + 2:g}" marker-end="url(#arrow)"/>'
    rows = [", ".join(names[at : at + NAMES]) for at in range(0, len(names), NAMES)]
    return path + _text(x, below + 32, [f"{event}, from", *rows])


def _text(x: float, y: float, lines: Sequence[str]) -> str:
    return "".join(
        f'<text x="{x:.1f}" y="{y + n * LINE:.1f}">{escape(line)}</text>'
        for n, line in enumerate(lines)
    )


def _centre(place: tuple[int, int]) -> tuple[float, float]:
    return MARGIN + BOX / 2 + place[0] * COLUMN, MARGIN / 2 + TALL / 2 + place[1] * ROW


if __name__ == "__main__":
    for name, (table, places) in DIAGRAMS.items():
        path = ROOT / "docs" / "images" / name
        path.write_text(state_diagram(table, places), encoding="utf-8")
