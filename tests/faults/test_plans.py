"""What a pass of the fault harness tries."""

import itertools
import math

import pytest

from tests.faults.harness.plans import (
    ANYWHERE,
    CLUSTER_EVERY,
    CONTRADICT,
    EARLY,
    KILL,
    MODEL,
    OF_A_CLUSTER,
    OUTAGE,
    PAUSE_ACTIVITY,
    REPEAT,
    ROWS,
    Fault,
    Plan,
    by_chance,
    kinds_at,
    on_cluster,
    systematic,
)

POINTS = {
    "deadline": ["person decides run/t1c1 call ada", "person decides run/t1c1 call ada done"],
    "payment": [
        "worker ready",
        "model asked run 1",
        "activity pay run/t1c1 acted",
        "person decides run/t1c1 call ada done",
        "person decides run/t1c1 call all",
    ],
    "refund": ["worker ready", "model asked run 1", "model asked run 1 #2"],
}


def test_there_is_a_kill_at_every_point_of_every_scenario() -> None:
    plans = list(systematic(POINTS))
    for name, points in POINTS.items():
        for point in points:
            assert Plan(name, (Fault(point),)) in plans


def test_every_way_to_be_rude_is_tried_and_at_every_request() -> None:
    rude = [plan for plan in systematic(POINTS) if plan.faults[0].kind.startswith(MODEL)]
    assert {plan.faults[0].kind.removeprefix(MODEL) for plan in rude} == set(ROWS)
    assert {(plan.scenario, plan.faults[0].point) for plan in rude} == {
        ("payment", "model asked run 1"),
        ("refund", "model asked run 1"),
        ("refund", "model asked run 1 #2"),
    }


def test_every_decision_is_repeated_and_contradicted_and_comes_early() -> None:
    told = [str(plan) for plan in systematic(POINTS)]
    assert f"payment: {REPEAT} at person decides run/t1c1 call ada done" in told
    assert f"payment: {CONTRADICT} at person decides run/t1c1 call all" in told
    assert {f"payment: {EARLY} at worker ready", f"refund: {EARLY} at worker ready"} <= set(told)


def test_no_worker_runs_at_an_expiry_and_then_one_dies() -> None:
    plans = [str(plan) for plan in systematic(POINTS) if OUTAGE in str(plan)]
    outage = "deadline: outage at person decides run/t1c1 call ada"
    assert plans[:2] == [outage, f"{outage}; kill at +1"]


def test_operators_command_every_activity() -> None:
    told = [str(plan) for plan in systematic(POINTS)]
    assert f"payment: {PAUSE_ACTIVITY} at activity pay run/t1c1 acted" in told


def test_on_a_cluster_each_fault_strikes_in_every_scenario() -> None:
    points = {name: [f"activity {n}" for n in range(100)] for name in POINTS}
    plans = list(on_cluster(points, OF_A_CLUSTER))

    assert len(plans) == math.ceil(100 * len(POINTS) / CLUSTER_EVERY)
    for name in POINTS:
        kinds = {plan.faults[0].kind for plan in plans if plan.scenario == name}
        assert kinds == {KILL, *OF_A_CLUSTER}


def test_what_cannot_strike_at_a_point_is_not_tried_there() -> None:
    assert kinds_at("activity pay run/t1c1 acted") == list(ANYWHERE)
    assert MODEL + "503" in kinds_at("model asked run 1")


def test_chance_is_the_same_for_the_same_seed() -> None:
    def some(seed: int) -> list[str]:
        return [str(plan) for plan in itertools.islice(by_chance(POINTS, seed), 30)]

    assert some(6) == some(6)
    assert some(6) != some(7)


def test_a_plan_is_read_as_it_is_written() -> None:
    for plan in itertools.chain(systematic(POINTS), itertools.islice(by_chance(POINTS, 1), 300)):
        assert Plan.read(str(plan)) == plan


@pytest.mark.parametrize("text", ["", "payment", "payment: kill", "payment: kill at ", "kill at x"])
def test_what_is_no_plan_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="SCENARIO: KIND at POINT"):
        Plan.read(text)
