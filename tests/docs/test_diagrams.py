"""The diagrams in the documentation are those of the tables of transitions."""

import pytest

from bench.structure.diagrams import DIAGRAMS, state_diagram
from tests.support.process import ROOT


@pytest.mark.parametrize("name", DIAGRAMS)
def test_a_diagram_is_that_of_its_table(name: str) -> None:
    drawn = (ROOT / "docs" / "images" / name).read_text(encoding="utf-8")
    assert drawn == state_diagram(*DIAGRAMS[name]), "run `python -m bench.structure.diagrams`"
