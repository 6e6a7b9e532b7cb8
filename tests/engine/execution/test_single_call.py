"""The result of a single call; its ways to the end are in `tests/engine/plays/single`."""

from holdfast.workflows.engine.execution_base import MAX_RESULT_BYTES
from tests.engine.driver import PlayCall, tool


def test_what_the_tool_returns_is_the_output_and_no_turn_was_taken() -> None:
    assert PlayCall(tool(), {"id": "7"}, outcome={"name": "item 7"}).to_end().result == {
        "status": "completed",
        "output": {"name": "item 7"},
        "state": {},
        "turns": 0,
        "calls": 1,
        "usage": {"inputTokens": 0, "outputTokens": 0, "cachedTokens": 0, "cost": 0.0},
    }


def test_a_result_that_is_too_large_to_be_handed_on_is_an_error_and_not_a_hang() -> None:
    play = PlayCall(tool(), outcome="x" * MAX_RESULT_BYTES).to_end()

    assert play.failure.code == "invalid_output"
    assert "the call was run; its result is too large to pass on" in play.failure.message
    assert play.errors() == {"t1c1": None}
