"""A call whose rules cannot be checked, as one that is too large for them."""

from typing import Any

from holdfast.schemas.tool import ApprovalRule
from tests.engine.asking import approve, decides, open_question
from tests.engine.driver import Play, call, reply, tool

UNCLEAR = {"properties": {"amount": {"type": "money"}}}
RULES = [
    {
        "when": {"required": ["free"]},
        "approvers": ["support"],
        "forward": [{"after": "1h", "to": ["board"]}],
    },
    {"when": UNCLEAR, "approvers": ["finance"], "quorum": 2},
    {"approvers": ["legal"]},
]


def two_unclear_calls(first: dict[str, Any] | None = None) -> Play:
    listed = [ApprovalRule.model_validate(each) for each in RULES]
    pay = tool("pay", side_effects=True, approval_rules=listed)
    both = (call("pay", {"amount": 5, **(first or {})}), call("pay", {"amount": 6}))
    return Play(pay, model=[reply("", *both), reply("done")])


def decide(play: Play, by: str, group: str, **more: Any) -> tuple[bool, int]:
    receipt = decides(play, approve(by=by, groups=[group], **more))
    return receipt.decided, receipt.missing


def test_it_needs_the_decisions_that_each_rule_requires() -> None:
    play = two_unclear_calls()
    shown = open_question(play).to_pending_approval()
    assert (shown.approvers, shown.quorum) == (["support", "finance", "legal"], 2)
    assert [rule.number for rule in shown.rules] == [1, 2, 3]
    assert decide(play, "ann", "finance") == (False, 1)
    assert decide(play, "bob", "finance") == (False, 1)
    assert decide(play, "cat", "legal") == (False, 1)
    assert decide(play, "dan", "support") == (True, 0)


def test_its_approval_is_remembered_for_no_call() -> None:
    play = two_unclear_calls()
    _, other = [open_question(play), play.desk.list_open()[1]]
    people = ("ann finance", "bob finance", "cat legal", "dan support")
    last = [decide(play, *one.split(), remember=True) for one in people][-1]
    assert last == (True, 0)
    assert play.desk.list_open() == [other]
    assert play.desk.remembered == []


def test_a_remembered_approval_of_one_of_its_rules_does_not_release_it() -> None:
    play = two_unclear_calls({"free": True})
    open_question(play)
    clear, unclear = play.desk.list_open()
    assert [len(one.applied) for one in (clear, unclear)] == [1, 3]
    assert decide(play, "dan", "support", remember=True) == (True, 0)
    assert play.desk.list_open() == [unclear]
