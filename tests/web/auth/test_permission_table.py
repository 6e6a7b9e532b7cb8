"""Who gets what, of every operation that the inbox serves, as in the manual."""

from tests.web.auth.permission_table import table, written


async def test_the_manual_has_the_status_of_each_operation_for_each_role() -> None:
    answers = await table()
    assert answers == written(), "python -m tests.web.auth.permission_table --write"
    assert not [each for each in answers if " 5" in each]
