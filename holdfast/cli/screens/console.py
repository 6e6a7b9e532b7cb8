"""Consoles that print every text unchanged, and tables."""

import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from textwrap import wrap
from typing import TextIO

from rich.console import Console

from holdfast.runtime.text_safety import clean, holdfast_command, shorten

_GAP = "  "
_LEAST_COLUMNS = 20


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave the end of the program to the command; rich would end it here."""
        raise BrokenPipeError


def is_terminal(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


def unread_output(run_id: str) -> str:
    """Return how to read an output in the store: a terminal shows its beginning only."""
    return f"all of them: {holdfast_command('watch', run_id)} | cat" if sys.stdout.isatty() else ""


def console_for(stream: TextIO) -> Console:
    """Return a console that reads no markup and no emoji names, and highlights nothing."""
    return _Console(file=stream, markup=False, emoji=False, highlight=False)


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, cut: bool) -> None:
    """Print the rows below their headings.

    On a terminal, the last column is wrapped to the width, or with `cut` shortened.
    """
    cells = [list(headings), *([" ".join(clean(text).split()) for text in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)][:-1]
    used = sum(widths) + len(_GAP) * len(widths)
    room = max(shutil.get_terminal_size().columns - used, _LEAST_COLUMNS)
    is_bounded = is_terminal(sys.stdout)
    for row in cells:
        head = _GAP.join(text.ljust(width) for text, width in zip(row, widths, strict=False))
        lines = [row[-1]]
        if is_bounded and len(row[-1]) > room:
            lines = [shorten(row[-1], room)] if cut else wrap(row[-1], room)
        for number, line in enumerate(lines):
            print(f"{head if number == 0 else ' ' * (used - len(_GAP))}{_GAP}{line}".rstrip())
