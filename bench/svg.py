"""Curves and bars as SVG, readable on a light and on a dark page: no library, no script, no font.

Both axes of a curve are logarithmic: what costs the same in every turn is level, what grows with
the turns rises as a straight line, and a factor is the same height everywhere.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

from bench.measures.measured import shown

WIDTH, HEIGHT = 430, 270
LEFT, RIGHT, TOP, BOTTOM = 56, 14, 34, 40
COLUMNS = 2
LEGEND_ROW, LEGEND_COLUMN, LEGEND_COLUMNS = 22, 210, 4
BAR, BAR_GAP, BAR_LEFT, BAR_WIDTH = 20, 6, 150, 470
# For light pages and for dark ones; the first is ours.
COLOURS = (
    ("#0969da", "#58a6ff"),
    ("#8c959f", "#8b949e"),
    ("#bc4c00", "#f0883e"),
    ("#1a7f37", "#3fb950"),
    ("#8250df", "#bc8cff"),
    ("#bf3989", "#f778ba"),
    ("#9a6700", "#d29922"),
)
_STEPS = (1, 2, 5)


@dataclass(frozen=True)
class Line:
    """A line of a panel, in the order of its points; `ours` is drawn boldly."""

    title: str
    points: Sequence[tuple[float, float]]
    ours: bool = False


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    lines: Sequence[Line]


@dataclass(frozen=True)
class Bar:
    """One bar, and what stands beside it."""

    title: str
    value: float
    ours: bool = False


def curves(panels: Sequence[Panel], below: str) -> str:
    """Panels side by side, with one legend; `below` is what their horizontal axis says."""
    kinds = _kinds([line.ours for line in panels[0].lines])
    rows = ceil(len(panels) / COLUMNS)
    drawn = [
        f'<g transform="translate({index % COLUMNS * WIDTH} {index // COLUMNS * HEIGHT})">'
        f"{_panel(panel, kinds, below)}</g>"
        for index, panel in enumerate(panels)
    ]
    titles = [line.title for line in panels[0].lines]
    legend = [_legend(at, titles[at], kind, rows * HEIGHT) for at, kind in enumerate(kinds)]
    height = rows * HEIGHT + ceil(len(titles) / LEGEND_COLUMNS) * LEGEND_ROW + 10
    return _picture(COLUMNS * WIDTH, height, [*drawn, *legend])


def bars(groups: Mapping[str, Sequence[Bar]]) -> str:
    """Groups of bars below each other, each to a scale of its own."""
    drawn, y = [], 0
    for title, group in groups.items():
        drawn.append(f'<text class="title" x="10" y="{y + 22}">{escape(title)}</text>')
        y += TOP
        most = max(bar.value for bar in group)
        kinds = _kinds([bar.ours for bar in group])
        for bar, kind in zip(group, kinds, strict=True):
            drawn.append(_bar(bar, kind, y, bar.value / most))
            y += BAR + BAR_GAP
        y += BAR_GAP
    return _picture(COLUMNS * WIDTH, y, drawn)


def _kinds(ours: Sequence[bool]) -> list[str]:
    """A class for each series: ours share a colour, and the second of them is dashed."""
    kinds, others = list[str](), 0
    for is_ours in ours:
        others += not is_ours
        second = " second" if is_ours and any(kind.startswith("ours") for kind in kinds) else ""
        kinds.append(f"ours c0{second}" if is_ours else f"c{1 + (others - 1) % 6}")
    return kinds


@dataclass(frozen=True)
class _Axes:
    """Where on a panel a point is. Both axes begin and end with a tick."""

    across: Sequence[float]
    up: Sequence[float]

    @classmethod
    def of(cls, points: Sequence[tuple[float, float]]) -> "_Axes":
        """Those on which all these points have room."""
        values = [y for _, y in points]
        powers = range(floor(log10(min(values))), ceil(log10(max(values))) + 1)
        ticks = [step * 10.0**power for power in powers for step in _STEPS]
        return cls(sorted({x for x, _ in points}), _around(ticks, min(values), max(values)))

    def x(self, value: float) -> float:
        return _between(value, self.across, LEFT, WIDTH - RIGHT)

    def y(self, value: float) -> float:
        return _between(value, self.up, HEIGHT - BOTTOM, TOP)

    def drawn(self, below: str) -> str:
        """Grid and numbers; `below` is what the numbers across are of."""
        parts = []
        for tick in self.up:
            y = self.y(tick)
            parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
            parts.append(f'<text class="right" x="{LEFT - 6}" y="{y + 4:.1f}">{tick:,g}</text>')
        for number in self.across:
            at = f'x="{self.x(number):.1f}" y="{HEIGHT - BOTTOM + 16}"'
            parts.append(f'<text class="middle" {at}>{number:g}</text>')
        middle = f'x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}"'
        return "".join([*parts, f'<text class="middle" {middle}>{escape(below)}</text>'])


def _panel(panel: Panel, kinds: Sequence[str], below: str) -> str:
    axes = _Axes.of([point for line in panel.lines for point in line.points])
    title = f'<text class="title" x="{LEFT}" y="20">{escape(panel.title)}</text>'
    parts = [title, axes.drawn(below)]
    # Ours last, so that they are on top.
    for line, kind in sorted(zip(panel.lines, kinds, strict=True), key=lambda each: each[0].ours):
        if line.points:
            way = "L".join(f"{axes.x(x):.1f} {axes.y(y):.1f}" for x, y in line.points)
            parts.append(f'<path class="line {kind}" d="M{way}"/>')
    return "".join(parts)


def _around(ticks: Sequence[float], least: float, most: float) -> list[float]:
    """The ticks from the last below everything to the first above it."""
    first = max(index for index, tick in enumerate(ticks) if tick <= least)
    last = min(index for index, tick in enumerate([*ticks, most]) if tick >= most)
    return list(ticks[first : last + 1])


def _between(value: float, ticks: Sequence[float], start: float, end: float) -> float:
    low, high = ticks[0], ticks[-1]
    if low == high:
        return (start + end) / 2
    return start + (end - start) * log10(value / low) / log10(high / low)


def _legend(at: int, title: str, kind: str, top: int) -> str:
    x = 20 + at % LEGEND_COLUMNS * LEGEND_COLUMN
    y = top + 14 + at // LEGEND_COLUMNS * LEGEND_ROW
    line = f'<path class="line {kind}" d="M{x} {y}h26"/>'
    return f'{line}<text x="{x + 34}" y="{y + 4}">{escape(title)}</text>'


def _bar(bar: Bar, kind: str, y: int, share: float) -> str:
    width = max(2.0, share * BAR_WIDTH)
    at = f'x="{BAR_LEFT}" y="{y}" width="{width:.1f}" height="{BAR}" rx="3"'
    return (
        f'<text class="right" x="{BAR_LEFT - 8}" y="{y + 15}">{escape(bar.title)}</text>'
        f'<rect class="bar {kind}" {at}/>'
        f'<text x="{BAR_LEFT + width + 8:.1f}" y="{y + 15}">{shown(bar.value)}</text>'
    )


def _picture(width: int, height: int, drawn: Sequence[str]) -> str:
    box = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {box} role="img">'
    return "\n".join([head, f"<style>{_style()}</style>", *drawn, "</svg>", ""])


def _style() -> str:
    light = _colours("#1f2328", "#d1d9e0", [colour for colour, _ in COLOURS])
    dark = _colours("#e6edf3", "#3d444d", [colour for _, colour in COLOURS])
    return (
        "text{font:12px system-ui,sans-serif}.title{font-weight:600;font-size:13px}"
        ".right{text-anchor:end}.middle{text-anchor:middle}.line{fill:none;stroke-width:1.8}"
        ".line.ours{stroke-width:3.2}.line.second{stroke-dasharray:7 5}.bar.second{opacity:.65}"
        f".grid{{stroke-width:1}}{light}@media(prefers-color-scheme:dark){{{dark}}}"
    )


def _colours(text: str, grid: str, series: Sequence[str]) -> str:
    of_series = "".join(
        f".line.c{at}{{stroke:{colour}}}.bar.c{at}{{fill:{colour}}}"
        for at, colour in enumerate(series)
    )
    return f"text{{fill:{text}}}.grid{{stroke:{grid}}}{of_series}"
