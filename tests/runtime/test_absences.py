"""Who is a substitute now, and how often a process asks for it."""

import asyncio
from typing import Any

import pytest
from temporalio.service import RPCError, RPCStatusCode

from holdfast.runtime import absences
from holdfast.runtime.absences import (
    AbsenceReader,
    find_represented,
    own_substitutions,
    present_absences,
)
from holdfast.schemas.internal.absences import MAX_ABSENCES
from holdfast.validation import text_safety
from tests.workflows.approvals.test_absences import absence_of

NOT_FOUND = RPCError("workflow not found", RPCStatusCode.NOT_FOUND, b"")
SILENT = RPCError("timeout", RPCStatusCode.DEADLINE_EXCEEDED, b"")


def test_an_absence_counts_from_its_first_moment_to_its_last() -> None:
    ada, soon = absence_of("ada", "bob"), absence_of("cara", "bob", first=0.5)
    past = absence_of("dan", "bob", first=-2, last=-1)
    assert present_absences([ada, soon, past]) == [ada]


def test_a_substitute_who_is_away_is_not_followed() -> None:
    ada, bob = absence_of("ada", "BOB"), absence_of("bob", "cara")
    assert present_absences([ada, bob]) == [bob]
    assert present_absences([ada, absence_of("bob", "cara", first=0.5)]) == [ada]


@pytest.mark.parametrize(
    ("groups", "own", "approvers", "found"),
    [
        (["finance"], ["finance"], ["finance"], 1),
        (["legal"], ["finance"], ["finance", "legal"], 1),
        (["finance"], ["sales"], ["finance"], 0),
        (["sales"], ["finance"], ["finance"], 0),
        (["finance"], ["finance"], [], 0),
        ([], ["finance"], ["finance"], 0),
    ],
)
def test_both_are_in_a_group_that_the_policy_names(
    groups: list[str], own: list[str], approvers: list[str], found: int
) -> None:
    ada = absence_of("ada", "Bob", groups=groups)
    assert len(find_represented(own_substitutions([ada], "bob"), approvers, own)) == found
    assert own_substitutions([ada], "cara") == []


def test_each_name_is_normalized_once(monkeypatch: pytest.MonkeyPatch) -> None:
    some = [absence_of(f"p{n}", "bob") for n in range(MAX_ABSENCES)]
    seen = list[str]()

    def count(name: str) -> str:
        seen.append(name)
        return plain_name(name)

    plain_name = text_safety.plain_name
    monkeypatch.setattr(text_safety, "plain_name", count)
    assert own_substitutions(some, "bob") == some
    assert len(seen) <= 3 * MAX_ABSENCES + 1


class Namespace:
    """A client whose workflow of absences gives these answers, one to each query."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.queries = [*answers], 0

    def get_workflow_handle(self, _: str) -> "Namespace":
        return self

    async def query(self, *_: Any, **__: Any) -> Any:
        """Answer the next query."""
        self.queries += 1
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


async def test_a_process_asks_once_a_minute_and_keeps_the_last_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr(absences, "monotonic", lambda: now[0])
    ada = absence_of("ada", "bob")
    namespace: Any = Namespace(NOT_FOUND, {"absences": [ada.to_json()]}, SILENT, "odd", NOT_FOUND)
    reader, found = AbsenceReader(namespace), []
    for failed in (False, False, True, True, False):
        found.append([one.person for one in await reader.read()])
        assert await reader.read() == await reader.read()
        now[0] += absences.RETRY_SECONDS if failed else absences.KEPT_SECONDS
    assert (found, namespace.queries) == ([[], ["ada"], ["ada"], ["ada"], []], 5)


async def test_a_cancelled_query_is_sent_again_by_the_next_reader() -> None:
    ada = absence_of("ada", "bob")
    namespace: Any = Namespace(asyncio.CancelledError(), {"absences": [ada.to_json()]})
    reader = AbsenceReader(namespace)
    with pytest.raises(asyncio.CancelledError):
        await reader.read()
    assert await reader.read() == [ada]
