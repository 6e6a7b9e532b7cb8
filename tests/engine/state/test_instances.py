"""Instances (§8) in a run: whose data a call reads and writes, and how it names them."""

import json
from typing import Any

import pytest

from holdfast.schemas.internal.model_request import ToolOffer
from holdfast.schemas.internal.solution import WrittenCall
from holdfast.workflows.engine.approvals.question import Question
from holdfast.workflows.engine.model.prompt import offers
from tests.engine.driver import Play, agent, call, reply, tool

COMMENTS = {"first": "Buy now!", "second": "Thank you."}


def inputs(**of: Any) -> list[Any]:
    return [
        {"type": "data", "kind": "input", "data": {"text": text}, "_instance": name}
        for name, text in of.items()
    ]


def run_of(*tools: Any, calls: list[WrittenCall], **more: Any) -> Play:
    """A run with two instances, whose model makes these calls in its first turn."""
    more.setdefault("context", [{"content": inputs(**COMMENTS)}])
    return Play(*tools, model=[reply("", *calls), reply("done")], **more).to_end()


RATE = tool("rate", output_path="†state.verdict", chosen={})


def about(instance: Any, name: str = "rate", **arguments: Any) -> WrittenCall:
    return call(name, {"text": "†input.text", **arguments, "_instance": instance})


def test_a_call_reads_what_another_of_its_instance_writes_and_no_other() -> None:
    use = tool("use", output_path="†state.used")
    play = run_of(
        RATE,
        use,
        calls=[
            call("use", {"v": "†state.verdict", "_instance": "first"}),
            call("use", {"v": "†state.verdict", "_instance": "second"}),
            about("first"),
        ],
        outcomes={"rate": "spam", "use": lambda one: one.arguments["v"]},
    )

    assert play.errors() == {"t1c1": None, "t1c2": "unresolved_reference", "t1c3": None}
    assert play.result["instances"]["first"] == {"verdict": "spam", "used": "spam"}


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({}, "_instance: this run has instances; name one of [first, second]"),
        ({"_instance": None}, "_instance: this run has instances; name one of [first, second]"),
        ({"_instance": "frist"}, "_instance: this run has no instance `frist`; did you mean"),
        ({"_instance": "x"}, "_instance: this run has no instance `x`; known: `first`, `second`"),
        ({"_instance": ["first"]}, "this run has no instance `[\"first\"]`"),
        ({"_instance": ""}, "this run has no instance ``; known"),
    ],
)  # fmt: skip
def test_a_call_that_names_no_instance_of_the_run_fails_with_that_reason(
    said: Any, why: str
) -> None:
    play = run_of(RATE, calls=[call("rate", {"text": "x", **said})])

    error = json.loads(play.results()["t1c1"])["error"]
    assert error["code"] == "invalid_arguments"
    assert why in error["message"]
    assert play.records("tool_start") == []


def test_a_tool_can_be_for_one_instance_once_and_for_all() -> None:
    mine = tool("rate", output_path="†state.verdict", instance="first")
    fixed = run_of(mine, calls=[call("rate"), call("rate", {"_instance": "second"})])
    assert fixed.result["instances"] == {"first": {"verdict": "ok"}, "second": {}}

    without = run_of(mine, calls=[call("rate")], context=[])
    assert without.result["state"] == {"verdict": "ok"}, "a run without instances takes it as well"

    elsewhere = run_of(mine, calls=[call("rate")], context=[{"content": inputs(other="x")}])
    assert "this run has no instance `first`; known: `other`" in elsewhere.results()["t1c1"]


def test_the_question_about_a_call_names_its_instance() -> None:
    shown: list[Any] = []

    def look(question: Question) -> str:
        shown.append(question.to_pending_approval().to_json())
        return "approve"

    pay = tool("pay", side_effects=True)
    play = run_of(pay, calls=[about("second", "pay")], decisions={"t1c1": [look]})
    run_of(pay, calls=[call("pay")], decisions={"t1c1": [look]}, context=[])

    assert [one.get("instance", "none") for one in shown] == ["second", "none"]
    assert play.records("confirmation_required")[0]["approval"]["instance"] == "second"


# What the model is offered.


def offered(*instances: str, **more: Any) -> ToolOffer:
    schema = {"type": "object", "properties": {"id": {}}, "required": ["id"]}
    [offer] = offers(agent(tool("look", schema, **more)), None, instances)
    return offer


def test_the_model_is_offered_the_instances_there_are() -> None:
    parameters = offered("first", "second").parameters

    assert parameters["properties"]["_instance"]["enum"] == ["first", "second"]
    assert parameters["required"] == ["id", "_instance"]


@pytest.mark.parametrize(
    ("schema", "names"),
    [
        (True, ["a1", "a2", "b"]),
        ({"pattern": "^a"}, ["a1", "a2"]),
        ({"enum": ["b", "c"]}, ["b"]),
        ({"enum": ["c"]}, ["a1", "a2", "b"]),
    ],
)
def test_a_tool_can_be_for_some_instances(schema: Any, names: list[str]) -> None:
    offer = offered("a1", "a2", "b", chosen={"_instance": schema})

    assert offer.parameters["properties"]["_instance"]["enum"] == names
