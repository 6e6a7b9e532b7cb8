"""A run from its first step to its output, with a script in place of the model."""

import json

import pytest

from holdfast.schemas.internal.model_request import ConversationPageRequest
from holdfast.schemas.internal.solution import WrittenCall
from holdfast.schemas.tool import CallLimits
from holdfast.workflows.engine.phases import AskModel
from tests.engine.driver import Play, call, read_again, reply, tool

# Answers.


def test_calls_are_executed_and_the_model_is_requested_again() -> None:
    play = Play(
        tool("look"),
        model=[reply("I look.", call("look", {"id": 1}, "abc")), reply("Found.")],
        outcomes={"look": {"found": True}},
    ).to_end()

    assert play.messages() == [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": "I look.",
            "calls": [{"id": "t1c1", "providerId": "abc", "tool": "look", "arguments": {"id": 1}}],
        },
        {
            "role": "tool",
            "content": '{"found": true}',
            "callId": "t1c1",
            "providerId": "abc",
            "tool": "look",
        },
        {"role": "assistant", "content": "Found."},
    ]
    assert (play.result["turns"], play.result["calls"]) == (2, 1)


# What a model gets wrong ends no run.


@pytest.mark.parametrize(
    ("written", "code"),
    [
        (call("nothing"), "tool_not_allowed"),
        (call("look", "I want to look"), "invalid_arguments"),
        (call("look", '{"id": "cut off by the tok'), "invalid_arguments"),
        (call("look", "[1]"), "invalid_arguments"),
        (call("look", {"id": "x"}), "invalid_arguments"),
        (call("look", {}), "invalid_arguments"),
        (call("look", {"id": "†state.none"}), "unresolved_reference"),
        (WrittenCall(tool="look", oversize_bytes=5_000_000), "invalid_arguments"),
        (call("look", '{"id": ' + "[" * 100_000), "invalid_arguments"),
        (WrittenCall(tool=""), "tool_not_allowed"),
    ],
)
def test_a_call_that_is_wrong_is_an_error_that_the_model_reads(
    written: WrittenCall, code: str
) -> None:
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
    play = Play(
        tool("look", schema), model=[reply("", written, call("look", {"id": 1})), reply("ok")]
    ).to_end()
    error = json.loads(play.results()["t1c1"])["error"]

    assert error["code"] == code
    assert play.errors() == {"t1c1": code, "t1c2": None}
    assert "tool_start t1c1" not in play.event_lines()
    assert play.result["output"] == "ok"


def test_the_calls_of_a_turn_are_checked_within_one_allowance() -> None:
    """Temporal takes a workflow that thinks for two seconds for dead."""
    schema = {"type": "object", "properties": {"text": {"pattern": "[ab]{200}"}}}
    large = call("look", {"text": "ab" * 100_000})
    play = Play(tool("look", schema), model=[reply("", *[large] * 4), reply("ok")]).to_end()

    assert list(play.errors().values()) == [None, *["invalid_arguments"] * 3]
    assert "too large to be checked" in play.results()["t1c4"]


# Limits of a tool.


def test_a_tool_takes_arguments_of_so_many_bytes() -> None:
    pay = tool("pay", limits=CallLimits(max_arguments_bytes=20))
    arguments = [{"to": "x" * size} for size in (11, 12)]
    calls = [call("pay", each) for each in arguments]
    play = Play(pay, model=[reply("", *calls), reply("x")]).to_end()

    assert play.errors() == {"t1c1": None, "t1c2": "invalid_arguments"}
    assert "21 bytes in all; at most 20" in play.results()["t1c2"]


# Asking what is next.


def test_what_is_next_is_the_same_until_it_is_done() -> None:
    play = Play(tool(), model=[reply("", call("look")), reply("x")])
    for _ in range(10):
        step, length = play.next(), len(play.log)
        assert play.next() == step
        assert len(play.log) == length
        if play.run.phases.end is None:
            play.take(step)


def test_a_request_points_to_the_whole_log() -> None:
    play = Play(tool(), model=[reply("", call("look")), reply("x")])
    while not play.run.phases.end:
        step = play.next()
        if isinstance(step, AskModel):
            assert step.pointer.entries == len(play.log)
            assert step.pointer.digest == read_again(play.log)[0]
            assert step.pointer.turn == play.run.state.meter.turns + 1
        play.take(step)


def test_the_settings_of_a_request_come_with_its_first_page() -> None:
    play = Play(tool(), model=[reply("x")], state={"a": 1})
    play.next()
    first, later = (
        play.run.settings.page(ConversationPageRequest(upto=3, offset=offset)).ask
        for offset in (0, 5)
    )

    assert first is not None
    assert first.tail == 'The current state (†state), for your information:\n{"a": 1}'
    assert later is None
