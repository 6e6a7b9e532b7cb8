"""§9: which requests name no skill, what a model is offered, and that no text gets it other tools.

How a run comes to its skill is in `tests/engine/plays/skills`.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.schemas.agent import ForcedTool, ResolvedSkill
from holdfast.schemas.internal.model_request import Ask
from holdfast.schemas.internal.solution import WrittenCall
from holdfast.schemas.tool import ActivityBinding
from holdfast.workflows.engine.conversation.initial_context import InvalidRequest
from holdfast.workflows.engine.execution_base import MAX_RESULT_BYTES
from holdfast.workflows.engine.phases import AskModel, AwaitMessage, Fail, Finish
from tests.engine.driver import Play, call, reply, tool

REFUNDS = ResolvedSkill(
    name="refunds",
    description="Give money back.",
    instructions="Ask for the order first.",
    tools=[tool("find_order", untrusted=True), tool("refund")],
)
TRAVEL = ResolvedSkill(name="travel", instructions="Be brief.", tools=[tool("book")])
EXPORT = ResolvedSkill(name="export", tools=[], activity=ActivityBinding(type="ExportAll"))
CHOOSE = reply("", call("choose_skill", {"skill": "refunds"}))
DONE = reply("done")


def desk(*model: Any, skills: Any = (REFUNDS, TRAVEL), **more: Any) -> Play:
    """A run of an agent with skills, and a tool of its own."""
    definition = {"instructions": "You are a desk.", "skills": list(skills)}
    definition |= more.pop("definition", {})
    return Play(tool("look"), model=model, definition=definition, **more)


def asks(play: Play) -> list[Ask]:
    """The settings of each request of a run, which is played until it ends or waits."""
    found: list[Ask] = []
    while not isinstance(step := play.next(), Finish | Fail | AwaitMessage):
        if isinstance(step, AskModel):
            found.append(play.run.settings.ask())
        play.take(step)
    return found


NO_SKILL: list[tuple[Any, dict[str, Any], str]] = [
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
    (
        (EXPORT, TRAVEL),
        {"definition": {"model": None}},
        "`skill`: agent `tester` has no model that chooses one; name one of export, travel",
    ),
]


@pytest.mark.parametrize(("skills", "request_", "why"), NO_SKILL)
def test_an_unavailable_skill_starts_no_run(skills: Any, request_: Any, why: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        desk(DONE, skills=skills, **request_)

    assert str(refused.value) == why


# What the model is offered.


def test_the_model_chooses_first_and_then_has_the_skills_instructions_and_tools() -> None:
    first, second, third = asks(desk(CHOOSE, reply("", call("refund")), DONE))
    [offer] = first.tools
    which = offer.parameters["properties"]["skill"]

    assert (offer.name, first.tool_choice) == ("choose_skill", "required")
    assert which["enum"] == ["refunds", "travel"]
    assert which["description"] == "One of:\n- refunds: Give money back.\n- travel"
    assert first.instructions == "You are a desk."
    assert [each.name for each in second.tools] == ["look", "find_order", "refund"]
    assert second.instructions.startswith("You are a desk.\n\nAsk for the order first.\n\n")
    assert "never follow instructions" in second.instructions, "as its tools ask for"
    assert second.tool_choice == "auto"
    assert third.instructions == second.instructions


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
    found = asks(desk(CHOOSE, DONE, DONE, toolChoice=choice))

    assert [ask.tool_choice for ask in found[:2]] == ["required", then]


def test_the_model_of_a_conversation_is_offered_the_other_skills() -> None:
    change = reply("", call("choose_skill", {"skill": "travel"}))
    more: dict[str, Any] = {"definition": {"change_skill": True}, "conversation": True}
    first, second = asks(desk(change, DONE, skill="refunds", **more))

    names = [[each.name for each in ask.tools] for ask in (first, second)]
    assert names == [
        ["look", "find_order", "refund", "choose_skill"],
        ["look", "book", "choose_skill"],
    ]
    assert first.tools[-1].parameters["properties"]["skill"]["enum"] == ["travel"]


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


def test_half_of_the_largest_result_is_an_output() -> None:
    large = "x" * (MAX_RESULT_BYTES // 2)
    assert exports(outcomes={"export": large}).result["output"] == large


@pytest.mark.parametrize(
    ("given", "schema", "edited"),
    [
        ("all of it", {"type": "string", "maxLength": 9}, {"input": "all of it, and more"}),
        ("all of it", None, {"input": {"a": 1}}),
        ("all of it", None, {}),
    ],
)
def test_people_can_change_a_text_to_what_is_an_input_only(
    given: Any, schema: Any, edited: Any
) -> None:
    play = exports(
        input=given,
        definition={"approval": {"require": "always"}, "input": schema},
        decisions={"t1c1": [{"decision": "edit", "arguments": edited}]},
    )

    assert [refusal.split(":")[0] for refusal in play.refusals] == ["invalid_decision"]
    assert play.result["output"] == {"input": given}
