"""§8: an approved plan is what was shown, by a person who may approve each call of it."""

from typing import Any

import pytest

from holdfast.schemas.decision import digest_of
from holdfast.schemas.tool import ActivityBinding, Hooks, ResolvedTool
from holdfast.workflows.engine.approvals.question import Question
from tests.attacks.vault import PAYS, Vault, pay
from tests.engine.approvals.test_signed_decision import decision, token
from tests.engine.driver import call, tool

PLAN = "t1-plan"
LOOK = tool("look")
QUOTE = tool("quote", output_path="†state.price")
LATER = call("pay", {"amount": "†state.price"})
TOOLS = (LOOK, QUOTE, pay())


def lazy(*calls: Any, tools: Any = TOOLS, **more: Any) -> Vault:
    definition = {"plan": "lazy", **more.pop("definition", {})}
    more.setdefault("outcomes", {"quote": 40})
    return Vault(list(calls), tools=tools, definition=definition, **more)


def edit(*calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"decision": "edit", "arguments": {"calls": list(calls)}, "by": "eve", **more}


LOOKS = call("look", {"at": 1})
EDITS: list[tuple[dict[str, Any], str]] = [
    (edit({"id": "t1c1"}, {"id": "t1c2", "tool": "pay", "arguments": {"amount": 9}}), "no call"),
    (edit({"id": "t2c1", "arguments": {"amount": 9}}), "no call"),
    (edit({"id": "t1c1", "tool": "pay", "arguments": {"amount": 9}}), "`tool` cannot be changed"),
    (edit({"id": "t1c1", "label": "Pay"}), "`label` cannot be changed"),
    (edit({"id": "t1c1", "delegate": "helper"}), "`delegate` cannot be changed"),
    (edit({"id": "t1c1", "writes": "†state.x"}), "`writes` cannot be changed"),
    (edit({"id": "t1c1", "waitsFor": ["t1c1"]}), "`waitsFor` cannot be changed"),
    (edit({"id": "t1c1"}, {"id": "t1c1", "arguments": {"at": 2}}), "twice"),
]


@pytest.mark.parametrize(("said", "why"), EDITS)
def test_an_edit_makes_no_other_call_of_a_plan(said: dict[str, Any], why: str) -> None:
    play = lazy(LOOKS, decisions={PLAN: [said]}).to_end()

    assert why in play.refusals[0]
    assert play.paid == []
    assert play.records("tool_start") == []


def test_the_order_of_an_edit_is_not_that_of_the_plan() -> None:
    said = edit({"id": "t1c2"}, {"id": "t1c1"})
    play = lazy(LOOKS, call("look", {"at": 2}), decisions={PLAN: [said]}).to_end()

    assert [one["callId"] for one in play.records("tool_start")] == ["t1c1", "t1c2"]


def test_who_may_not_approve_a_call_does_not_by_a_plan() -> None:
    own = pay({"approvers": ["finance"]})
    sales = {"decision": "approve", "by": "eve", "groups": ["sales"]}
    either = {"approvers": ["finance", "sales"], "require": "always"}
    visit = tool("visit", approval=pay({**either, "approvers": ["sales"]}).approval)
    play = lazy(call("visit"), PAYS, tools=(visit, own), decisions={PLAN: [sales]}).to_end()

    assert [one["callId"] for one in play.shown] == [PLAN, "t1c2"]
    assert play.errors() == {"t1c1": None, "t1c2": "approval_timeout"}
    assert play.paid == []


@pytest.mark.parametrize("edits", [False, True])
def test_one_who_edits_a_plan_does_not_approve_for_two(edits: bool) -> None:
    said = edit({"id": "t1c1", "arguments": {"amount": 9_000}})
    also = {"decision": "approve", "by": "Eve"}
    play = lazy(
        PAYS,
        tools=(pay({"quorum": 2}),),
        decisions={PLAN: [said, also] if edits else [also, {**also, "by": "eve "}]},
    ).to_end()

    assert play.paid == []


@pytest.mark.parametrize("name", ["prepare", "repair", "before"])
def test_what_hooks_make_of_a_plan_since_is_asked_about(name: str) -> None:
    binding = {name: ActivityBinding(type="changes")}
    more = {"amount": 9_000}
    changes = {"prepare": {"amount": "†state.price"}, "repair": more, "before": {"arguments": more}}
    own = pay(hooks=Hooks.model_validate(binding))
    play = lazy(
        call("quote"),
        LATER,
        tools=(QUOTE, own),
        outcomes={"quote": "much" if name == "repair" else 40},
        hooks={"changes": changes[name]},
        decisions={PLAN: ["approve"]},
    ).to_end()

    assert [one["callId"] for one in play.shown] == [PLAN, "t1c2"]
    assert play.paid == []


BOUND = {"properties": {"amount": {"type": "number", "maximum": 500}}, "required": ["amount"]}
BOUNDED: dict[str, Any] = {
    "decision": "edit",
    "arguments": {"calls": [{"id": "t1c1"}, {"id": "t1c2", "bound": BOUND}]},
}


def later(price: Any, *decisions: Any, **policy: Any) -> Vault:
    """A plan that pays a price which is known later, decided so; the payment is undecided."""
    return lazy(
        call("quote"),
        LATER,
        tools=(QUOTE, pay(policy)),
        outcomes={"quote": price},
        decisions={PLAN: list(decisions)},
    ).to_end()


def test_a_plan_covers_no_value_that_its_approver_has_not_seen() -> None:
    play = later(999_999, "approve")

    assert [one["callId"] for one in play.shown] == [PLAN, "t1c2"]
    assert play.shown[1]["arguments"] == {"amount": 999_999}
    assert play.paid == []


def test_an_undecided_plan_covers_no_later_value_either() -> None:
    waits = {"approval": {"onTimeout": "approve"}}
    play = lazy(call("quote"), LATER, tools=(QUOTE, pay()), definition=waits).to_end()

    assert [one["callId"] for one in play.shown] == [PLAN, "t1c2"]


def test_a_call_that_needs_no_approval_by_its_value_is_not_asked_about() -> None:
    when = {"properties": {"amount": {"exclusiveMinimum": 100}}}

    assert later(40, "approve", when=when).paid == [{"amount": 40}]
    assert later(101, "approve", when=when).paid == []


@pytest.mark.parametrize(("price", "paid"), [(500, True), (501, False), ("500", True), (-1, True)])
def test_a_bound_is_what_later_values_are_approved_within(price: Any, paid: bool) -> None:
    play = later(price, BOUNDED)

    assert [one["callId"] for one in play.shown] == ([PLAN] if paid else [PLAN, "t1c2"])
    assert bool(play.paid) is paid
    assert later(500, BOUNDED, signed=True).paid == []


@pytest.mark.parametrize("name", ["repair", "before"])
def test_a_bound_covers_nothing_that_a_hook_makes_of_later_values(name: str) -> None:
    within = {"amount": 400}
    hooks = Hooks.model_validate({name: ActivityBinding(type="changes")})
    play = lazy(
        call("quote"),
        LATER,
        tools=(QUOTE, pay(hooks=hooks)),
        outcomes={"quote": "much" if name == "repair" else 40},
        hooks={"changes": within if name == "repair" else {"arguments": within}},
        decisions={PLAN: [BOUNDED]},
    ).to_end()

    assert [one["callId"] for one in play.shown] == [PLAN, "t1c2"]
    assert play.paid == []


@pytest.mark.parametrize("chained", [False, True], ids=["one run", "continued as new"])
def test_a_bound_ends_with_the_turn_of_its_plan(chained: bool) -> None:
    def quotes(_: Any) -> int:
        play.receive("wait")
        return 999_999

    play = Vault(
        [call("quote"), LATER],
        [LATER],
        tools=[QUOTE, pay()],
        definition={"plan": "lazy"},
        outcomes={"quote": quotes},
        decisions={PLAN: [BOUNDED]},
    )
    play.chained = chained
    play.to_end()

    assert [one["callId"] for one in play.shown] == [PLAN, "t2c1"]
    assert play.paid == []


def test_a_bound_is_part_of_what_a_second_person_approves() -> None:
    seen: list[Any] = []

    def agrees(now: Question) -> Any:
        seen.extend(now.arguments["calls"])
        return {"decision": "approve", "by": "bob", "digest": now.digest}

    blind = {"decision": "approve", "by": "bob"}
    play = later(40, {**BOUNDED, "by": "ann"}, blind, agrees, quorum=2)

    assert "has changed the arguments" in play.refusals[0]
    assert [one.get("bound") for one in seen] == [None, BOUND]
    assert play.paid == [{"amount": 40}]


SIGNED: ResolvedTool = pay({"signed": True})


def of_plan(question: Question) -> Any:
    """A signed approval of the plan as it is shown."""
    return decision("approve", token(digest=question.digest, id="plan"), callId=question.call_id)


def test_a_signature_on_a_plan_covers_no_later_value() -> None:
    play = lazy(
        call("quote"), LATER, tools=(QUOTE, SIGNED), decisions={PLAN: ["approve", of_plan]}
    ).to_end()

    assert play.refusals[0].startswith("invalid_decision: this call accepts only signed decisions")
    [_, asked] = play.shown
    assert (asked["callId"], asked["arguments"]) == ("t1c2", {"amount": 40})
    assert play.paid == []


def test_a_signed_bound_is_no_signature_of_a_later_value() -> None:
    def bounds(question: Question) -> Any:
        edited = BOUNDED["arguments"]
        digest = digest_of("plan", edited, "plan", question.round)
        claims = token(digest=digest, id="plan", decision="edit")
        return decision("edit", claims, callId=PLAN, arguments=edited)

    play = later(500, bounds, signed=True)

    assert [one["callId"] for one in play.shown] == [PLAN, "t1c2"]
    assert play.paid == []


@pytest.mark.parametrize("sequential", [False, True])
def test_a_plan_signed_as_shown_is_executed(sequential: bool) -> None:
    quote = QUOTE.model_copy(update={"sequential": sequential})
    play = lazy(call("quote"), PAYS, tools=(quote, SIGNED), decisions={PLAN: [of_plan]}).to_end()

    assert play.paid == [{"amount": 5}]


def test_what_is_proposed_again_with_other_data_is_a_new_plan() -> None:
    def receives(_: Any) -> str:
        said = [{"type": "data", "kind": "state", "data": {"price": 9_000}}]
        play.receive(said)
        return "approve"

    again = [call("pay", {"amount": "†state.price"})]
    play = Vault(
        again,
        again,
        definition={"plan": "lazy"},
        state={"price": 5},
        decisions={PLAN: [receives]},
    )
    play.to_end()

    assert [one["callId"] for one in play.shown] == [PLAN, "t2-plan"]
    assert play.paid == []


def test_a_run_that_may_not_wait_has_no_plan_approved() -> None:
    play = lazy(PAYS, approvals="deny", decisions={PLAN: ["approve"]}).to_end()

    assert play.errors() == {"t1c1": "denied"}
    assert play.paid == []
