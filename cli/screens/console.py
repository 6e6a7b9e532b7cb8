"""Consoles that take every text as it stands, and whether a person sits in front of one."""

import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap
from typing import TextIO

from rich.console import Console

from holdfast.runtime.text_safety import clean, shorten

_GAP = "  "
_LEAST_COLUMNS = 20


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to the command to end; rich would end the program here."""
        raise BrokenPipeError


def is_terminal(stream: TextIO) -> bool:
    """Whether a person sees the stream on a terminal that can draw."""
    return stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


def console_for(stream: TextIO, width: int | None = None) -> Console:
    """A console in which no text is markup, an emoji's name or a thing to colour."""
    return _Console(file=stream, width=width, markup=False, emoji=False, highlight=False)


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, cut: bool) -> None:
    """Print the rows below their headings; `cut` cuts the last column off instead of wrapping."""
    cells = [list(headings), *([" ".join(clean(text).split()) for text in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)][:-1]
    used = sum(widths) + len(_GAP) * len(widths)
    room = _room(used)
    for row in cells:
        head = _GAP.join(text.ljust(width) for text, width in zip(row, widths, strict=False))
        for number, line in enumerate(_fitting(row[-1], room, cut)):
            print(f"{head if number == 0 else ' ' * (used - len(_GAP))}{_GAP}{line}".rstrip())


def _room(used_columns: int) -> int | None:
    """The columns that are left for the last column; `None` where there is no bound."""
    if not is_terminal(sys.stdout):
        return None
    return max(shutil.get_terminal_size().columns - used_columns, _LEAST_COLUMNS)


def _fitting(text: str, room: int | None, cut: bool) -> Iterator[str]:
    if room is None or len(text) <= room:
        yield text
    elif cut:
        yield shorten(text, room)
    else:
        yield from wrap(text, room)
