"""Which calls wait for a person: the tool's policy, over its agent's, over the defaults."""

from typing import Any

import pytest

from holdfast.schemas.agent import AgentApproval
from holdfast.schemas.base import parse_duration
from holdfast.schemas.decision import Decided
from holdfast.schemas.tool import ApprovalPolicy, ApprovalRule
from holdfast.validation.schema_node import WorkBudget
from holdfast.workflows.engine.approvals.policy import (
    applied_policies,
    effective_policy,
    is_within,
    requires_approval,
    satisfies,
    strictest_policy,
)
from tests.engine.driver import Play, agent, call, reply, tool

LARGE = {"properties": {"amount": {"exclusiveMinimum": 100}}}


def policy(**fields: Any) -> ApprovalPolicy:
    return ApprovalPolicy.model_validate(fields)


@pytest.mark.parametrize(
    ("require", "when", "amount", "harmless", "effect"),
    [
        ("side_effects", None, 1, False, True),
        ("side_effects", LARGE, 1, False, False),
        ("side_effects", LARGE, 101, False, True),
        ("always", None, 1, True, True),
        ("always", LARGE, 100, False, False),
        ("always", LARGE, 101, True, True),
        ("never", None, 101, False, False),
        ("never", LARGE, 101, False, False),
        ("always", True, 1, True, True),
        ("always", False, 1, False, False),
    ],
)
def test_whether_a_call_waits(
    require: str, when: Any, amount: int, harmless: bool, effect: bool
) -> None:
    rule = policy(require=require, when=when)
    arguments = {"amount": amount}

    assert requires_approval(tool("look"), rule, arguments, WorkBudget()) is harmless
    assert (
        requires_approval(tool("pay", side_effects=True), rule, arguments, WorkBudget()) is effect
    )


@pytest.mark.parametrize(
    "when",
    [
        {"$ref": "http://example.com/when.json"},
        {"pattern": "("},
        {"properties": {"amount": {"type": "money"}}},
        {"properties": {"list": {"items": {"type": "integer"}}}},
    ],
)
def test_an_undecidable_condition_needs_an_approval(when: Any) -> None:
    arguments = {"amount": 5, "list": [1] * 1_200_000, "text": "x"}
    if "pattern" in when:
        when = {"properties": {"text": when}}

    rule, budget = policy(require="always", when=when), WorkBudget()

    assert requires_approval(tool("pay", side_effects=True), rule, arguments, budget)
    assert not is_within(arguments, when, WorkBudget())


def test_a_policy_falls_back_field_by_field() -> None:
    owner = agent(
        approval=AgentApproval.model_validate(
            {"quorum": 2, "timeout": "1h", "approvers": ["finance"]}
        )
    )
    own = policy(timeout="5m", approvers=[])

    found = effective_policy(tool("pay", approval=own), owner)
    assert found.timeout == parse_duration("5m")
    assert found.quorum == 2
    assert found.approvers == []
    assert (found.require, found.on_timeout) == ("side_effects", "deny")


def test_the_defaults_are_those_of_the_contract() -> None:
    found = effective_policy(tool("pay"), agent()).to_json()

    assert found == {
        "require": "side_effects",
        "timeout": "7d",
        "onTimeout": "deny",
        "quorum": 1,
        "approvers": [],
    }


def rules(*written: dict[str, Any]) -> list[ApprovalRule]:
    return [ApprovalRule.model_validate(each) for each in written]


def test_an_agent_loosens_no_rule_of_a_tool() -> None:
    loose = {"require": "never", "when": {"required": ["x"]}, "timeout": "1h"}
    listed = rules({"when": LARGE, "quorum": 2}, {"when": {"required": ["free"]}})
    pay = tool("pay", side_effects=True, approval_rules=listed)

    for arguments, number in [
        ({"amount": 101}, 1),
        ({"amount": 1, "free": 1}, 2),
        ({"amount": 1}, 0),
    ]:
        [one] = applied_policies(
            pay, agent(approval=AgentApproval.model_validate(loose)), arguments, WorkBudget()
        )
        assert one.rule is not None
        assert one.rule.number == number
        assert requires_approval(pay, one.policy, None, WorkBudget())
        assert one.policy.timeout == parse_duration("1h")
    always = AgentApproval.model_validate({"require": "always"})
    [one] = applied_policies(
        tool("look", approval_rules=listed), agent(approval=always), {"amount": 1}, WorkBudget()
    )
    assert one.policy.require == "always"


def test_a_call_that_cannot_be_checked_falls_under_every_rule() -> None:
    unclear = {"properties": {"amount": {"type": "money"}}}
    listed = rules({"when": {"required": ["x"]}}, {"when": unclear}, {"quorum": 2})
    pay = tool("pay", approval_rules=listed)

    found = applied_policies(pay, agent(), {"amount": 5}, WorkBudget())
    assert [one.rule and one.rule.number for one in found] == [1, 2, 3]
    assert applied_policies(pay, agent(), None, WorkBudget()) == found
    [first] = applied_policies(pay, agent(), {"amount": 5, "x": 1}, WorkBudget())
    assert first == found[0], "one that fits before it is enough"


@pytest.mark.parametrize("signs", [None, True])
def test_of_several_policies_one_that_requires_a_signature_is_enough(
    signs: bool | None,
) -> None:
    strictest = strictest_policy([policy(quorum=1), policy(signed=signs, quorum=1)])
    unsigned = Decided(decision="approve", by="ann", at="", digest="")

    assert strictest.signed is signs
    assert satisfies(strictest, [unsigned], None) is not bool(signs)
    assert satisfies(strictest, [unsigned.model_copy(update={"signed": True})], None)


@pytest.mark.parametrize(
    ("held", "most", "code"),
    [
        (["money"], None, None),
        (["money"], ["money"], None),
        (["money"], [], "token_scope_insufficient"),
        (["money"], ["mail"], "token_scope_insufficient"),
        ([], None, "token_scope_insufficient"),
        (None, None, "token_scope_insufficient"),
    ],
)
def test_a_principal_holds_what_the_agent_lets_it_hold_at_most(
    held: list[str] | None, most: list[str] | None, code: str | None
) -> None:
    more: dict[str, Any] = {"principal": {"id": "ann", "scopes": held}} if held is not None else {}
    looks, answers = tool("look", requires=["money"]), [reply("", call("look")), reply("done")]
    play = Play(looks, model=answers, definition={"principal_scopes": most}, **more).to_end()

    assert play.errors() == {"t1c1": code}
