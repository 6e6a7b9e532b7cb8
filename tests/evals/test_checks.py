"""Whether a run is as a case expects it, and whether a suite has become worse."""

from typing import Any

import pytest
from junitparser import JUnitXml

from holdfast.evals.checks import Call, Outcome, failures
from holdfast.evals.results import CaseResult, CaseRun, junit, regressions
from holdfast.schemas.settings.evals import Expectation

PAID = Call("pay", {"order": 7, "amount": 9.0})
LOOKED = Call("look_up", {"order": 7})
RUN = Outcome(
    "completed",
    {"said": "Done, Ada"},
    [LOOKED, PAID],
    {"order": {"paid": True}},
    ["pay"],
    turns=3,
    cost=0.02,
)


def why(run: Outcome = RUN, **expect: Any) -> list[str]:
    return failures(Expectation.model_validate(expect, by_alias=True), run)


@pytest.mark.parametrize(
    "expect",
    [
        {},
        {"output": {"equals": {"said": "Done, Ada"}}},
        {"output": {"contains": ["done", "ADA"], "schema": {"required": ["said"]}}},
        {"calls": {"exactly": ["pay", "look_up"]}},
        # A call without arguments does not take that of one with them.
        {"calls": {"exactly": ["look_up", {"tool": "pay", "arguments": {"amount": 9}}]}},
        {"calls": {"atLeast": ["pay"], "never": ["refund"], "inOrder": ["look_up", "pay"]}},
        {"state": {"order": {"paid": True}}, "approvals": ["pay"], "maxTurns": 3, "maxCost": 0.02},
    ],
)
def test_a_run_that_is_as_expected_passes(expect: dict[str, Any]) -> None:
    assert why(**expect) == []


@pytest.mark.parametrize(
    ("expect", "reason"),
    [
        ({"status": "stopped"}, "it ended as completed, not as stopped"),
        (
            {"output": {"equals": "Done"}},
            'its output is {"said": "Done, Ada"}, not "Done"',
        ),
        ({"output": {"contains": ["Bob"]}}, 'its output does not contain "Bob"'),
        (
            {"output": {"schema": {"required": ["id"]}}},
            'its output: "id" is a required property',
        ),
        ({"calls": {"exactly": ["pay"]}}, 'it called look_up {"order": 7}, which is not expected'),
        ({"calls": {"exactly": ["pay", "pay", "look_up"]}}, "it did not call pay"),
        ({"calls": {"atLeast": ["refund"]}}, "it did not call refund"),
        (
            {"calls": {"atLeast": [{"tool": "pay", "arguments": {"amount": 10}}]}},
            'it did not call pay {"amount": 10}',
        ),
        (
            {"calls": {"never": ["look_up"]}},
            'it called look_up {"order": 7}',
        ),
        (
            {"calls": {"inOrder": ["pay", "look_up"]}},
            "it did not call look_up in that order",
        ),
        ({"state": {"order": 1}}, 'its state has `order` {"paid": true}, not 1'),
        ({"state": {"none": 1}}, "its state has `none` null, not 1"),
        ({"approvals": []}, "it asks for `pay`"),
        ({"approvals": ["pay", "pay"]}, "it does not ask for `pay`"),
        ({"maxCost": 0.01}, "its cost is 0.02; at most 0.01"),
        ({"maxTurns": 2}, "it made 3 requests to the model; at most 2"),
    ],
)
def test_what_is_not_as_expected_is_named(expect: dict[str, Any], reason: str) -> None:
    assert why(**expect) == [reason]


def test_each_expected_call_finds_one_where_all_can() -> None:
    some = [{"tool": "t", "arguments": {name: 1}} for name in "abc"]
    calls = [Call("t", {"a": 1, "b": 1}), Call("t", {"a": 1, "c": 1}), Call("t", {"a": 1})]
    run = Outcome("completed", calls=calls)
    assert why(run, calls={"exactly": some, "atLeast": some}) == []
    assert why(run, calls={"exactly": some[:2]}) == ['it called t {"a": 1}, which is not expected']
    assert why(run, calls={"exactly": [*some, "t"]}) == ["it did not call t"]


def test_a_call_with_true_is_not_one_with_1() -> None:
    run = Outcome("completed", calls=[Call("t", {"a": 1}), Call("t", {"a": True})])
    exactly = [{"tool": "t", "arguments": {"a": True}}]
    assert why(run, calls={"exactly": exactly}) == ['it called t {"a": 1}, which is not expected']


def test_a_cost_that_is_unknown_is_above_any_limit() -> None:
    assert why(Outcome("completed"), maxCost=1) == ["its cost is not known; at most 1"]


def case(name: str, *passed: bool, wanted: float = 1.0) -> CaseResult:
    runs = [CaseRun("r", RUN, () if each else ("it <did> not\x1b[0m",)) for each in passed]
    return CaseResult("desk", name, wanted, runs)


def test_a_case_fails_by_its_rate_or_by_its_baseline() -> None:
    results = [case("a", True, False), case("b", True, False, wanted=0.5)]
    failed = {"desk/a": "desk/a: 50% of its runs passed, not 100%"}
    assert regressions(results, {}, None) == failed
    # It was no better before.
    failed = {"desk/b": "desk/b: 50% of its runs passed, and 100% before"}
    assert regressions(results, {"desk/a": 0.5, "desk/b": 1.0}, None) == failed
    assert regressions([case("a", True)], {}, 1.0) == {}


def test_all_runs_count_alike_for_the_bound_of_all() -> None:
    results = [case("a", *[True] * 9), case("b", False)]
    baseline = {"desk/b": 0.0}
    assert regressions(results, baseline, 0.9) == {}
    assert regressions(results, baseline, 0.91) == {
        "all runs": "90% of all runs passed; at least 91%"
    }


def test_junit_names_each_case_and_why_it_failed() -> None:
    results = [case("a", True), case("b", False)]
    text = junit(results, regressions(results, {}, None))
    assert '<testsuite name="desk" tests="2" failures="1">' in text
    assert '<testcase classname="desk" name="a" time="0.000" />' in text
    message = "desk/b: 0% of its runs passed, not 100%"
    assert f'<failure message="{message}">it &lt;did&gt; not' in text
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("baseline", "fail_under", "failed"),
    [
        ({}, None, ["b"]),
        ({"desk/b": 0.5}, None, []),  # no better before
        ({"desk/a": 1.0, "desk/b": 0.75}, None, ["b"]),
        ({"desk/b": 0.5}, 0.8, ["--fail-under"]),
    ],
)
def test_junit_has_a_failure_for_what_makes_the_exit_code_1(
    baseline: dict[str, float], fail_under: float | None, failed: list[str]
) -> None:
    results = [case("a", True, True), case("b", True, False)]
    text = junit(results, regressions(results, baseline, fail_under))
    cases = [each for suite in JUnitXml.fromstring(text.encode()) for each in suite]
    assert [each.name for each in cases if each.is_failure] == failed
