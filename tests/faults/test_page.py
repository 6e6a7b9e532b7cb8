"""`docs/faults.md` shows the counts that are in `counts/`, and these are what they have to be."""

import pytest

from tests.faults.harness.checks import KINDS
from tests.faults.harness.plans import SYSTEMATIC_ALONE
from tests.faults.harness.scenarios import SCENARIOS
from tests.faults.harness.trials import camel
from tests.faults.page import PAGE, PASSES, read, written


def test_the_page_shows_the_counts() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert written(page, read()) == page
    assert written(page, {**read(), "random": {**read()["random"], "lost": 7}}) != page


@pytest.mark.parametrize("name", PASSES)
def test_nothing_was_wrong_in_a_pass_of_all_scenarios(name: str) -> None:
    counts = read()[name]
    found = {kind: counts[camel(kind)] for kind in KINDS}
    assert found == dict.fromkeys(KINDS, 0)
    left_out = 0 if name == "systematic" else len(SYSTEMATIC_ALONE)
    assert counts["scenarios"] == len(SCENARIOS) - left_out
    assert counts["runs"] >= 100
