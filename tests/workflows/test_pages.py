"""The page of a run in Temporal's UI, read as the specification of what it shows.

A file of `pages` is a play (see `tests.engine.plays.playing`) with one more input: the lines after
`> page:` are the page then, and the log is left out. `python -m tests.workflows.test_pages` writes
all pages again: read the difference.
"""

from pathlib import Path
from typing import Any

import pytest

from holdfast.workflows.ui_details.page import DetailsPage
from tests.engine.plays.playing import Transcript, play

RUN = "ada-1042"
PAGES = {path.stem: path for path in sorted(Path(__file__).with_name("pages").glob("*.page"))}


class Shown(Transcript):
    """A play whose only lines are those of the page."""

    def __init__(self, said: dict[str, Any]) -> None:
        super().__init__(said)
        self.details, self.page = DetailsPage(self.run, RUN), ""

    def input(self, key: str, value: Any) -> None:
        if key != "page":
            super().input(key, value)
            return
        self.page = self.details.read()
        assert self.page == DetailsPage(self.run, RUN).read(), "as it grew, or read at once"

    def new_lines(self) -> list[str]:
        lines, self.page = self.page.split("\n") if self.page else [], ""
        return lines


@pytest.mark.parametrize("name", PAGES)
def test_a_page_shows_what_is_written(name: str) -> None:
    written = PAGES[name].read_text(encoding="utf-8")
    assert play(written, Shown) == written


if __name__ == "__main__":
    for each in PAGES.values():
        each.write_text(play(each.read_text(encoding="utf-8"), Shown), encoding="utf-8")
