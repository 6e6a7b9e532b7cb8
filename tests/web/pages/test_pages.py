"""Each page, read as the specification of its rule: a state, and what a person reads of it.

`python -m tests.web.pages.test_pages` writes the text of all pages again: read the difference.
"""

from pathlib import Path

import pytest

from tests.web.pages.rendering import page

FOLDER = Path(__file__).parent
PAGES = {
    path.relative_to(FOLDER).with_suffix("").as_posix(): path
    for path in sorted(FOLDER.rglob("*.txt"))
}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_as_it_is_written(name: str) -> None:
    written = PAGES[name].read_text(encoding="utf-8")
    assert page(written) == written


if __name__ == "__main__":
    for each in PAGES.values():
        each.write_text(page(each.read_text(encoding="utf-8")), encoding="utf-8")
