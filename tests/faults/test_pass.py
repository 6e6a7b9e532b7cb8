"""Nothing lost, nothing twice: some cases of the fault harness (`make test-faults` tries them all).

A plan is a scenario of `harness/scenarios.py` with faults. Its outcome is the one without them.
"""

from temporalio.client import Client

from tests.faults.harness.plans import Plan
from tests.faults.harness.programs.server import Ground
from tests.faults.harness.trials import stage

LANES = 6
PLANS = [
    "payment: kill at activity pay run/t2c1 acted",
    "payment: pause at activity pay run/t2c1 acted",
    "payment: cut at activity pay run/t2c1 returned",
    "payment: server at activity pay run/t2c1 acted",
    "payment: model: reset within an event of chunks at model asked run 3",
    "payment: contradict at person decides run/t2c1 call all",
    "payment: early at worker ready",
    "payment: update activity options at activity pay run/t2c1 started; kill at +1",
    "refund: repeat at person decides run/t1c1 call ada done",
    "delegate: kill at person decides run.t1c1/t1c1 call ada done",
    "chain: kill at person decides run/t2c1 call ada; kill at +6",
    "plan: kill at person decides run/t1-plan plan all",
]


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
    # Payments that were cut off after they had acted: by a kill, by the wire, with the server.
    assert on.tally.reconciled >= 3
