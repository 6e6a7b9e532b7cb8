"""§8: what people decide on a plan: approve, deny, edit single calls or strike them out, and whose
approval it is."""

from datetime import timedelta
from typing import Any

import pytest

from holdfast.schemas.agent import AgentApproval
from holdfast.schemas.decision import Decided
from holdfast.schemas.run import Principal
from holdfast.schemas.tool import ApprovalPolicy, ResolvedTool
from holdfast.workflows.engine.approvals.policy import satisfies
from holdfast.workflows.engine.call.states import ToolCall
from tests.engine.driver import NOON, Play, call, tool
from tests.engine.plans.test_plan import LOOK, PAY, PLAN, QUOTE, asked, edit, lazy, refund, started


def refused(play: Play) -> str:
    """Why the one decision was refused."""
    [refusal] = play.refusals
    return refusal


def test_a_denied_plan_starts_nothing_and_has_the_reason() -> None:
    play = refund(decisions={PLAN: [{"decision": "deny", "reason": "not today"}]}).to_end()

    assert set(play.errors().values()) == {"denied"}
    assert "not today" in play.results()["t1c1"]
    assert started(play) == []


@pytest.mark.parametrize(
    ("on_timeout", "codes"),
    [("deny", {"approval_timeout"}), ("fail", {"approval_timeout"}), ("approve", {None})],
)
def test_a_plan_without_a_decision(on_timeout: Any, codes: set[Any]) -> None:
    definition = {"approval": AgentApproval(on_timeout=on_timeout)}
    play = refund(decisions={PLAN: ["expire"]}, definition=definition).to_end()

    assert set(play.errors().values()) == codes
    assert (play.run.status == "failed") is (on_timeout == "fail")


def pay(**more: Any) -> dict[str, Any]:
    """The payment, with something of it changed."""
    return {"id": "t1c2", **more}


def of(calls: Any) -> dict[str, Any]:
    """An edit with this as its calls."""
    return {"decision": "edit", "arguments": {"calls": calls}}


ELSE = "or change the arguments"
UNFIT: list[tuple[dict[str, Any], str]] = [
    ({"decision": "respond", "result": 1}, "decide on a plan with approve, edit or deny"),
    ({"decision": "happened", "result": 1}, "`happened` is for calls whose outcome is unknown"),
    ({"decision": "approve", "remember": True}, "`remember` is for a single call; leave it out"),
    ({"decision": "edit", "arguments": {}}, "`calls` is missing"),
    (of("t1c1"), "`calls`: `t1c1` does not fit"),
    (of(["t1c1"]), "`calls[0]`: `t1c1` does not fit"),
    (of([{}]), "`calls[0]`: `id` is missing"),
    (of([{"id": "t1c1", "args": 1}]), "unknown field `args`; did you mean `arguments`?"),
    (edit(), "no call is left; `deny` the plan instead"),
    (edit("t1c1", "t1c1"), "`t1c1` is listed twice"),
    (edit("t1c1", "t1c9"), "`t1c9` is no call of this plan; it has `t1c1`, `t1c2`, `t1c3`"),
    (edit(pay(tool="look")), "t1c2: `tool` cannot be changed, only `arguments` can"),
    (edit("t1c1", pay(waitsFor=[])), "t1c2: `waitsFor` cannot be changed"),
    (edit("t1c1", pay(delegate="other")), "t1c2: `delegate` cannot be changed"),
    (edit("t1c1", pay(bound={"type": "no"})), "t1c2: `bound`: "),
    (edit("t1c1", pay(bound={})), "t1c2: `bound` is empty; write what the arguments have to fit"),
    (
        edit("t1c1", pay(arguments={"amount": 1}, bound={"maxProperties": 1})),
        "t1c2: `bound` is for arguments that are not known yet",
    ),
    (edit({"id": "t1c1", "bound": {}}), "t1c1: `bound` is for arguments that are not known yet"),
    (edit("t1c1", pay(arguments={"amount": "much"})), "t1c2: amount: "),
    (
        edit("t1c1", pay(arguments={"amount": "†state.x"})),
        f"t1c2: there is no value at †state.x. Strike t1c2 out as well, {ELSE}",
    ),
    (
        edit("t1c1", pay(arguments={"amount": 1, "note": "†state.paid"})),
        "t1c2: there is no value at †state.paid",
    ),
    (
        edit("t1c2", "t1c3"),
        "the edited plan is not valid:"
        " t1c2: there is no value at †state.price (t1c1 should have written it, and did not)."
        f" Strike t1c2 out as well, {ELSE}",
    ),
]


@pytest.mark.parametrize(("decision", "why"), UNFIT)
def test_a_decision_that_a_plan_cannot_take_is_refused_with_the_reason(
    decision: dict[str, Any], why: str
) -> None:
    play = refund(decisions={PLAN: [decision]}).to_end()

    assert why in refused(play)
    assert len(started(play)) == 3


def test_who_refers_to_a_struck_call_can_be_given_a_value_instead() -> None:
    play = refund(
        decisions={PLAN: [edit({"id": "t1c2", "arguments": {"amount": "12"}}, "t1c3")]}
    ).to_end()

    assert play.errors() == {"t1c1": "denied", "t1c2": None, "t1c3": None}
    changed, result = play.results()["t1c2"].split("\n")
    assert changed == 'A person changed the arguments of this call to {"amount":"12"}.'
    assert result == '{"amount": 12}'


def test_a_chain_of_calls_that_need_a_struck_one_is_named_whole() -> None:
    play = lazy(
        call("quote"),
        call("look", {"a": "†state.price", "_outputPath": "†state.x"}),
        call("look", {"a": "†state.x"}),
        decisions={PLAN: [edit("t1c2", "t1c3")]},
    ).to_end()

    assert "Strike t1c2, t1c3 out as well" in refused(play)


def test_arguments_that_were_shown_whole_are_taken_as_they_are() -> None:
    """What looks like a reference in them is none, whatever its source."""
    play = lazy(
        call("look", {"at": "†state.sly"}),
        call("quote"),
        state={"sly": "†state.secret", "secret": 1},
        outcomes={"look": lambda one: one.arguments},
        decisions={PLAN: [edit({"id": "t1c1", "arguments": {"at": "†state.secret"}}, "t1c2")]},
    ).to_end()

    [question] = asked(play)
    assert question["arguments"]["calls"][0]["arguments"] == {"at": "†state.secret"}
    assert play.results()["t1c1"] == '{"at": "†state.secret"}'
    [asked_call, _] = play.messages()[1]["calls"]
    assert asked_call["arguments"] == {"at": "†state.sly"}


def test_who_agrees_to_an_edit_agrees_to_the_edited_plan() -> None:
    definition = {"approval": AgentApproval(quorum=2)}
    play = refund(
        decisions={
            PLAN: [
                {"decision": "approve", "by": "bob"},
                edit("t1c1", "t1c2", by="ann"),
                edit("t1c1", "t1c3", by="cat"),
                lambda now: {"decision": "approve", "by": "bob", "digest": now.digest},
            ],
            "t1c2": ["expire"],
        },
        definition=definition,
    ).to_end()

    assert "`t1c3` is no call of this plan" in refused(play)
    assert play.errors()["t1c3"] == "denied"
    said = [each["decided"] for each in play.records("decision") if "decided" in each]
    assert [each["by"] for each in said] == ["bob", "ann", "bob"]


# Whose approval it is.


def payer(name: str, **policy: Any) -> ResolvedTool:
    return tool(name, side_effects=True, approval=ApprovalPolicy.model_validate(policy))


def test_the_question_has_the_strictest_of_the_calls_policies() -> None:
    tools = (
        payer("a", quorum=2, timeout="2d", onTimeout="approve", remind="4h"),
        payer("b", notBy="principal", timeout="1d", remind="1h", approvers=["finance", "ops"]),
        payer("c", approvers=["finance"]),
    )
    free = payer("free", quorum=5)
    definition = {"approval": AgentApproval(auto=["free"])}
    calls = [call(each.name) for each in (*tools, free)]
    play = lazy(*calls, tools=(*tools, free), definition=definition)
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
    assert "onTimeout" not in question.to_pending_approval().to_json()


def test_a_plan_shows_its_outcome_without_a_decision() -> None:
    asks = payer("a", onTimeout="approve")
    play = lazy(call("a"), tools=(asks,))
    play.take(play.next())
    step: Any = play.next()
    play.decided(play.run.planning.check(step.turn))
    question = play.run.planning.ask(step.turn)
    assert question is not None
    assert question.to_pending_approval().to_json()["onTimeout"] == "approve"


APPROVALS = [
    # Who approves the plan, and which calls ask for themselves then.
    ([{"by": "ann", "groups": ["finance"]}], ["legal"]),
    ([{"by": "ann", "groups": ["legal"]}], ["finance"]),
    ([{"by": "ann", "groups": ["finance", "legal"]}], []),
]


@pytest.mark.parametrize(("by", "alone"), APPROVALS)
def test_a_call_that_those_who_approved_may_not_approve_asks_for_itself(
    by: list[dict[str, Any]], alone: list[str]
) -> None:
    tools = (payer("finance", approvers=["finance"]), payer("legal", approvers=["legal"]), LOOK)
    ok = {"decision": "approve", "by": "bob", "groups": ["finance", "legal"]}
    play = lazy(
        *[call(each.name) for each in tools],
        tools=tools,
        decisions={
            PLAN: [{"decision": "approve", **each} for each in by],
            "t1c1": [ok],
            "t1c2": [ok],
        },
    ).to_end()

    assert [one["tool"] for one in asked(play)] == ["plan", *alone]
    assert set(play.errors().values()) == {None}


@pytest.mark.parametrize(
    ("others", "alone"),
    [(["ops"], []), (["board"], None), ([], None)],
)
def test_a_plan_is_forwarded_where_each_of_its_calls_is(
    others: list[str], alone: list[str] | None
) -> None:
    same = {"approvers": ["finance"], "forward": [{"after": "1h", "to": ["ops"]}]}
    forward = [{"after": "1h", "to": others}] if others else []
    tools = (payer("a", **same), payer("b", approvers=["legal"], forward=forward))

    def ops(now: Any) -> dict[str, Any]:
        now.take_forward(NOON + timedelta(hours=1))
        return {"decision": "approve", "by": "ann", "groups": ["ops"]}

    decisions = {PLAN: [ops, "expire"]}
    play = lazy(*[call(each.name) for each in tools], tools=tools, decisions=decisions).to_end()

    first, *rest = asked(play)
    expected = None if play.errors()["t1c1"] else [one["tool"] for one in rest]
    assert (first["tool"], expected) == ("plan", alone)


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


BEFORE = tool("hook").activity


@pytest.mark.parametrize(
    ("says_", "questions"),
    [
        (None, [PLAN]),
        ({"arguments": {"amount": 40}}, [PLAN]),
        ({"arguments": {"amount": 41}}, [PLAN, "t1c2"]),
    ],
)
def test_a_hook_that_changes_what_was_approved_has_a_person_asked(
    says_: Any, questions: list[str]
) -> None:
    hooked = PAY.model_copy(update={"hooks": PAY.hooks.model_copy(update={"before": BEFORE})})
    bound = {"properties": {"amount": {"maximum": 500}}}
    play = lazy(
        call("quote"),
        call("pay", {"amount": "†state.price"}),
        tools=(QUOTE, hooked),
        outcomes={"quote": 40},
        hooks={"hook": says_},
        decisions={PLAN: [edit("t1c1", pay(bound=bound))]},
    ).to_end()

    assert [one["callId"] for one in asked(play)] == questions


EDIT = {"decision": "edit", "arguments": {"calls": [{"id": "t1c1", "arguments": {}}]}}


@pytest.mark.parametrize("decision", [{"decision": "approve"}, EDIT])
def test_a_call_of_a_plan_has_the_words_of_its_approval(decision: dict[str, Any]) -> None:
    words = []

    def pay(one: ToolCall) -> str:
        words.append(one.prepared.decision)
        return "paid"

    said = {"by": "ann", **decision}
    lazy(call("a"), tools=[payer("a")], outcomes={"a": pay}, decisions={"t1-plan": [said]}).to_end()

    assert words == ["approved by ann (unverified)"]
