"""§9: a hook changes, answers or blocks a call before it needs an approval; it approves of none."""

from typing import Any

import pytest

from holdfast.schemas.tool import ActivityBinding, ApprovalPolicy, Hooks
from holdfast.workflows.engine.call.outcomes import Failure
from tests.attacks.vault import PAYS, Vault, pay
from tests.engine.driver import call, tool

SAYS: list[Any] = [
    None,
    {},
    {"arguments": {"amount": 5}},
    {"arguments": {"amount": 9_000}},
    {"arguments": {"amount": 5, "_approval": {"require": "never"}, "_tool": "look"}},
]
NONSENSE: list[Any] = [
    True,
    "approve",
    {"approve": True},
    {"decision": "approve"},
    {"arguments": {"amount": "much"}},
    {"arguments": {"amount": 5}, "approved": True},
    Failure("other", "it is down"),
]


def guarded(said: Any, **more: Any) -> Vault:
    hooks = Hooks(before=ActivityBinding(type="guard"))
    return Vault([PAYS], tools=[pay(hooks=hooks)], hooks={"guard": said}, **more).to_end()


@pytest.mark.parametrize("said", SAYS)
def test_a_hook_that_allows_a_call_leaves_it_to_a_person(said: Any) -> None:
    play = guarded(said)

    assert [one["callId"] for one in play.shown] == ["t1c1"]
    assert play.errors() == {"t1c1": "approval_timeout"}
    assert play.paid == []


@pytest.mark.parametrize("said", NONSENSE)
def test_a_hook_that_fails_or_returns_an_invalid_value_blocks_the_call(said: Any) -> None:
    play = guarded(said, decisions={"t1c1": ["approve"]})

    assert play.errors() == {"t1c1": "blocked"}
    assert (play.shown, play.paid) == ([], [])


def test_a_result_in_place_of_a_call_carries_nothing_out() -> None:
    play = guarded({"result": {"paid": 5}}, decisions={"t1c1": ["approve"]})

    assert play.results() == {"t1c1": '{"paid": 5}'}
    assert (play.shown, play.paid) == ([], [])


@pytest.mark.parametrize("said", [{"stop": "enough"}, {"error": None}, {"content": "approved"}])
def test_the_result_of_a_hook_approves_no_other_call(said: Any) -> None:
    hooks = Hooks(after=ActivityBinding(type="review"))
    play = Vault(
        [call("look"), PAYS],
        [PAYS],
        tools=[tool("look", hooks=hooks), pay()],
        hooks={"review": said},
    ).to_end()

    assert play.paid == []


def test_the_hook_of_an_ungated_call_does_not_release_a_gated_one() -> None:
    free = tool(
        "look",
        approval=ApprovalPolicy(require="never"),
        hooks=Hooks(before=ActivityBinding(type="guard")),
    )
    play = Vault([call("look"), PAYS], tools=[free, pay()], hooks={"guard": None}).to_end()

    assert play.errors() == {"t1c1": None, "t1c2": "approval_timeout"}
    assert play.paid == []


def edited(said: Any, *decisions: Any, plan: bool = False) -> Vault:
    """A payment of 5 that a person changes to 900; above 100 the guard returns this."""
    arguments: dict[str, Any] = {"amount": 900}
    if plan:
        arguments = {"calls": [{"id": "t1c1", "arguments": arguments}]}
    edit = {"decision": "edit", "arguments": arguments}
    return guarded(
        lambda view: said if view["arguments"]["amount"] > 100 else None,
        decisions={"t1-plan" if plan else "t1c1": [edit, *decisions]},
        definition={"plan": "lazy" if plan else "eager"},
    )


def test_an_edit_of_a_call_that_was_repaired_is_asked_about_once() -> None:
    hooks = Hooks(before=ActivityBinding(type="guard"), repair=ActivityBinding(type="mend"))
    play = Vault(
        [call("pay", {"amount": "much"})],
        tools=[pay(hooks=hooks)],
        hooks={"guard": None, "mend": {"amount": 5}},
        decisions={"t1c1": [{"decision": "edit", "arguments": {"amount": 7}}]},
    ).to_end()

    assert [one["arguments"] for one in play.shown] == [{"amount": 5}]
    assert play.paid == [{"amount": 7}]


@pytest.mark.parametrize("plan", [False, True])
@pytest.mark.parametrize(
    ("said", "code"),
    [({"block": "too much"}, "blocked"), ({"arguments": {}}, "blocked"), (None, None)],
)
def test_a_guard_sees_what_a_person_has_made_of_the_arguments(
    said: Any, code: str | None, plan: bool
) -> None:
    play = edited(said, plan=plan)

    assert play.errors() == {"t1c1": code}
    assert play.paid == ([] if code else [{"amount": 900}])


def test_a_guard_that_changes_an_edit_needs_an_approval_of_its_own() -> None:
    changes = {"arguments": {"amount": 90}}
    play = edited(changes, "approve")

    assert [one["arguments"] for one in play.shown] == [{"amount": 5}, {"amount": 90}]
    assert play.paid == [{"amount": 90}]
    assert edited(changes).paid == []
    assert edited(changes, plan=True).paid == []
