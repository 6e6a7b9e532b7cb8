"""Each page, read as the specification of its rule: a state, and what a person reads of it.

`python -m tests.web.pages.test_pages` writes the text of all pages again: read the difference.
"""

import pytest

from tests.support.text_files import compare, text_files, write_again
from tests.web.pages.rendering import page

PAGES = text_files(__file__, ".txt")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_as_it_is_written(name: str) -> None:
    compare(PAGES[name], page(PAGES[name].read_text(encoding="utf-8")))


if __name__ == "__main__":
    write_again(__file__)
