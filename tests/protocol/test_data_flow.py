"""§6: one answer is a graph of work: what a call writes, another reads by reference."""

import json

from tests.protocol.stage import Stage, agent, calls, composed, errors
from tests.support.model_server import Answer

DONE = Answer("done")

BIOGRAPHER = agent("""
name: biographer
model: {endpoint: fake, name: biographer}
instructions: You write about people.
calling: composed
tools:
- _tool: fetch_profile
  properties: {user_id: {type: integer}}
  required: [user_id]
  _outputPath: †state.profile
- _tool: summarise
  description: One sentence about a person.
  properties: {profile: {type: object}}
  required: [profile]
  _output: {type: string}
  _outputPath: †state.summary
""")
SUMMARY = "Ada of London likes engines and poetry."


async def test_a_profile_is_fetched_and_then_summarised_in_one_answer(stage: Stage) -> None:
    stage.model(
        "biographer",
        composed(
            {"_tool": "summarise", "profile": "†state.profile"},
            {"_tool": "fetch_profile", "user_id": 7},
            output="†state.summary",
        ),
    )
    stage.model("biographer", Answer(json.dumps(SUMMARY)), asked="You answer one call of a tool")
    run = await stage.start(BIOGRAPHER, input="Who is user 7?")

    result = await run.result()
    assert result["output"] == SUMMARY
    assert result["state"]["profile"]["name"] == "Ada"
    # One answer for both calls, and one to summarise what had been fetched by then.
    assert (result["turns"], result["calls"]) == (2, 2)
    [_, latent] = stage.requests("biographer")
    assert '"interests": ["engines", "poetry"]' in latent["messages"][-1]["content"]
    assert [line for line in await run.told() if line.startswith("tool_start")] == [
        "tool_start t1c2",
        "tool_start t1c1",
    ]


REFUNDER = agent("""
name: refunder
model: {endpoint: fake, name: refunder}
tools:
- _tool: find_order
  properties: {order_id: {type: string}}
  required: [order_id]
  _outputPath: †state.order || †state.error
- _tool: refund
  properties: {order_id: {type: string}, amount: {type: number}}
  required: [order_id, amount]
- _tool: mail
  properties: {text: {type: string}}
  required: [text]
""")


async def test_a_turn_branches_to_the_error_where_a_call_fails(stage: Stage) -> None:
    def both_branches(order: str) -> Answer:
        return calls(
            {"_tool": "find_order", "order_id": order},
            {"_tool": "refund", "order_id": "†state.order.id", "amount": "†state.order.paid"},
            {"_tool": "mail", "text": "We are sorry: †{state.error.message}"},
        )

    stage.model("refunder", both_branches("B9"), DONE)
    failed = await stage.start(REFUNDER, input="Refund order B9.")
    assert (await failed.result())["state"] == {
        "error": {"code": "tool_error", "message": "there is no order B9"}
    }
    assert (await failed.error("t1c2"))["code"] == "unresolved_reference"
    assert (await failed.results())["t1c3"] == "sent: We are sorry: there is no order B9"

    found = {**REFUNDER, "model": {"endpoint": "fake", "name": "refunds"}}
    stage.model("refunds", both_branches("A1"), DONE)
    succeeded = await stage.start(found, input="Refund order A1.")
    assert (await succeeded.result())["state"] == {"order": {"id": "A1", "paid": 20.0}}
    assert json.loads((await succeeded.results())["t1c2"]) == {"refunded": 20.0, "order": "A1"}
    assert (await succeeded.error("t1c3"))["code"] == "unresolved_reference"


# `put` gives back what it is given: what a reference stood for is its result.
WRITER = agent("""
name: writer
model: {endpoint: fake, name: writer}
reasoningForCall: false
tools:
- _tool: put
  properties:
    value: {}
    _outputPath: {type: string}
    _outputMethod: {enum: [set, merge, assign, push, concat]}
  required: [value]
state:
  type: object
  properties: {count: {type: integer}}
""")


async def test_references_stand_for_values_with_their_types_and_for_text_in_text(
    stage: Stage,
) -> None:
    asked = [
        "†state.order.id",
        "†input.items[0]",
        "for †{state.name}, order †{state.order.id}",
        "†state.nothing || †state.name",
        "†state.name && †state.order",
        "†state.order",
    ]
    stage.model("writer", calls(*({"_tool": "put", "value": each} for each in asked)), DONE)
    run = await stage.start(
        WRITER, input={"items": ["tea", "milk"]}, state={"name": "Ada", "order": {"id": 7}}
    )
    await run.result()

    assert list((await run.results()).values()) == [
        "7",
        "tea",
        "for Ada, order 7",
        "Ada",
        '{"id": 7}',
        '{"id": 7}',
    ]


async def test_writers_of_one_path_go_one_after_the_other_in_source_order(stage: Stage) -> None:
    writers = {**WRITER, "model": {"endpoint": "fake", "name": "writers"}}
    writes = [
        ({"a": {"x": 1}, "b": 1}, "†state.doc", "set"),
        ({"a": {"y": 2}}, "†state.doc", "merge"),
        ({"b": 2}, "†state.doc", "assign"),
        ("first", "†state.list", "push"),
        (["second", "third"], "†state.list", "concat"),
        ("both", "†state.left && †state.right", "set"),
        ("no number", "†state.count", "set"),
    ]
    made = [
        {"_tool": "put", "value": value, "_outputPath": path, "_outputMethod": method}
        for value, path, method in writes
    ]
    stage.model("writers", calls(*made), DONE)
    run = await stage.start(writers, input="Write.")

    assert (await run.result())["state"] == {
        "doc": {"a": {"x": 1, "y": 2}, "b": 2},
        "list": ["first", "second", "third"],
        "left": "both",
        "right": "both",
    }
    # A write that breaks the state's schema is none.
    assert (await run.error("t1c7"))["code"] == "invalid_output"
    entries = [entry for entry in await run.context() if entry["type"] == "write"]
    assert [(one["callId"], one["path"]) for one in entries[:4]] == [
        ("t1c1", "†state.doc"),
        ("t1c2", "†state.doc"),
        ("t1c3", "†state.doc"),
        ("t1c4", "†state.list"),
    ]


async def test_a_circle_and_what_nothing_satisfies_are_carried_out_in_no_part(
    stage: Stage,
) -> None:
    circular = {**WRITER, "model": {"endpoint": "fake", "name": "circular"}}
    stage.model(
        "circular",
        calls(
            {"_tool": "put", "value": "†state.b", "_outputPath": "†state.a"},
            {"_tool": "put", "value": "†state.a", "_outputPath": "†state.b"},
            {"_tool": "put", "value": "†state.never"},
            {"_tool": "put", "value": "fine"},
        ),
        DONE,
    )
    run = await stage.start(circular, input="Go round.")
    await run.result()

    codes = {call: error["code"] for call, error in (await errors(run)).items()}
    assert codes == dict.fromkeys(["t1c1", "t1c2", "t1c3"], "unresolved_reference")
    assert [line for line in await run.told() if "start t1" in line] == ["tool_start t1c4"]
