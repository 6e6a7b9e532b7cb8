"""The page of a run in Temporal's UI, read as the specification of what it shows.

A file of `pages` is a play (see `tests.engine.plays.playing`) with one more input: the lines after
`> page:` are the page then, and the log is left out. `python -m tests.workflows.test_pages` writes
all pages again: read the difference.
"""

from typing import Any

import pytest

from holdfast.workflows.ui_details.page import DetailsPage
from tests.engine.plays.playing import Transcript, play
from tests.support.text_files import compare, text_files, write_again

RUN = "ada-1042"
PAGES = text_files(__file__, ".page")


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
    compare(PAGES[name], play(PAGES[name].read_text(encoding="utf-8"), Shown))


if __name__ == "__main__":
    write_again(__file__)
