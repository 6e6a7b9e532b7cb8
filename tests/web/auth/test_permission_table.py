"""Who gets what, of every operation that the inbox serves, as in the manual."""

import pytest

from holdfast.client.errors import NoSuchRunError
from holdfast.web.auth.permissions import RunAccess
from tests.web.auth.permission_table import table, written


async def test_the_manual_has_the_status_of_each_operation_for_each_role(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def hide(access: RunAccess, run_id: str) -> None:
        raise NoSuchRunError(run_id)

    monkeypatch.setattr(RunAccess, "hide", hide)  # at another time
    answers = await table()
    assert answers == written(), "python -m tests.web.auth.permission_table --write"
    assert not [each for each in answers if " 5" in each]
