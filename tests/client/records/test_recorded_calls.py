"""The calls that a log has: what they ran with, in which order, and which are of another run."""

from typing import Any

import pytest

from holdfast.client.records.recorded_calls import RecordedLog
from holdfast.client.result import RunEnding
from holdfast.evals.checks import Outcome
from tests.cli.test_policy_simulation import play
from tests.client.records.test_run_diff import compared


def ran(log: RecordedLog) -> list[tuple[str, Any]]:
    return [(each.tool, each.arguments) for each in Outcome.of(RunEnding("completed"), log).calls]


@pytest.mark.parametrize(
    ("name", "calls"),
    [
        # Each item of a loop ran with its own arguments; one that a person left out did not.
        ("loops/edited", [{"id": "a", "amount": 5}, {"id": "c", "amount": 6}]),
        # It was run again, since it did not happen: it is one call.
        ("outcomes/it_did_not_happen", [{}]),
    ],
)
def test_a_call_has_the_arguments_that_it_ran_with(name: str, calls: list[Any]) -> None:
    assert [arguments for _, arguments in ran(RecordedLog(play(name).records()))] == calls


def test_an_edited_plan_changes_the_items_of_its_loops() -> None:
    log = RecordedLog(play("loops/plan").records())
    assert log.calls["t2c1"].parts() == {
        "t2c1.1": {"id": "b", "amount": 5},
        "t2c1.2": {"id": "c", "amount": 7},
    }
    assert [*log.started][-2:] == ["t2c1.1", "t2c1.2"]


def test_a_call_with_a_reference_is_compared_as_people_were_shown_it() -> None:
    records = play("constant/denied").records()
    [_, pay] = compared(records, records).calls
    assert pay.either.arguments == {"amount": 20}


def test_a_fork_made_the_calls_after_its_beginning() -> None:
    forked = {"n": 9, "at": "", "type": "forked", "forkedFrom": "order-7", "turn": 2}
    before = play("approvals/edited").records()
    assert ran(RecordedLog(before))
    log = RecordedLog([*before, forked])
    assert (ran(log), log.questions) == ([], [])
    # Beside the other run, its calls are no difference.
    assert len(compared(before, [*before, forked]).calls) == 1
