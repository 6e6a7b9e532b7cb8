"""What a run begins with, and what does not make a run."""

from typing import Any

import pytest

from holdfast.schemas.run import RunRequest
from holdfast.workflows.engine.conversation.initial_context import InvalidRequest
from tests.engine.driver import Play, says, tool

OBJECT = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}


def begun(**more: Any) -> Play:
    return Play(tool(), model=[says("done")], **more).to_end()


def test_an_input_that_is_an_object_is_data_with_its_schema() -> None:
    play = begun(input={"id": 7}, definition={"input": OBJECT})

    assert play.messages()[0] == {
        "role": "user",
        "content": [{"type": "data", "kind": "input", "data": {"id": 7}, "schema": OBJECT}],
    }
    assert play.run.state.data["input"] == {"id": 7}


@pytest.mark.parametrize(
    ("request_", "definition", "why"),
    [
        ({"input": None}, {}, "say what the run is to do: `input`, a text or an object"),
        (
            {"input": {"id": "x"}},
            {"input": OBJECT},
            "`input` does not fit the schema of agent `tester`: id: 'x' is not of type 'integer'",
        ),
        ({"input": "text"}, {"input": OBJECT}, "'text' is not of type 'object'"),
        ({"state": {"id": "x"}}, {"state": OBJECT}, "`state` does not fit the schema"),
        ({"state": {"id": "x" * 1_000_000}}, {}, "`state` is too large: at most 900000 bytes"),
        ({"tool_choice": {"name": "x"}}, {}, "agent `tester` has no tool `x`; known: `look`"),
        (
            {"context": [{"role": "tool", "content": "x"}]},
            {},
            "`context` holds a message of role `tool`; say `user` or `assistant`",
        ),
    ],
)  # fmt: skip
def test_what_does_not_make_a_run_is_refused_in_one_line(
    request_: Any, definition: Any, why: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        begun(**{"input": "go", **request_}, definition=definition)

    assert why in str(refused.value)


@pytest.mark.parametrize("field", ["input", "state"])
def test_what_is_nested_too_deep_is_no_request(field: str) -> None:
    deep: Any = 1
    for _ in range(100):
        deep = [deep]
    with pytest.raises(ValueError, match="nested deeper than 64 levels"):
        RunRequest.model_validate({"agent": "a", "input": "go", field: {"a": deep}})
