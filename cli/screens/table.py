"""Tables in plain text: what is copied stays whole, and the last column gives way.

On a terminal the last column is wrapped or cut off; elsewhere every row is one whole line.
"""

import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap

from holdfast.cli.screens.console import is_terminal
from holdfast.runtime.text_safety import clean, shorten

_GAP = "  "
_LEAST_COLUMNS = 20


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
