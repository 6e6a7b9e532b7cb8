"""A trace as a picture: each span a bar, under what it hangs under, on one axis of time.

Where nothing begins or ends for long, the axis is broken: a wait of a day has room beside a request
of a moment.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from tests.support.traces import Seen

NAMES, BARS, LENGTHS = 430, 640, 130
ROW, HEAD, PAD, INDENT = 30, 56, 20, 20
BREAK_SECONDS, BREAK_WIDTH = 60.0, 90
_FIRST_WORDS = {
    "invoke_agent": "#8250df",
    "chat": "#0969da",
    "execute_tool": "#1a7f37",
    "approval": "#bc4c00",
}
_OTHERS = "#6e7781"
_ERROR = "#cf222e"


@dataclass(frozen=True)
class _Piece:
    """A piece of the axis; one that is broken says how long it is."""

    start: float
    end: float
    left: float
    width: float
    broken: bool


def drawn(spans: Sequence[Seen], title: str, below: str) -> str:
    """The trace as SVG, on white."""
    rows = list(_rows(spans, None, 0))
    pieces = _pieces(spans)
    height = HEAD + ROW * len(rows) + 2 * PAD
    width = NAMES + BARS + LENGTHS + 2 * PAD
    marks = [_mark(piece, height) for piece in pieces if piece.broken]
    bars = [_row(span, depth, n, pieces) for n, (span, depth) in enumerate(rows)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        ' font-family="sans-serif" font-size="14"><rect width="100%" height="100%" fill="#fff"/>'
        f'<text x="{PAD}" y="28" font-size="17" font-weight="bold">{escape(title)}</text>'
        f"{''.join(marks)}{''.join(bars)}"
        f'<text x="{PAD}" y="{height - 12}" fill="#57606a" font-size="12">{escape(below)}</text>'
        "</svg>"
    )


def _rows(spans: Sequence[Seen], parent: str | None, depth: int) -> Iterator[tuple[Seen, int]]:
    known = {one.span_id for one in spans}
    under = [
        one
        for one in spans
        if one.parent_id == parent or (parent is None and one.parent_id not in known)
    ]
    for one in sorted(under, key=lambda each: (each.start, each.end)):
        yield one, depth
        yield from _rows(spans, one.span_id, depth + 1)


def _pieces(spans: Sequence[Seen]) -> list[_Piece]:
    moments = sorted({moment / 1e9 for one in spans for moment in (one.start, one.end)})
    gaps = list(pairwise(moments))
    broken = [each for each in gaps if each[1] - each[0] > BREAK_SECONDS]
    whole = sum(end - start for start, end in gaps) - sum(end - start for start, end in broken)
    scale = (BARS - BREAK_WIDTH * len(broken)) / whole
    left, pieces = float(NAMES + PAD), []
    for start, end in gaps:
        is_broken = (start, end) in broken
        width = BREAK_WIDTH if is_broken else (end - start) * scale
        pieces.append(_Piece(start, end, left, width, is_broken))
        left += width
    return pieces


def _x(moment: float, pieces: Sequence[_Piece]) -> float:
    for piece in pieces:
        if moment <= piece.end:
            return piece.left + piece.width * (moment - piece.start) / (piece.end - piece.start)
    return pieces[-1].left + pieces[-1].width


def _mark(piece: _Piece, height: int) -> str:
    middle = piece.left + piece.width / 2
    return (
        f'<rect x="{piece.left:.1f}" y="{HEAD - 8}" width="{piece.width:.1f}"'
        f' height="{height - HEAD - PAD - 8}" fill="#f6f8fa"/>'
        f'<text x="{middle:.1f}" y="{HEAD - 14}" text-anchor="middle" fill="#57606a"'
        ' font-size="12">'
        f"{_length(piece.end - piece.start)}; cut short</text>"
    )


def _row(span: Seen, depth: int, n: int, pieces: Sequence[_Piece]) -> str:
    top, error = HEAD + ROW * n, span.attributes.get("error.type")
    left, right = (_x(moment / 1e9, pieces) for moment in (span.start, span.end))
    width = max(right - left, 3)
    again = span.attributes.get("holdfast.attempt", 1)
    name = f"{span.name}{f' · attempt {again}' if again > 1 else ''}"
    colour = _FIRST_WORDS.get(span.name.split()[0], _OTHERS)
    border = f' stroke="{_ERROR}" stroke-width="2"' if error else ""
    told = f' <tspan fill="{_ERROR}">{escape(str(error))}</tspan>' if error else ""
    return (
        f'<text x="{PAD + INDENT * depth}" y="{top + 20}">{escape(name)}{told}</text>'
        f'<rect x="{left:.1f}" y="{top + 7}" width="{width:.1f}" height="16" rx="3"'
        f' fill="{colour}"{border}/>'
        f'<text x="{NAMES + BARS + PAD + 14}" y="{top + 20}" fill="#57606a">'
        f"{_length(span.seconds)}</text>"
    )


def _length(seconds: float) -> str:
    if seconds >= 3600:
        hours = seconds / 3600
        return f"{hours:.0f} h" if hours >= 10 else f"{hours:.1f} h"
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"
