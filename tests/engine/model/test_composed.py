"""Composed calling (§4): one answer with all calls and the output."""

import json
from typing import Any

import pytest

from holdfast.schemas.agent import ResolvedAgent
from holdfast.schemas.internal.model_request import Ask
from holdfast.schemas.tool import ResolvedTool
from holdfast.workflows.engine.model.composed import (
    ComposedAnswer,
    MalformedAnswer,
    composed_schema,
    read_answer,
)
from holdfast.workflows.engine.model.prompt import ask, instructions, offers
from holdfast.workflows.engine.state.data import MISSING
from tests.engine.driver import MODEL, Play, reply, tool

AMOUNT = {"type": "object", "properties": {"amount": {"type": "number"}}, "required": ["amount"]}
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
PAY = tool("pay", {**AMOUNT, "additionalProperties": False}, description="Pay.")
KEEP = tool("keep", AMOUNT, output_path="†state.kept")
JUDGE = ResolvedTool(name="judge", parameters=AMOUNT, output={"enum": ["good", "bad"]})


def desk(*tools: ResolvedTool, **more: Any) -> ResolvedAgent:
    return ResolvedAgent(name="desk", model=MODEL, calling="composed", tools=list(tools), **more)


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"_tool": name, **arguments}


def answer(*calls: Any, output: Any = None) -> Any:
    """What a model writes that is held to the schema."""
    return reply(json.dumps({"calls": list(calls), "output": output}))


def read(text: str, *tools: ResolvedTool, **more: Any) -> ComposedAnswer:
    return read_answer(text, desk(*tools, **more), list(tools))


def calls_of(schema: Any) -> Any:
    return schema["properties"]["calls"]["items"]


# The schema.


def test_the_schema_has_the_calls_and_the_output_both_required() -> None:
    schema = composed_schema(desk(PAY, output=CITY), [PAY])
    assert schema["required"] == ["calls", "output"]
    assert schema["additionalProperties"] is False
    call = calls_of(schema)
    assert call["description"] == "Pay."
    assert list(call["properties"]) == ["_tool", "_reasoningForCall", "amount"]
    assert call["properties"]["_tool"] == {"type": "string", "const": "pay"}
    assert call["required"] == list(call["properties"])
    assert schema["properties"]["output"]["anyOf"][1] == {"type": "null"}


def test_several_tools_are_a_choice_and_reasons_can_be_turned_off() -> None:
    schema = composed_schema(desk(PAY, KEEP, reasoning_for_call=False), [PAY, KEEP])
    names = [each["properties"]["_tool"]["const"] for each in calls_of(schema)["anyOf"]]
    assert names == ["pay", "keep"]
    assert "_reasoningForCall" not in str(schema)
    assert schema["properties"]["output"] == {"type": ["string", "null"]}


@pytest.mark.parametrize(
    ("choice", "tools", "least"),
    [
        ("auto", ["pay", "keep"], None),
        ("required", ["pay", "keep"], 1),
        ({"name": "keep"}, ["keep"], 1),
    ],
)
def test_a_choice_of_tools_limits_the_calls(choice: Any, tools: Any, least: Any) -> None:
    asked = asks(desk(PAY, KEEP), choice)
    assert isinstance(asked.output, dict)
    calls = asked.output["properties"]["calls"]
    found = calls["items"].get("anyOf", [calls["items"]])
    assert [each["properties"]["_tool"]["const"] for each in found] == tools
    assert calls.get("minItems") == least


def asks(agent: ResolvedAgent, choice: Any = "auto") -> Ask:
    given = ResolvedAgent.read({**agent.to_json(), "toolChoice": choice}).tool_choice
    return ask(agent, instructions(agent), offers(agent), given, "the state")


@pytest.mark.parametrize(("tools", "choice"), [([PAY], "none"), ([], "auto")])
def test_where_no_call_can_be_made_there_is_an_output_alone(tools: Any, choice: Any) -> None:
    schema = asks(desk(*tools, output=CITY), choice).output
    assert isinstance(schema, dict)
    assert schema["required"] == ["output"]
    assert schema["properties"]["output"]["type"] == "object"


def test_a_latent_tool_may_be_answered_at_once_and_another_may_not() -> None:
    schema = composed_schema(desk(PAY, JUDGE), [PAY, JUDGE])
    pay, judge = calls_of(schema)["anyOf"]
    assert "_output" not in pay["properties"]
    choices = judge["properties"]["_output"]["anyOf"]
    assert choices == [{"type": "string", "enum": ["good", "bad"]}, {"type": "null"}]


def test_what_the_model_may_choose_of_a_call_is_asked_for() -> None:
    chosen = {"_outputPath": {"type": "string"}, "_scopes": {"enum": [["state"], []]}}
    free = tool("free", AMOUNT, chosen=chosen)
    properties = calls_of(composed_schema(desk(free), [free]))["properties"]
    assert properties["_outputPath"] == {"type": ["string", "null"]}
    assert "_scopes" in properties
    [found] = read(
        json.dumps({"calls": [call("free", amount=1, _outputPath=None, _scopes='["state"]')]}), free
    ).calls
    assert found.arguments == {"amount": 1, "_scopes": ["state"]}


def test_a_value_may_be_a_reference_where_something_is_kept() -> None:
    amounts = [
        calls_of(composed_schema(desk(each), [each]))["properties"]["amount"]
        for each in (PAY, KEEP)
    ]
    assert amounts[0] == {"type": "number"}
    assert [each["type"] for each in amounts[1]["anyOf"]] == ["number", "string"]


def test_a_tool_that_takes_anything_takes_it_as_json() -> None:
    anything = tool("any")
    written = {"calls": [call("any", _arguments='{"a": 1, "b": null}')], "output": None}
    assert "_arguments" in calls_of(composed_schema(desk(anything), [anything]))["properties"]
    [found] = read(json.dumps(written), anything).calls
    assert found.arguments == {"a": 1, "b": None}


# How the model is asked.


def test_the_model_is_offered_no_tools_and_receives_how_to_answer() -> None:
    asked = asks(desk(PAY, output=CITY, instructions="Be kind."))
    assert (asked.calling, asked.tools, asked.tool_choice) == ("composed", [], "none")
    assert (asked.output_told, asked.null_is_absent, asked.tail) == (False, True, "the state")
    assert asked.instructions.startswith("Be kind.\n\nAnswer with one JSON object alone:")
    assert "city" not in asked.instructions
    assert "calls" not in instructions(desk(output=CITY))


# Reading.

GOOD = '{"calls": [{"_tool": "pay", "amount": 5}], "output": null}'


@pytest.mark.parametrize(
    ("text", "beside"),
    [
        (GOOD, ""),
        (f"```json\n{GOOD}\n```", ""),
        (f"I pay now.\n```json\n{GOOD}\n```\nThat is all.", "I pay now.\n\nThat is all."),
        (f"I pay now: {GOOD}", "I pay now:"),
        (f"In {{place}}: {GOOD} {{so}}", "In {place}:\n\n{so}"),
        (GOOD.replace("}],", "},],"), ""),
        ('{"calls": [{"_tool": "pay", "amount": 5}]}', ""),
    ],
)
def test_an_answer_is_found_in_what_stands_around_it(text: str, beside: str) -> None:
    found = read(text, PAY)
    assert [(each.tool, each.arguments) for each in found.calls] == [("pay", {"amount": 5})]
    assert (found.beside, found.output) == (beside, MISSING)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is empty"),
        ("I am done.", "Expecting value"),
        ('{"city": "Oslo"}', "neither `calls` nor `output`"),
        ("[]", "neither `calls` nor `output`"),
        ('{"calls": {}}', "`calls` is no list"),
        ('{"calls": [5]}', "`calls[0]` is no object"),
        ('{"calls": [{"_tool": "pay"}, {"amount": 5}]}', "`calls[1]` does not name its tool"),
        ('{"calls": [{"_tool": 7}]}', "`calls[0]` does not name its tool"),
        (GOOD[:-1], "cannot be read"),
    ],
)
def test_an_invalid_answer_is_reported_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(MalformedAnswer) as error:
        read(text, PAY)
    assert why in str(error.value)


def test_a_fence_that_is_never_closed_is_read_in_no_time() -> None:
    """A workflow task has two seconds, and is repeated for ever after."""
    with pytest.raises(MalformedAnswer):
        read("```json" + "\n" * 200_000, PAY)


def test_a_null_is_an_output_only_where_it_fits_and_is_alone() -> None:
    nothing, some = '{"calls": [], "output": null}', GOOD
    nullable = {"type": ["object", "null"]}
    assert read(nothing, PAY).output is MISSING
    assert read(nothing, PAY, output=nullable).output is None
    assert read(some, PAY, output=nullable).output is MISSING


# A run.


def played(*model: Any, tools: Any = (PAY,), **more: Any) -> Play:
    definition = {"calling": "composed", **more.pop("definition", {})}
    outcomes = {"pay": {"paid": 5}, "keep": {"total": 7}}
    run = Play(*tools, model=model, definition=definition, outcomes=outcomes, **more)
    return run.to_end()


def test_the_log_keeps_what_the_model_wrote_its_calls_and_what_people_read() -> None:
    play = played(
        reply(f"I pay now. {GOOD}"), answer(output="Paid."), state={"a": 1}, tools=[PAY, KEEP]
    )
    first, second = [each for each in play.messages() if each["role"] == "assistant"]
    assert first["content"] == f"I pay now. {GOOD}"
    assert first["said"] == "I pay now."
    assert [each["arguments"] for each in first["calls"]] == [{"amount": 5}]
    assert second["said"] == "Paid."


def test_a_latent_call_may_carry_its_own_answer() -> None:
    said = {"calls": [call("judge", amount=5, _output="good")], "output": None}
    [found] = read(json.dumps(said), JUDGE).calls
    assert found.arguments == {"amount": 5, "_output": "good"}
    said["calls"][0]["_output"] = None  # type: ignore[index]  # it is a list
    assert read(json.dumps(said), JUDGE).calls[0].arguments == {"amount": 5}


def test_a_parameter_may_begin_with_an_underscore() -> None:
    find = tool("_find", {"properties": {"_meta": {"type": "string"}}, "required": ["_meta"]})
    own = calls_of(composed_schema(desk(find), [find]))["properties"]
    assert list(own) == ["_tool", "_reasoningForCall", "_meta"]
    [found] = read(json.dumps({"calls": [call("_find", _meta="x")], "output": None}), find).calls
    assert (found.tool, found.arguments) == ("_find", {"_meta": "x"})
