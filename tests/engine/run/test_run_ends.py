"""How a run ends: stopped by a tool, failed, cancelled in the middle of its calls."""

from typing import Any

import pytest

from holdfast.schemas.internal.solution import Usage, WrittenCall
from holdfast.schemas.names import MODEL_ERROR, ErrorCode
from holdfast.workflows.engine.call.outcomes import Unknown, fail
from holdfast.workflows.engine.phases import AskModel, RunCalls
from tests.engine.driver import Play, call, reply, tool

TERMINATE = {"_result": {"content": "bye", "terminate": True}}


@pytest.mark.parametrize(
    ("ends", "status"),
    [
        ((TERMINATE, TERMINATE), "stopped"),
        ((TERMINATE, "ok"), "completed"),
        ((TERMINATE, fail(ErrorCode.TOOL_ERROR, "no")), "completed"),
    ],
)
def test_a_run_stops_where_every_result_asks_for_it(ends: Any, status: str) -> None:
    play = Play(
        tool(),
        model=[reply("Good bye.", call("look"), call("look")), reply("Still here.")],
        outcomes={"t1c1": ends[0], "t1c2": ends[1]},
    ).to_end()

    assert play.result["status"] == status
    assert play.result["output"] == ("Good bye." if status == "stopped" else "Still here.")


def test_the_last_text_is_the_output_of_a_run_that_stopped() -> None:
    play = Play(
        tool("big"),
        tool("stop"),
        model=[
            reply("One moment.", call("big")),
            reply("", call("big")),
            reply("", call("stop")),
        ],
        outcomes={"big": "x" * 900_000, "stop": TERMINATE},
    ).to_end()

    assert play.result["output"] == "One moment."


# Cut off.

CUT: dict[str, Any] = {"stop_reason": "length", "usage": Usage(output_tokens=64)}
TOLD = "the answer was cut off after 64 output tokens (`maxOutputTokens`): write less"


@pytest.mark.parametrize("arguments", ['{"id": "A-1', "", "{'id'"])
def test_a_call_that_was_cut_off_is_not_run_and_the_model_reads_why(arguments: str) -> None:
    cut = WrittenCall(tool="look", arguments=arguments)
    play = Play(
        tool(), model=[reply("", call("look", {"a": 1}), cut, **CUT), reply("done")]
    ).to_end()

    assert play.errors() == {"t1c1": None, "t1c2": "invalid_arguments"}
    assert f'"message": "{TOLD}"' in play.results()["t1c2"]


def test_whole_calls_of_an_answer_that_was_cut_off_are_run() -> None:
    play = Play(
        tool(), model=[reply("And", call("look", "{'a'"), call("look"), **CUT), reply("done")]
    ).to_end()

    assert play.errors() == {"t1c1": "invalid_arguments", "t1c2": None}
    assert "cut off" not in play.results()["t1c1"]


def test_a_text_that_was_cut_off_is_the_output_only_where_the_next_one_is_too() -> None:
    once = Play(model=[reply("Once upon", **CUT), reply("The end.")]).to_end()
    twice = Play(model=[reply("Once upon", **CUT), reply("Once", **CUT)])
    twice.chained = True
    twice.to_end()

    assert (once.result["output"], once.engine_messages()) == (
        "The end.",
        [f"invalid_output: {TOLD}."],
    )
    assert twice.result["output"] == "Once"
    assert [entry["text"] for entry in twice.records("notice")] == [TOLD]


@pytest.mark.parametrize("text", ['{"city": "Os', ""])
def test_an_output_that_was_cut_off_is_not_reported_as_broken_json(text: str) -> None:
    output = {"type": "object", "properties": {"city": {"type": "string"}}}
    play = Play(
        model=[reply(text, **CUT), reply('{"city": "Oslo"}', **CUT)], definition={"output": output}
    ).to_end()

    assert play.result["output"] == {"city": "Oslo"}
    assert play.engine_messages() == [f"invalid_output: {TOLD}."]


EMPTY = "The answer was empty. Call a tool, or answer."
USED_UP = "the budget maxTurns is used up"


@pytest.mark.parametrize(
    ("answer", "why"), [(reply(), EMPTY), (reply(**CUT), f"invalid_output: {TOLD}.")]
)
def test_a_run_that_gets_no_output_ends_with_the_reason(answer: Any, why: str) -> None:
    play = Play(tool(), model=[reply("", call("look")), *[answer] * 7])
    play.chained = True
    result = play.to_end().result

    reason = f"{USED_UP}. Answers without an output in a row: 7. The last: {why}"
    assert (result["status"], result["reason"]) == ("budget_exceeded", reason)
    assert [entry["text"] for entry in play.records("notice")] == [reason]
    assert play.records("done")[0]["reason"] == reason


def test_the_reason_is_of_the_answers_since_the_last_good_one() -> None:
    looks = Play(tool(), model=[reply(), reply("", call("look"))], budget={"maxTurns": 2}).to_end()
    ends = Play(model=[reply(), reply("done")]).to_end()

    assert looks.result["reason"] == USED_UP
    assert "reason" not in ends.result


CALLS_AS_TEXT = [
    '<tool_call>\n{"name": "look", "arguments": {"id": 1}}\n</tool_call>',
    '{"name": "look", "parameters": {"id": 1}}',
    '[TOOL_CALLS][{"name": "look", "arguments": {}}]',
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>look\n{}",
    "<tool_call>\n<function=look>\n<parameter=id>\n1\n</parameter>\n</function>\n</tool_call>",
    "<|python_tag|>look.call(id=1)",
]


@pytest.mark.parametrize("text", CALLS_AS_TEXT)
def test_a_text_that_seems_to_be_a_call_stays_the_output_with_a_notice(text: str) -> None:
    play = Play(tool(), model=[reply(text)]).to_end()

    assert (play.result["output"], play.result["calls"]) == (text, 0)
    [notice] = play.records("notice")
    assert "a call of `look` as a text" in notice["text"]
    assert "calling: composed" in notice["text"]


@pytest.mark.parametrize(
    "text",
    [
        "Models write <tool_call>, or [TOOL_CALLS].",
        '{"name": "look"}',
        '{"name": "x", "arguments": 1}',
    ],
)
def test_a_text_that_names_no_call_of_a_tool_is_an_output_without_a_notice(text: str) -> None:
    play = Play(tool(), model=[reply(text)]).to_end()

    assert (play.result["output"], play.records("notice")) == (text, [])


DENIED = '{"error": {"code": "denied", "message": "not < now"}}'
COPIES = [DENIED, f"<tool_response>\n{DENIED}\n</tool_response>", f"```json\n{DENIED}\n```"]
NO_OUTPUT = (
    "invalid_output: the answer is only a copy of a call's error."
    " Describe in your own words what was not done, and why."
)


def denied(text: str, **definition: Any) -> Play:
    """A run whose model answers this to a call that was denied, and then something of its own."""
    return Play(
        tool("pay", side_effects=True),
        model=[reply("", call("pay")), reply(text), reply("It was not paid.")],
        decisions={"t1c1": [{"decision": "deny", "reason": "not < now"}]},
        definition=definition,
    ).to_end()


@pytest.mark.parametrize("text", COPIES)
def test_a_copy_of_an_error_is_no_output(text: str) -> None:
    play = denied(text)

    assert play.engine_messages() == [NO_OUTPUT]
    assert play.result["output"] == "It was not paid."


def test_a_model_that_only_copies_an_error_uses_its_budget_up() -> None:
    play = denied(DENIED, budget={"max_turns": 2})

    assert (play.result["status"], play.result["output"]) == ("budget_exceeded", None)


@pytest.mark.parametrize("text", [f"It says {DENIED}", '{"error": "none"}'])
def test_what_is_more_than_a_copy_of_an_error_is_an_output(text: str) -> None:
    assert denied(text).result["output"] == text


def test_a_model_that_cannot_be_asked_fails_the_run() -> None:
    play = Play(model=[])
    assert isinstance(play.next(), AskModel)
    play.run.fail(MODEL_ERROR, "401: no such key")

    assert (play.failure.code, play.failure.message) == ("model_error", "401: no such key")
    assert play.event_lines() == ["turn_start", "error"]
    assert play.run.status == "failed"


# Cancelled.


def cancelled_in(stage: str, **more: Any) -> Play:
    """A run with three calls that is cancelled in the middle of them."""
    play = Play(
        tool("look"),
        tool("pay", side_effects=True),
        tool("once", side_effects=True, idempotent=False, **more),
        model=[reply("", call("look"), call("pay"), call("once"))],
        decisions={"t1c3": ["approve"]},
        outcomes={"once": Unknown("it was started")},
    )
    play.take(play.next())
    step = play.next()
    assert isinstance(step, RunCalls)
    if stage != "proposed":
        play.begin(step.turn)
    if stage in ("once running", "once unsure"):
        play.advance(play.calls[2])
    if stage == "once unsure":
        play.advance(play.calls[2])
    play.run.cancel()
    return play


@pytest.mark.parametrize(
    ("stage", "once"),
    [
        ("proposed", "cancelled"),
        ("open", "cancelled"),
        ("once running", "outcome_unknown"),
        ("once unsure", "outcome_unknown"),
    ],
)
def test_every_call_gets_exactly_one_result_also_when_the_run_is_cancelled(
    stage: str, once: str
) -> None:
    play = cancelled_in(stage)

    assert play.errors() == {"t1c1": "cancelled", "t1c2": "cancelled", "t1c3": once}
    assert len(play.results()) == 3
    assert play.event_lines()[-2:] == ["turn_end", "error"]
    assert (play.failure.code, play.run.status) == ("cancelled", "cancelled")
    assert play.desk.list_open() == []
