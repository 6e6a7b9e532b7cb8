"""The table of the structure in `docs/architecture.md` is this version's."""

import re

import pytest
from temporalio.client import Client

from bench.structure.paths import decision_figures, turn_figures
from bench.structure.source import static_figures
from bench.structure.table import written_figures
from tests.support.process import ROOT

MAX_DIFFERENCE = 0.03
WRITE = 'write the table again: make structure ARGS="920f63a0 . --write"'


def numbers(figure: str) -> list[int]:
    """The numbers of a figure; a percentage follows from them."""
    return [int(each.replace(",", "")) for each in re.findall(r"\d[\d,]*(?![\d,%])", figure)]


def differs(measured: str, written: str) -> bool:
    """Whether a number of a figure differs by more than `MAX_DIFFERENCE`."""
    return any(
        abs(now - then) > MAX_DIFFERENCE * then
        for now, then in zip(numbers(measured), numbers(written), strict=True)
    )


def different_from_the_table(measured: dict[str, str]) -> list[str]:
    """The figures that the table has otherwise."""
    written = written_figures()
    return [
        f"{what}: {figure}, in docs/architecture.md {written[what]}. {WRITE}"
        for what, figure in measured.items()
        if differs(figure, written[what])
    ]


def test_the_sizes_in_the_table_of_the_structure_are_those_of_this_version() -> None:
    assert different_from_the_table(static_figures(ROOT)) == []


@pytest.mark.slow  # its runs are traced, call by call
async def test_the_table_of_the_structure_is_that_of_this_version(namespace: Client) -> None:
    measured = static_figures(ROOT) | turn_figures(ROOT)
    measured |= await decision_figures(ROOT, namespace)
    assert measured.keys() == written_figures().keys(), WRITE
    assert different_from_the_table(measured) == []


def test_a_figure_that_differs_by_more_than_three_percent_is_found() -> None:
    assert not differs("1,030 (15% of all)", "1,000 (13% of all)")
    assert differs("1,031", "1,000")
    assert differs("3 modules, 101 functions", "4 modules, 101 functions")
