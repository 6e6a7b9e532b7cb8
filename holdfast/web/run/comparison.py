"""The values of the page that shows two runs side by side."""

from typing import Any, Final

from holdfast.client.records.diff_text import DiffRow, end_changes, fact_rows, summary, turn_rows
from holdfast.schemas.internal.run_comparison import RunComparison

MAX_SHOWN_CHARS: Final = 400_000
# What a row takes beside its texts.
_ROW_CHARS: Final = 500
_TONES: Final = {"equal": "good", "moved": "asks", "changed": "asks", "missing": "bad"}


def comparison_view(found: RunComparison) -> dict[str, Any]:
    """Return the values of the page: turns as long as there is room, and what differs at the end.

    `first_hidden` is the first turn that is not shown as a whole, if there is one.
    """
    turns, hidden, room = list[tuple[int, list[DiffRow]]](), None, MAX_SHOWN_CHARS
    for number, rows in turn_rows(found):
        shown = list[DiffRow]()
        for row in rows:
            texts = (len(one.before) + len(one.after) for one in row.differences)
            if (room := room - _ROW_CHARS - sum(texts)) > 0:
                shown.append(row)
        if room <= 0:
            hidden = number
            break
        turns.append((number, shown))
    return {
        "found": found,
        "facts": [*fact_rows(found)],
        "summary": summary(found),
        "tones": _TONES,
        "turns": turns,
        "first_hidden": hidden,
        "end": end_changes(found),
    }
