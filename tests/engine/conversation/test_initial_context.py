"""What a run begins with, and what does not make a run."""

from typing import Any

import pytest

from holdfast.schemas.run import RunRequest
from holdfast.schemas.tool import CallLimits
from holdfast.workflows.engine.conversation.initial_context import InvalidRequest
from tests.engine.driver import Play, call, reply, tool

CALLED = {
    "role": "assistant",
    "calls": [
        {"id": "a", "tool": "look", "arguments": {"id": "†state.x"}},
        {"id": "b", "tool": "gone"},
    ],
}
FOUND = {"role": "tool", "callId": "a", "content": "item 7"}
LOST = {"role": "tool", "callId": "b", "content": "no such tool", "isError": True}
OBJECT = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}


def started(**more: Any) -> Play:
    return Play(tool(), model=[reply("done")], **more).to_end()


def test_an_input_that_is_an_object_is_data_with_its_schema() -> None:
    play = started(input={"id": 7}, definition={"input": OBJECT})

    assert play.messages()[0] == {
        "role": "user",
        "content": [{"type": "data", "kind": "input", "data": {"id": 7}, "schema": OBJECT}],
    }
    assert play.run.state.data["input"] == {"id": 7}


@pytest.mark.parametrize(
    ("request_", "definition", "why"),
    [
        ({"input": None}, {}, "write the task of the run as `input`, a text or an object"),
        (
            {"input": {"id": "x"}},
            {"input": OBJECT},
            '`input` does not fit the schema of agent `tester`: id: "x" is not of type "integer"',
        ),
        ({"input": "text"}, {"input": OBJECT}, '"text" is not of type "object"'),
        ({"state": {"id": "x"}}, {"state": OBJECT}, "`state` does not fit the schema"),
        ({"state": {"id": "x" * 1_000_000}}, {}, "`state` is too large: at most 900000 bytes"),
        ({"tool_choice": {"name": "x"}}, {}, "agent `tester` has no tool `x`; known: `look`"),
        (
            {"context": [{"role": "tool", "content": "x"}]},
            {},
            "`context[0]` is the result of no call before it; leave it out",
        ),
        (
            {"context": [CALLED, {"content": "x"}]},
            {},
            "`context[1]` is not the result of the call `a`; add it after its call: a message of"
            " role `tool` with its `callId`",
        ),
        ({"context": [CALLED, {**FOUND, "callId": "b"}]}, {}, "`context[1]` is not the result of"),
        (
            {"context": [CALLED, FOUND]},
            {},
            "`context` lacks the result of the call `b`; add it after its call: ",
        ),
        (
            {"context": [{"content": "x", "isError": True}]},
            {},
            "`context[0]` is the result of no call before it; leave it out",
        ),
        (
            {"context": [{**CALLED, "role": "user"}]},
            {},
            "`context[0]` has `calls`; its role has to be `assistant`",
        ),
    ],
)  # fmt: skip
def test_what_does_not_make_a_run_is_refused_in_one_line(
    request_: Any, definition: Any, why: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        started(**{"input": "go", **request_}, definition=definition)

    assert why in str(refused.value)


def test_a_transcript_has_its_calls_and_results_as_not_run_here() -> None:
    play = started(context=[{"content": "Which item?"}, CALLED, FOUND, LOST], input=None)

    looked = {"id": "t0c1", "providerId": "t0c1", "tool": "look", "arguments": {"id": "†state.x"}}
    gone = {"id": "t0c2", "providerId": "t0c2", "tool": "gone", "arguments": {}}
    result = {"role": "tool", "imported": True}
    assert play.messages()[:-1] == [
        {"role": "user", "content": "Which item?"},
        {"role": "assistant", "calls": [looked, gone], "imported": True},
        {**result, "callId": "t0c1", "providerId": "t0c1", "tool": "look", "content": "item 7"},
        {
            **result,
            "callId": "t0c2",
            "providerId": "t0c2",
            "tool": "gone",
            "content": "no such tool",
            "isError": True,
        },
    ]
    assert (play.result["calls"], play.event_lines()) == (0, ["turn_start", "turn_end", "done"])


def test_what_was_called_before_the_run_counts_for_nothing_in_it() -> None:
    data = [{"type": "data", "kind": "item", "data": {"id": 7}}]
    limits = CallLimits(per_run=1, after=["look"])
    tools = (tool(), tool("pay", limits=limits))
    turns = [
        reply("", call("pay")),
        reply("", call("look", {"id": "†item.id"})),
        reply("", call("look"), call("look", provider_id="t0c1")),
        reply("", call("pay")),
        reply("done"),
    ]
    context = [CALLED, {**FOUND, "content": data}, LOST]
    play = Play(*tools, model=turns, context=context).to_end()

    assert play.errors() == {
        "t1c1": "blocked",
        "t2c1": "unresolved_reference",
        "t3c1": None,
        "t3c2": None,
        "t4c1": None,
    }
    ids = [each["providerId"] for one in play.messages() for each in one.get("calls", ())]
    assert len(set(ids)) == len(ids), "providers match a result with its call by the id"


@pytest.mark.parametrize("field", ["input", "state"])
def test_what_is_nested_too_deep_is_no_request(field: str) -> None:
    deep: Any = 1
    for _ in range(100):
        deep = [deep]
    with pytest.raises(ValueError, match="nested deeper than 64 levels"):
        RunRequest.model_validate({"agent": "a", "input": "go", field: {"a": deep}})
