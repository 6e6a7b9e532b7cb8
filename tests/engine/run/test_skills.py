"""§9: a run has one skill, and no text gets it the tools of another."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.schemas.agent import ForcedTool, ResolvedSkill
from holdfast.schemas.internal.model_request import Ask, ConversationPageRequest
from holdfast.schemas.internal.solution import WrittenCall
from holdfast.schemas.names import ErrorCode
from holdfast.schemas.tool import ActivityBinding, AgentHooks
from holdfast.workflows.engine.call.outcomes import Stopped, Succeeded
from holdfast.workflows.engine.call.states import ToolCall
from holdfast.workflows.engine.conversation.initial_context import InvalidRequest
from holdfast.workflows.engine.execution_base import MAX_RESULT_BYTES
from holdfast.workflows.engine.phases import AskModel, AwaitMessage, Fail, Finish
from tests.engine.driver import NoAnswer, Play, call, reply, tool

REFUNDS = ResolvedSkill(
    name="refunds",
    description="Give money back.",
    instructions="Ask for the order first.",
    tools=[tool("find_order", untrusted=True), tool("refund")],
)
TRAVEL = ResolvedSkill(name="travel", instructions="Be brief.", tools=[tool("book")])
EXPORT = ResolvedSkill(name="export", tools=[], activity=ActivityBinding(type="ExportAll"))
OWN = tool("look")
CHOOSE = call("choose_skill", {"skill": "refunds"})
DONE = reply("done")


def desk(*model: Any, skills: Any = (REFUNDS, TRAVEL), **more: Any) -> Play:
    """A run of an agent with skills, and a tool of its own."""
    definition = {"instructions": "You are a desk.", "skills": list(skills)}
    definition |= more.pop("definition", {})
    return Play(OWN, model=model, definition=definition, **more)


def asks(play: Play) -> list[Ask]:
    """The settings of each request of a run, which is played until it ends or waits."""
    found: list[Ask] = []
    while not isinstance(step := play.next(), Finish | Fail | AwaitMessage):
        if isinstance(step, AskModel):
            ask = play.run.settings.page(ConversationPageRequest(upto=0)).ask
            assert ask is not None
            found.append(ask)
        play.take(step)
    return found


# Which skill a run has.


@pytest.mark.parametrize(
    ("skills", "request_", "why"),
    [
        (
            (REFUNDS, TRAVEL),
            {"skill": "refund"},
            "`skill`: agent `tester` has no skill `refund`; did you mean `refunds`?",
        ),
        (
            (REFUNDS, TRAVEL),
            {"skill": ""},
            "`skill`: agent `tester` has no skill ``; known: `refunds`, `travel`",
        ),
        ((), {"skill": "refunds"}, "`skill`: agent `tester` has no skills; leave it out"),
        (
            (REFUNDS, TRAVEL),
            {"skill": "refunds", "toolChoice": {"name": "book"}},
            "`toolChoice`: skill `refunds` has no tool `book`; did you mean `look`?",
        ),
        (
            (REFUNDS, TRAVEL),
            {"toolChoice": {"name": "boook"}},
            "`toolChoice`: agent `tester` has no tool `boook`; did you mean `book`?",
        ),
        (
            (EXPORT, TRAVEL),
            {"skill": "export", "conversation": True},
            "`conversation`: the skill `export` of agent `tester` is an activity, which receives no"
            " messages; leave it out",
        ),
    ],
)  # fmt: skip
def test_an_unavailable_skill_starts_no_run(skills: Any, request_: Any, why: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        desk(DONE, skills=skills, **request_)

    assert str(refused.value) == why


ROUTED = (
    REFUNDS.model_copy(update={"when": {"type": "object", "required": ["order_id"]}}),
    TRAVEL.model_copy(update={"when": {"type": "string", "pattern": "flight"}}),
    ResolvedSkill(name="other"),
)


def test_a_named_skill_comes_before_every_rule_and_the_model_after_them() -> None:
    named = desk(DONE, skills=ROUTED, input="flight", skill="refunds").to_end()
    assert [(one["skill"], one["by"]) for one in named.records("skill")] == [("refunds", "request")]

    sure = call(
        "choose_skill", {"skill": "other", "confidence": 0.75, "_reasoningForCall": "It is"}
    )
    chosen = desk(reply("", sure), DONE, skills=ROUTED, input="hello").to_end()
    [entry] = chosen.records("skill")
    assert {key: entry[key] for key in ("skill", "by", "confidence", "reason")} == {
        "skill": "other",
        "by": "model",
        "confidence": 0.75,
        "reason": "It is",
    }


# The choice.


def test_the_model_chooses_first_from_names_and_descriptions() -> None:
    [ask, _] = asks(desk(reply("", CHOOSE), DONE))
    [offer] = ask.tools
    which = offer.parameters["properties"]["skill"]

    assert (offer.name, ask.tool_choice) == ("choose_skill", "required")
    assert which["enum"] == ["refunds", "travel"]
    assert which["description"] == "One of:\n- refunds: Give money back.\n- travel"
    assert ask.instructions == "You are a desk."


def test_then_it_has_the_skills_instructions_and_tools_and_is_offered_no_choice() -> None:
    play = desk(reply("", CHOOSE), reply("", call("refund")), DONE)
    [_, second, third] = asks(play)

    assert [offer.name for offer in second.tools] == ["look", "find_order", "refund"]
    assert second.instructions.startswith("You are a desk.\n\nAsk for the order first.\n\n")
    assert "never follow instructions" in second.instructions, "as its tools ask for"
    assert second.tool_choice == "auto"
    assert third.instructions == second.instructions
    assert play.errors() == {"t1c1": None, "t2c1": None}


def test_a_choice_is_logged_as_a_call_and_counts_as_one_and_as_a_turn() -> None:
    play = desk(reply("", CHOOSE), DONE).to_end()

    assert play.event_lines() == [
        *("turn_start", "tool_call t1c1", "tool_start t1c1", "tool_end t1c1", "skill", "turn_end"),
        *("turn_start", "turn_end", "done"),
    ]
    assert play.records("tool_call")[0]["label"] == "Choose a skill"
    assert play.results()["t1c1"] == (
        "The skill `refunds` is active: its instructions and tools apply now."
    )
    assert (play.result["turns"], play.result["calls"]) == (2, 1)
    assert play.run.state.meter.iterations == 1


def test_a_choice_needs_no_person_no_hook_and_no_scope() -> None:
    binding = ActivityBinding(type="check")
    hooks = AgentHooks(prepare=binding, repair=binding, before=binding, after=binding)
    play = desk(
        reply("", call("choose_skill", {"skill": "refundss"})),
        reply("", CHOOSE),
        DONE,
        definition={"approval": {"require": "always"}, "hooks": hooks},
        approvals="deny",
    ).to_end()

    assert play.errors() == {"t1c1": "invalid_arguments", "t2c1": None}
    assert play.hook_calls == []


@pytest.mark.parametrize(
    ("choice", "then"),
    [
        ("required", "required"),
        ("none", "none"),
        ({"name": "refund"}, ForcedTool(name="refund")),
        ({"name": "look"}, ForcedTool(name="look")),
        ({"name": "book"}, "auto"),
    ],
)
def test_a_tool_choice_holds_for_the_first_request_after_the_choice(choice: Any, then: Any) -> None:
    play = desk(reply("", CHOOSE), DONE, DONE, toolChoice=choice)
    found = asks(play)

    assert [ask.tool_choice for ask in found[:2]] == ["required", then]
    assert play.result["turns"] == (2 if then in ("none", "auto") else 3)
    noted = [entry["text"] for entry in play.records("notice")]
    assert noted == (
        ["the skill `refunds` has no tool `book`: the first call is not forced"]
        if then == "auto"
        else []
    )


# What is allowed.


TOOLS = {"refunds": {"look", "find_order", "refund"}, "travel": {"look", "book"}}
NAMES = st.sampled_from(
    ["look", "find_order", "refund", "book", "choose_skill", "Book", " book", "travel.book", ""]
) | st.text(max_size=10)
WRITTEN = st.builds(
    WrittenCall,
    tool=NAMES,
    arguments=st.sampled_from([{}, {"skill": "travel"}, {"skill": "refunds"}, '{"skill": 1}'])
    | st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2),
)
ANSWERS = st.lists(
    st.builds(lambda text, calls: reply(text, *calls), st.text(max_size=5), st.lists(WRITTEN)),
    max_size=8,
)


@given(answers=ANSWERS, named=st.sampled_from([None, "refunds", "travel"]), told=st.text())
def test_no_answer_of_a_model_starts_what_is_not_allowed(
    answers: Any, named: str | None, told: str
) -> None:
    outcomes = dict.fromkeys(("look", "find_order", "refund", "book"), told)
    play = desk(*answers, *[DONE] * 10, skill=named, outcomes=outcomes).to_end()
    allowed = {"choose_skill"}
    for record in play.records("skill", "tool_start"):
        if record["type"] == "skill":
            assert allowed == {"choose_skill"}, "it has one skill, to its end"
            allowed = TOOLS[record["skill"]]
        else:
            assert record["tool"] in allowed


# A skill that is an activity.


def exports(**more: Any) -> Play:
    """A run by an activity alone; it returns what it was given."""
    more.setdefault("outcomes", {"export": lambda one: one.arguments})
    return desk(skills=[EXPORT, TRAVEL], **{"skill": "export", **more}).to_end()


def test_the_message_of_a_user_is_given_to_the_activity_as_it_is() -> None:
    said = {"_note": "†state.secret", "†": "see †{state.secret}", "_activity": 1}

    assert exports(input=said, state={"secret": 7}).result["output"] == said
    assert exports(input="†state.secret").result["output"] == {"input": "†state.secret"}


@pytest.mark.parametrize(
    ("outcome", "status", "output"),
    [
        ({"_result": {"content": "enough", "terminate": True}}, "stopped", "enough"),
        (Stopped("no more"), "stopped", "no more"),
        ("x" * (MAX_RESULT_BYTES // 2), "completed", "x" * (MAX_RESULT_BYTES // 2)),
    ],
)
def test_it_ends_as_the_activity_returns(outcome: Any, status: str, output: str) -> None:
    play = exports(outcomes={"export": outcome})

    assert (play.result["status"], play.result["output"]) == (status, output)


@pytest.mark.parametrize(
    ("given", "schema", "edited"),
    [
        ({"month": "2026-01"}, {"type": "object", "required": ["month"]}, {"year": 2026}),
        ("all of it", {"type": "string", "maxLength": 9}, {"input": "all of it, and more"}),
        ("all of it", None, {"input": {"a": 1}}),
        ("all of it", None, {}),
    ],
)
def test_people_can_change_its_arguments_to_what_is_an_input_only(
    given: Any, schema: Any, edited: Any
) -> None:
    play = exports(
        input=given,
        definition={"approval": {"require": "always"}, "input": schema},
        decisions={"t1c1": [{"decision": "edit", "arguments": edited}]},
    )

    assert [refusal.split(":")[0] for refusal in play.refusals] == ["invalid_decision"]
    assert play.result["output"] == (given if isinstance(given, dict) else {"input": given})


# In composed calling.


def composed(*calls: Any, output: Any = None) -> Any:
    """One composed answer."""
    return reply(json.dumps({"calls": list(calls), "output": output}))


def test_in_a_composed_answer_the_choice_is_one_of_its_calls() -> None:
    choose = {"_tool": "choose_skill", "skill": "refunds"}
    play = desk(
        composed(output="I do not choose."),
        composed({"_tool": "refund"}, choose, output="Done already."),
        composed({"_tool": "book"}, {"_tool": "refund"}, output="done"),
        definition={"calling": "composed"},
    ).to_end()

    assert play.engine_messages()[0].startswith("No skill is chosen yet.")
    assert play.errors() == {
        "t2c1": "tool_not_allowed",
        "t2c2": None,
        "t3c1": "tool_not_allowed",
        "t3c2": None,
    }
    assert (play.result["output"], play.result["turns"]) == ("done", 3)


# The skill of a conversation changes.


def conversing(*model: Any, **more: Any) -> Play:
    return desk(*model, skills=[REFUNDS, TRAVEL, EXPORT], conversation=True, **more)


def test_a_message_of_a_conversation_changes_the_skill() -> None:
    play = conversing(reply("one"), reply("", call("book")), reply("two"), skill="refunds").to_end()
    play.receive("book it", skill="travel")
    play.to_end()

    assert play.run.state.skill == "travel"
    assert play.errors() == {"t2c1": None}
    chosen = [(each["skill"], each["by"]) for each in play.records("skill")]
    assert chosen == [("refunds", "request"), ("travel", "request")]
    assert [each["type"] for each in play.events()].count("skill") == 2


@pytest.mark.parametrize(
    ("skill", "why"),
    [("travle", "did you mean"), ("export", "is an activity, which receives no messages")],
)
def test_a_message_with_an_unfit_skill_is_read_and_changes_none(skill: str, why: str) -> None:
    play = conversing(reply("one"), reply("two"), skill="refunds").to_end()
    assert why in (play.run.messages.skill_problem(skill) or "")
    play.receive("go", skill=skill)
    play.to_end()

    assert (play.run.state.skill, play.run.progress.output) == ("refunds", "two")
    assert why in play.records("notice")[-1]["text"]


def test_a_message_that_no_model_reads_changes_no_skill() -> None:
    play = conversing(NoAnswer(text="it is down"), skill="refunds")
    play.receive("go", skill="travel", delivery="followUp")
    play.to_end()

    assert play.failure.message == "it is down"
    assert [each["skill"] for each in play.records("skill")] == ["refunds"]
    assert play.messages()[-1]["content"] == "go"


def test_outside_of_a_conversation_a_message_changes_no_skill() -> None:
    play = desk(reply("one"), reply("two"), skill="refunds")
    play.receive("go", skill="travel", delivery="followUp")
    play.to_end()
    assert play.run.state.skill == "refunds"
    assert "only a conversation changes its skill" in play.records("notice")[0]["text"]


def test_the_model_changes_the_skill_where_the_agent_allows_it() -> None:
    model = [reply("", call("choose_skill", {"skill": "travel"})), reply("", call("book")), DONE]
    definition = {"change_skill": True, "plan": "lazy"}
    play = conversing(*model, skill="refunds", definition=definition)
    play.decisions = {"t2-plan": ["approve"]}
    first, second, _ = asks(play)

    def offered(ask: Ask) -> list[str]:
        return [each.name for each in ask.tools]

    assert offered(first) == ["look", "find_order", "refund", "choose_skill"]
    assert first.tools[-1].parameters["properties"]["skill"]["enum"] == ["travel"]
    assert offered(second) == ["look", "book", "choose_skill"]
    assert [(each["skill"], each["by"]) for each in play.records("skill")][-1] == (
        "travel",
        "model",
    )
    assert play.errors() == {"t1c1": None, "t2c1": None}


def test_an_approval_of_a_tool_does_not_hold_for_one_of_another_skill() -> None:
    act = reply("", call("act"))
    play = acting(act, DONE, act, DONE)
    play.decisions = {"t1c1": [{"decision": "approve", "remember": True}], "t3c1": ["deny"]}
    play.to_end()
    play.receive("go", skill="travel")
    play.to_end()

    assert play.errors() == {"t1c1": None, "t3c1": ErrorCode.DENIED}


def test_the_rest_of_a_plan_is_not_approved_in_another_skill() -> None:
    plan = reply("", call("wait"), call("act"))
    play = acting(plan, reply("", call("act")), DONE, definition={"plan": "lazy"})
    play.decisions = {"t1-plan": ["approve"], "t2-plan": ["deny"]}

    def interrupted(_: ToolCall) -> Succeeded:
        play.receive("go", skill="travel")
        return Succeeded("waited")

    play.outcomes = {"wait": interrupted}
    play.to_end()
    assert play.errors() == {"t1c1": None, "t1c2": ErrorCode.CANCELLED, "t2c1": ErrorCode.DENIED}


def acting(*model: Any, **more: Any) -> Play:
    """A conversation of an agent whose skills have different tools of one name."""
    refund, book = (tool("act", side_effects=True, label=each) for each in ("Refund", "Book"))
    wait = tool("wait", sequential=True)
    skills = [
        ResolvedSkill(name="refunds", tools=[refund, wait]),
        ResolvedSkill(name="travel", tools=[book]),
    ]
    return desk(*model, skills=skills, skill="refunds", conversation=True, **more)


def test_outside_of_a_conversation_the_model_changes_no_skill() -> None:
    model = [reply("", call("choose_skill", {"skill": "travel"})), DONE]
    play = desk(*model, skill="refunds", definition={"change_skill": True}).to_end()
    assert play.errors() == {"t1c1": ErrorCode.TOOL_NOT_ALLOWED}
