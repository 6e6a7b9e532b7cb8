"""Nothing lost, nothing twice: some cases of the fault harness (`make test-faults` tries them all).

A plan is a scenario of `harness/scenarios.py` with faults. Its outcome is the one without them.
"""

import pytest
from temporalio.client import Client

from tests.faults.harness.plans import Plan
from tests.faults.harness.programs.server import Ground
from tests.faults.harness.trials import stage

LANES = 6
# It takes half a minute alone, and its share of the processors where others are at work.
TIMEOUT_SECONDS = 300
PLANS = [
    "payment: kill at model asked run 3 halfway",
    "payment: kill at activity pay run/t2c1 acted",
    "payment: kill at activity pay run/t2c1 acted; kill at +4",
    "payment: pause at activity pay run/t2c1 acted",
    "payment: cut at activity pay run/t2c1 returned",
    "payment: silence at activity pay run/t2c1 begun",
    "payment: refuse at activity pay run/t2c1 returned",
    "payment: delay at activity look_up run/t1c1 begun",
    "payment: server at activity pay run/t2c1 acted",
    "payment: model: reset within an event of chunks at model asked run 3",
    "payment: contradict at person decides run/t2c1 call all",
    "payment: early at worker ready",
    "payment: update activity options at activity pay run/t2c1 begun; kill at +1",
    "refund: repeat at person decides run/t1c1 call ada done",
    "delegate: kill at person decides run.t1c1/t1c1 call ada done",
    "models: kill at activity insist run/t1-onModelError returned",
    "graph: kill at activity pay run/t1c1 acted",
    "chain: kill at person decides run/t2c1 call ada; kill at +6",
    "plan: kill at person decides run/t1-plan plan all",
]


@pytest.mark.timeout(TIMEOUT_SECONDS)
async def test_whatever_befalls_a_run_it_comes_to_the_same(client: Client) -> None:
    plans = [Plan.read(text) for text in PLANS]
    told: list[str] = []
    async with stage(told.append, Ground(client), frail_lanes=1) as on:
        await on.undisturbed(dict.fromkeys(plan.scenario for plan in plans))
        await on.side_by_side(iter(plans), LANES)

    assert on.tally.failing == {}
    assert on.tally.not_met == []
    assert on.tally.runs >= len(plans)
    assert sum(on.tally.faults.values()) > len(plans)
    # Each payment that was cut off after it had acted, and that which came to nobody.
    assert on.tally.reconciled >= 6
