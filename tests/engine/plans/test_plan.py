"""§8: what a plan shows, whose approval it is, and what the model reads of it.

What becomes of a plan is in `tests/engine/plays/plans`.
"""

from typing import Any

import pytest

from holdfast.schemas.agent import AgentApproval
from holdfast.schemas.decision import Decided
from holdfast.schemas.names import ErrorCode
from holdfast.schemas.run import Principal
from holdfast.schemas.tool import ApprovalPolicy, CallLimits, ResolvedTool
from holdfast.workflows.engine.approvals.policy import satisfies
from holdfast.workflows.engine.call.outcomes import fail
from holdfast.workflows.engine.call.states import ToolCall
from tests.engine.driver import Play, call, reply, tool

TEXT = {"type": "string"}
AMOUNT = {
    "type": "object",
    "properties": {"amount": {"type": "number"}, "note": TEXT},
    "required": ["amount"],
    "additionalProperties": False,
}
QUOTE = tool("quote", output_path="†state.price", label="Get a price")
PAY = tool("pay", AMOUNT, side_effects=True, output_path="†state.paid")
LOOK = tool("look", chosen={"_outputPath": TEXT})
# A plan of three calls, each of which waits for the one before.
CHAIN = (
    call("quote", {"item": 7}),
    call("pay", {"amount": "†state.price", "_reasoningForCall": "they asked"}),
    call("look", {"at": "†state.paid", "_outputPath": "†state.seen"}),
)
PLAN = "t1-plan"


def lazy(*calls: Any, tools: Any = (QUOTE, PAY, LOOK), **more: Any) -> Play:
    """A run of a lazy agent whose first answer makes these calls."""
    definition = {"plan": "lazy", **more.pop("definition", {})}
    model = [reply("", *calls), *more.pop("then", [reply("done")])]
    return Play(*tools, model=model, definition=definition, **more)


def asked(play: Play) -> list[dict[str, Any]]:
    """What people were asked, in order."""
    return [entry["approval"] for entry in play.records("confirmation_required")]


def started(play: Play) -> list[str]:
    return [entry["callId"] for entry in play.records("tool_start")]


def test_a_plan_is_one_question_that_shows_the_whole_graph_before_anything_starts() -> None:
    ask = ResolvedTool(name="ask", parameters={}, delegate="helper")
    refused = (
        call("gone"),
        call("look", {"a": "†state.nowhere"}),
        call("pay", {"amount": "†state.price", "to": 1}),
        call("pay", {"amount": "x", "note": "†state.price"}),
        call("ship", {"for": "†state.price"}),
    )
    ship = tool("ship", limits=CallLimits(after=["mail"]))
    play = lazy(*CHAIN, *refused, call("ask"), tools=(QUOTE, PAY, LOOK, ship, ask)).to_end()
    question = asked(play)[0]

    assert (question["callId"], question["kind"]) == (PLAN, "plan")
    assert (question["tool"], question["label"]) == ("plan", "plan of 4 calls")
    assert "no part of it: t1c4, t1c5, t1c6, t1c7, t1c8." in question["question"]
    quote, pay, look, delegate = question["arguments"]["calls"]
    assert quote == {
        "id": "t1c1",
        "tool": "quote",
        "label": "Get a price",
        "arguments": {"item": 7},
        "reasoning": None,
        "waitsFor": [],
        "writes": "†state.price",
        "instance": None,
    }
    assert pay["arguments"] == {"amount": "†state.price"}
    assert (pay["reasoning"], pay["waitsFor"]) == ("they asked", ["t1c1"])
    assert (look["waitsFor"], look["writes"]) == (["t1c2"], "†state.seen")
    assert (delegate["id"], delegate["delegate"]) == ("t1c9", "helper")
    told = play.event_lines()
    assert told.index(f"confirmation_required {PLAN}") < told.index("tool_start t1c1")


def test_in_a_sequential_plan_each_call_waits_for_the_one_before_also_for_its_hooks() -> None:
    hooked = tool("step", sequential=True, hooks={"before": {"type": "guard"}})
    seen: list[list[str]] = []
    play = lazy(*[call("step")] * 2, tools=[hooked])
    play.hooks["guard"] = lambda _: seen.append(started(play))
    play.to_end()

    assert [one["waitsFor"] for one in asked(play)[0]["arguments"]["calls"]] == [[], ["t1c1"]]
    assert seen == [[], ["t1c1"]]


# Whose approval it is.


def payer(name: str, **policy: Any) -> ResolvedTool:
    return tool(name, side_effects=True, approval=ApprovalPolicy.model_validate(policy))


def test_the_question_has_the_strictest_of_the_calls_policies() -> None:
    tools = (
        payer("a", quorum=2, timeout="2d", onTimeout="approve", remind="4h"),
        payer("b", notBy="principal", timeout="1d", remind="1h", approvers=["finance", "ops"]),
        payer("c", approvers=["finance"]),
        payer("free", quorum=5),
    )
    definition = {"approval": AgentApproval(auto=["free"])}
    play = lazy(*[call(each.name) for each in tools], tools=tools, definition=definition)
    play.take(play.next())
    step: Any = play.next()
    play.decided(play.run.planning.check(step.turn))
    question = play.run.planning.ask(step.turn)

    assert question is not None
    assert question.policy == ApprovalPolicy.model_validate(
        {
            "require": "side_effects",
            "timeout": "1d",
            "onTimeout": "deny",
            "remind": "1h",
            "approvers": ["finance"],
            "quorum": 2,
            "notBy": "principal",
        }
    )


@pytest.mark.parametrize(
    ("policy", "by", "enough"),
    [
        ({}, [None], True),
        ({"quorum": 2}, ["ann"], False),
        ({"quorum": 2}, ["ann", "bob"], True),
        ({"quorum": 2}, ["ann", None], False),
        ({"notBy": "principal"}, ["ada"], False),
        ({"notBy": "principal"}, ["\uff21da "], False),
        ({"notBy": "principal"}, [None], False),
        ({"notBy": "principal", "quorum": 2}, ["ada", "ann"], False),
        ({"notBy": "principal"}, ["ada", "ann"], True),
        ({"approvers": ["ops", "legal"]}, ["ann"], True),
        ({"approvers": ["legal"]}, ["ann"], False),
    ],
)
def test_whether_those_who_approved_satisfy_a_policy(
    policy: dict[str, Any], by: list[str | None], enough: bool
) -> None:
    given = [Decided(decision="approve", by=one, groups=["ops"], at="", digest="") for one in by]

    assert satisfies(ApprovalPolicy.model_validate(policy), given, Principal(id="ada")) is enough


EDIT = {"decision": "edit", "arguments": {"calls": [{"id": "t1c1", "arguments": {}}]}}


@pytest.mark.parametrize("decision", [{"decision": "approve"}, EDIT])
def test_a_call_of_a_plan_has_the_words_of_its_approval(decision: dict[str, Any]) -> None:
    words = []

    def pay(one: ToolCall) -> str:
        words.append(one.prepared.decision)
        return "paid"

    said = {"by": "ann", **decision}
    lazy(call("a"), tools=[payer("a")], outcomes={"a": pay}, decisions={PLAN: [said]}).to_end()

    assert words == ["approved by ann (unverified)"]


# A message in the middle.


def interrupted(**more: Any) -> Play:
    """A run whose plan a person interrupts while its first call runs."""
    play = lazy(*CHAIN, **more)
    play.outcomes["quote"] = lambda one: play.receive("wait")
    return play


def tail_of(play: Play) -> str:
    """What stands behind the conversation now."""
    return play.run.settings.ask().tail or ""


def test_the_model_receives_the_state_of_the_plan() -> None:
    play = interrupted()
    play.take(play.next())
    play.take(play.next())
    play.next()

    told = tail_of(play)
    assert "- t1c1 quote: done\n" in told
    assert '- t1c2 pay {"amount": "†state.price"}: left\n' in told
    assert '- t1c3 look {"at": "†state.paid"}: left\n' in told
    assert "make them again unchanged to run them" in told
    assert tail_of(interrupted().to_end()).count("plan") == 0


def test_the_model_receives_what_failed_of_a_plan() -> None:
    play = lazy(*CHAIN, outcomes={"quote": fail(ErrorCode.TOOL_ERROR, "no")})
    play.take(play.next())
    play.take(play.next())
    play.next()

    told = tail_of(play)
    assert (
        "- t1c1 quote: not done (tool_error)\n- t1c2 pay: not done (unresolved_reference)" in told
    )
    assert "are still approved" not in told


def test_a_call_that_is_queued_among_those_that_run_is_held_back() -> None:
    """It is reported as started; only when it has room would it really be."""
    play = lazy(*CHAIN)
    play.take(play.next())
    step: Any = play.next()
    play.begin(step.turn)
    play.advance(play.turn)
    first = step.turn.calls[0]
    assert first.is_running
    play.receive("wait")
    play.run.planning.hold_back([first])

    assert first.outcome.error.code == "cancelled"
    assert first.is_decidable
