"""`docs/faults.md` shows the counts that are in `counts/`, and these are what they have to be."""

import pytest

from bench.published import results
from tests.faults.harness.checks import KINDS
from tests.faults.harness.plans import SYSTEMATIC_ALONE
from tests.faults.harness.scenarios import SCENARIOS
from tests.faults.harness.trials import camel
from tests.faults.page import PASSES, RESULT, read, table


def test_the_page_shows_the_counts() -> None:
    assert [text for _, name, text in results() if name == RESULT] == [table(read())]


@pytest.mark.parametrize("name", PASSES)
def test_nothing_was_wrong_in_a_pass_of_all_scenarios(name: str) -> None:
    counts = read()[name]
    found = {kind: counts[camel(kind)] for kind in KINDS}
    assert found == dict.fromkeys(KINDS, 0)
    left_out = 0 if name == "systematic" else len(SYSTEMATIC_ALONE)
    assert counts["scenarios"] == len(SCENARIOS) - left_out
    assert counts["runs"] >= 100
