"""The tables of transitions as SVG; `python -m bench.structure.diagrams` draws them.

A state has a place by hand; its moves are drawn from the table. An event that leads from every
state to one of them is drawn once, from `any`.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from enum import Enum
from html import escape
from math import hypot
from typing import Any

from bench.process import ROOT
from holdfast.workflows.engine.phases import TRANSITIONS

COLUMN, ROW, BOX, TALL, MARGIN = 250, 120, 130, 36, 90
# Between the two moves of two states, and between the words of one.
APART, LINE = 16, 14
ANY = "any"
Places = Mapping[str, tuple[float, float]]
PHASES: Places = {
    "calling": (1, 0),
    "requesting": (0, 1),
    "ready": (1, 1),
    "extending": (2, 1),
    "idle": (0, 2),
    "answered": (1, 2),
    "ended": (2, 2),
    ANY: (2, 3),
}
_STYLE = (
    "text{font:12px system-ui,sans-serif;text-anchor:middle;fill:#1f2328}"
    ".state{font-weight:600;font-size:13px}rect{fill:none;stroke:#0969da;stroke-width:1.6}"
    ".any{stroke-dasharray:5 4}path{fill:none;stroke:#8c959f;stroke-width:1.4}"
    "marker path{fill:#8c959f;stroke:none}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}rect{stroke:#58a6ff}}"
)
_ARROW = (
    '<marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8"'
    ' orient="auto"><path d="M0 0L8 4L0 8z"/></marker>'
)


def state_diagram(table: Mapping[Any, Enum], places: Places) -> str:
    """Draw a table of transitions; a state without a place is a `KeyError`."""
    sources = Counter(event for _, event in table)
    moves = defaultdict[tuple[str, str], list[str]](list)
    for (source, event), target in table.items():
        is_common = sources[event] == len(places) - 2  # all but the target and `any`
        pair = ANY if is_common else source.value, target.value
        if event.value not in moves[pair]:
            moves[pair].append(event.value)
    parts = [_move(places[one], places[other], words) for (one, other), words in moves.items()]
    parts += [_state(name, place) for name, place in places.items()]
    width = max(x for x, _ in places.values()) * COLUMN + BOX + 2 * MARGIN
    height = max(y for _, y in places.values()) * ROW + TALL + 2 * MARGIN
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img">'
    return "\n".join([head, f"<style>{_STYLE}</style><defs>{_ARROW}</defs>", *parts, "</svg>", ""])


def _state(name: str, place: tuple[float, float]) -> str:
    x, y = _centre(place)
    box = f'x="{x - BOX / 2:g}" y="{y - TALL / 2:g}" width="{BOX}" height="{TALL}" rx="8"'
    kind = ' class="any"' if name == ANY else ""
    return f'<rect {box}{kind}/><text class="state" x="{x:g}" y="{y + 4:g}">{escape(name)}</text>'


def _move(source: tuple[float, float], target: tuple[float, float], words: list[str]) -> str:
    """Draw an arrow beside the line between two states, so that one back has room."""
    (x, y), (u, v) = _centre(source), _centre(target)
    if source == target:
        path = f"M{x - 20:g} {y - TALL / 2:g}c-10 -30 50 -30 40 0"
        at = x, y - TALL / 2 - 28
    else:
        length = hypot(u - x, v - y)
        across, along = (u - x) / length, (v - y) / length
        # To the left, as the arrow goes.
        x, u = x + along * APART / 2, u + along * APART / 2
        y, v = y - across * APART / 2, v - across * APART / 2
        cut = min(BOX / 2 / abs(across or 1e-9), TALL / 2 / abs(along or 1e-9)) + 2
        x, y, u, v = x + across * cut, y + along * cut, u - across * cut, v - along * cut
        path = f"M{x:.1f} {y:.1f}L{u:.1f} {v:.1f}"
        is_level = abs(along) < abs(across) / 2
        beside = (0, 16 if across < 0 else -6) if is_level else (along * 48, 0)
        at = (x + u) / 2 + beside[0], (y + v) / 2 + beside[1]
    lines = [
        f'<text x="{at[0]:.1f}" y="{at[1] + n * LINE:.1f}">{escape(word)}</text>'
        for n, word in enumerate(words)
    ]
    return "".join([f'<path d="{path}" marker-end="url(#arrow)"/>', *lines])


def _centre(place: tuple[float, float]) -> tuple[float, float]:
    return MARGIN + BOX / 2 + place[0] * COLUMN, MARGIN / 2 + TALL / 2 + place[1] * ROW


DIAGRAMS = {"run-phases.svg": (TRANSITIONS, PHASES)}


if __name__ == "__main__":
    for name, (table, places) in DIAGRAMS.items():
        path = ROOT / "docs" / "images" / name
        path.write_text(state_diagram(table, places), encoding="utf-8")
