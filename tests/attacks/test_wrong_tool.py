"""§4.3, §9: a tool is the one of its name, and what it may do is in its definition."""

from dataclasses import replace
from typing import Any

import pytest

from holdfast.catalog.agent_reader import resolve_definition
from holdfast.catalog.registry import DefinitionRegistry
from holdfast.runtime.settings_files.file_problems import InvalidValueError
from holdfast.schemas.agent import ResolvedSkill
from holdfast.schemas.tool import ActivityBinding
from tests.attacks.vault import Vault, pay
from tests.engine.driver import call, tool

# What would let a call through, if a model could write it.
# Others read some of these as `pay`.


EUROS = {
    "type": "object",
    "properties": {"amount": {"type": "number"}, "currency": {"default": "EUR"}},
    "required": ["amount"],
}
IN_EUROS = {"when": {"properties": {"currency": {"const": "EUR"}}, "required": ["currency"]}}


def payout(**more: Any) -> Vault:
    """A run whose model chooses between a skill that pays and one that looks."""
    rules = pay(IN_EUROS, parameters=EUROS)
    skills = [
        ResolvedSkill(name="payout", activity=ActivityBinding(type="pay"), rules=rules),
        ResolvedSkill(name="look", tools=[tool("look")]),
    ]
    chooses = call("choose_skill", {"skill": "payout"})
    play = Vault([chooses], tools=(), input={"amount": 777}, definition={"skills": skills}, **more)
    play.outcomes["payout"] = play.outcomes["pay"]
    return play.to_end()


def test_a_skill_by_an_activity_pays_with_an_approval_alone() -> None:
    approved = payout(decisions={"t1c2": ["approve"]})
    assert [one["tool"] for one in approved.shown] == ["payout"]
    assert approved.paid == [{"amount": 777, "currency": "EUR"}]

    assert approved.tools_paid_with[0].once

    denied = payout(approvals="deny")
    assert (denied.paid, denied.failure.code) == ([], "denied")


def test_a_skill_by_an_activity_needs_the_scopes_of_its_tool() -> None:
    rules = pay({"require": "never"}, requires=["pay"])
    skills = [ResolvedSkill(name="payout", activity=ActivityBinding(type="pay"), rules=rules)]
    play = Vault(tools=(), input={"amount": 777}, definition={"skills": skills}).to_end()

    assert (play.paid, play.failure.code) == ([], "token_scope_insufficient")


@pytest.mark.parametrize(
    "activity", ["pay", {"type": "pay"}, {"type": "pay", "taskQueue": "q"}, {"type": "generate"}]
)
def test_no_knowledge_is_a_payment(activity: Any) -> None:
    rules = pay({"require": "never"})
    world = DefinitionRegistry(task_queue="q", activities=["pay"], endpoints=["m"], is_inline=True)
    knows = {"knowledge": [{"name": "balance", "activity": activity}]}
    free = {"_tool": "look", "_activity": "pay", "_sideEffects": False}
    for agent in (knows, {"skills": [{"name": "x", **knows}]}, {**knows, "tools": [free]}):
        with pytest.raises(InvalidValueError, match=r"side effects|the worker.s own"):
            resolve_definition(
                {"model": {"endpoint": "m"}, **agent}, "desk", replace(world, tools={"pay": rules})
            )
