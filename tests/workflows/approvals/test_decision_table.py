"""When a decision counts, by each way and of each kind, as on the page."""

from tests.workflows.approvals.decision_table import table, written


async def test_the_page_has_each_kind_of_question_by_each_way() -> None:
    lines = await table()
    assert lines == written(), "python -m tests.workflows.approvals.decision_table --write"
