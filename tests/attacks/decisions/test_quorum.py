"""§7: so many different people, and not the one on whose behalf the run acts."""

from tests.support.backend import Launch
from tests.workflows.approvals.test_approvals import PAYS as PAYS_FIVE
from tests.workflows.approvals.test_approvals import refusal

# Self-approval.


async def test_an_invisible_character_makes_no_other_person(launch: Launch) -> None:
    two = {"approval": {"quorum": 2, "notBy": "principal"}}
    run = await (await launch(PAYS_FIVE)).start(["pay"], agent=two, principal={"id": "ann\u3164"})
    await run.waiting()
    own = await refusal(run, "t1c1", "approve", by="ann\u034f")
    assert own.message == "the principal of the run cannot decide on this call"
    unseen = await refusal(run, "t1c1", "approve", by="\u2800\ufe0f")
    assert unseen.message == "`by`: the name has no visible character; write another"
    assert (await run.decide("t1c1", "approve", by="bob\ufe0f"))["missing"] == 1
    assert (await refusal(run, "t1c1", "approve", by="Bob\U000e0061")).type == "already_decided"
    await run.signal("t1c1", "approve", by="b\u2800ob")
    await run.decide("t1c1", "approve", by="cat")
    await run.result()
    told = [one for one in await run.context() if one["type"] == "decision"]
    assert [one.get("decided", {}).get("by", one.get("ignored")) for one in told] == [
        *("bob", "bob has decided so already", "cat"),
    ]
