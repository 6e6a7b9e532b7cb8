"""The table of the structure in `docs/architecture.md`: one column a version."""

import re

from bench.process import ROOT
from bench.structure.source import Figures

PAGE = ROOT / "docs/architecture.md"
THIS = "this version"
_MARKS = re.compile(r"(?<=<!-- structure -->\n).*?(?=<!-- /structure -->)", re.DOTALL)


def table(columns: dict[str, Figures]) -> str:
    """Return the table of some versions, in Markdown."""
    heads = list(columns)
    rows = [["", *heads], ["---", *("---:" for _ in heads)]]
    rows += [
        [what, *(columns[head][what] for head in heads)] for what in next(iter(columns.values()))
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def write_table(text: str) -> None:
    """Put a table into the page."""
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(_MARKS.sub(lambda _: text, page), encoding="utf-8")


def written_figures() -> Figures:
    """Return the column "this version" of the page."""
    found = _MARKS.search(PAGE.read_text(encoding="utf-8"))
    assert found is not None
    head, _, *rows = (
        [cell.strip() for cell in line.split("|")[1:-1]] for line in found.group().splitlines()
    )
    return {row[0]: row[head.index(THIS)] for row in rows}
