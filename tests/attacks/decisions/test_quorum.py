"""§7: so many different people, and not the one on whose behalf the run acts."""

from typing import Any

import pytest

from tests.attacks.vault import PAYS, Vault, pay
from tests.engine.approvals.test_signed_decision import decision, token
from tests.support.backend import Launch
from tests.workflows.approvals.test_approvals import PAYS as PAYS_FIVE
from tests.workflows.approvals.test_approvals import refusal

TWO = {"quorum": 2}
ANN = {"decision": "approve", "by": "ann"}
SAME = [
    "ann",
    "Ann",
    "ANN",
    " ann",
    "ann ",
    "a\u200bnn",
    "ann\u00ad",
    "\uff41nn",
    "ann\n",
    "\u202eann",
    "ann @ https://partner.example",  # as `ann` of another issuer is named
]


@pytest.mark.parametrize("name", SAME)
@pytest.mark.parametrize("chained", [False, True])
def test_one_person_in_another_spelling_is_no_second_one(name: str, chained: bool) -> None:
    said = [ANN, {**ANN, "by": name}, ANN]
    play = Vault([PAYS], tools=[pay(TWO)], decisions={"t1c1": said})
    play.chained = chained
    play.to_end()

    assert [why.split(":")[0] for why in play.refusals] == ["already_decided"] * 2
    assert play.paid == []


@pytest.mark.parametrize(
    "said",
    [
        [ANN, {**ANN, "groups": ["finance", "board"]}],
        [{**ANN, "groups": ["finance"]}, {**ANN, "groups": ["board"]}],
        [ANN, {**ANN, "remember": True}],
        [ANN, {**ANN, "reason": "for bob"}],
        [ANN, {"decision": "approve"}, {"decision": "approve"}],
        [ANN, {"decision": "edit", "arguments": {"amount": 5}, "by": "ann"}],
        [ANN, {"decision": "edit", "arguments": {"amount": 6}, "by": "Ann"}, ANN],
        [ANN, {"decision": "edit", "arguments": {"amount": 6}, "by": "bob"}, {**ANN, "by": "Bob"}],
        [ANN, {"decision": "respond", "result": 1, "by": "bob"}],
        [ANN, {"decision": "deny", "by": "ann"}, ANN, {**ANN, "by": "bob"}],
    ],
)
def test_no_claim_of_one_person_makes_two_of_them(said: list[Any]) -> None:
    play = Vault([PAYS], tools=[pay(TWO)], decisions={"t1c1": said}).to_end()

    assert play.errors()["t1c1"] in ("approval_timeout", "denied")
    assert play.paid == []


def test_two_tokens_of_one_signer_are_one_person() -> None:
    play = Vault(
        [PAYS],
        tools=[pay({**TWO, "signed": True})],
        decisions={
            "t1c1": [
                decision("approve", token(id="1"), by="ann"),
                decision("approve", token(id="2"), by="bob"),
                decision("approve", token(id="3", sub="Ann "), by="cat"),
            ]
        },
    ).to_end()

    assert [why.split(":")[0] for why in play.refusals] == ["already_decided"] * 2
    assert play.paid == []


# Self-approval.


@pytest.mark.parametrize("name", SAME)
@pytest.mark.parametrize("verdict", ["approve", "edit", "respond"])
def test_who_it_is_for_does_not_decide_in_any_spelling(name: str, verdict: str) -> None:
    said = {"decision": verdict, "arguments": {"amount": 5}, "result": 1, "by": name}
    play = Vault(
        [PAYS],
        tools=[pay({"notBy": "principal"})],
        principal={"id": "ann"},
        decisions={"t1c1": [said, {"decision": verdict, "arguments": {"amount": 1}, "result": 1}]},
    ).to_end()

    assert "cannot decide" in play.refusals[0]
    assert "write `by`" in play.refusals[1]
    assert play.paid == []


@pytest.mark.parametrize("plan", [False, True])
def test_nor_by_a_token_a_plan_or_as_one_of_two(plan: bool) -> None:
    question = "t1-plan" if plan else "t1c1"
    both = [ANN, {**ANN, "by": "bob"}]
    play = Vault(
        [PAYS],
        tools=[pay({"notBy": "principal", **TWO})],
        principal={"id": "Ann"},
        definition={"plan": "lazy"} if plan else {},
        decisions={question: both},
    ).to_end()
    assert "cannot decide" in play.refusals[0]
    assert play.paid == []

    signed = Vault(
        [PAYS],
        tools=[pay({"notBy": "principal", "signed": True})],
        principal={"id": "ann"},
        decisions={"t1c1": [decision("approve", token(sub="ann"), by="bob")]},
    ).to_end()
    assert "cannot decide" in signed.refusals[0]
    assert signed.paid == []


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
