"""A run from its first step to its end, with a script in place of the model."""

import json
from typing import Any

import pytest

from schemas.errors import ErrorCode
from schemas.generate import PageOf
from schemas.names import MODEL_ERROR
from schemas.solution import WrittenCall
from schemas.tool import CallLimits
from tests.engine.driver import Play, call, read_again, says, tool
from workflows.engine.outcome import Stopped, Unknown, failed
from workflows.engine.run import AskModel, AwaitMessage, CarryOut

OUTPUT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TERMINATE = {"_result": {"content": "bye", "terminate": True}}


# Answers.


def test_a_text_without_calls_is_the_output() -> None:
    play = Play(model=[says("Hello.")]).to_end()

    assert play.result == {
        "status": "completed",
        "output": "Hello.",
        "state": {},
        "turns": 1,
        "calls": 0,
        "usage": {"inputTokens": None, "outputTokens": None, "cachedTokens": None, "cost": None},
    }
    assert play.told() == ["turn_start", "turn_end", "done"]
    assert play.run.status == "completed"


def test_calls_are_carried_out_and_the_model_is_asked_again() -> None:
    play = Play(
        tool("look"),
        model=[says("I look.", call("look", {"id": 1}, "abc")), says("Found.")],
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


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ('{"n": 1}', {"n": 1}),
        ('```json\n{"n": "1",}\n```', {"n": 1}),
        (' {"n": 1.0, "m": null} ', {"n": 1, "m": None}),
    ],
)
def test_an_output_is_read_as_leniently_as_arguments(text: str, output: Any) -> None:
    play = Play(model=[says(text)], definition={"output": OUTPUT}).to_end()

    assert play.result["output"] == output


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("It is one.", "invalid_output: Expecting value"),
        ("{}", "invalid_output: 'n' is a required property."),
        ('{"n": "x"}', "invalid_output: n: 'x' is not of type 'integer'."),
        ('{"n": 1', "invalid_output: Expecting"),
        ("[" * 10_000, "invalid_output: nested deeper than 64 levels"),
        ("", "The answer was empty. Call a tool, or answer."),
        (" \n", "The answer was empty."),
    ],
)
def test_an_output_that_does_not_fit_is_told_to_the_model_and_costs_a_turn(
    text: str, why: str
) -> None:
    play = Play(model=[says(text), says('{"n": 1}')], definition={"output": OUTPUT}).to_end()

    assert play.said()[0].startswith(why)
    assert (play.result["output"], play.result["turns"]) == ({"n": 1}, 2)


def test_a_run_whose_model_never_answers_ends() -> None:
    play = Play(model=[says("")] * 50).to_end()

    assert (play.result["status"], play.result["turns"]) == ("budget_exceeded", 8)


def test_required_answered_without_a_call_costs_a_turn() -> None:
    play = Play(tool(), model=[says("No."), says("Really.")], tool_choice="required").to_end()

    assert play.said() == ["A call of a tool was required, and none was made. Call one."]
    assert play.result["output"] == "Really."


def test_what_is_required_of_an_agent_without_tools_is_not_required() -> None:
    assert Play(model=[says("No.")], tool_choice="required").to_end().result["output"] == "No."


def test_where_no_call_may_be_made_none_is_carried_out() -> None:
    """A server may hand on calls that it was told not to ask for."""
    play = Play(
        tool(), model=[says("", call("look")), says("Well.", call("look"))], tool_choice="none"
    ).to_end()

    assert play.errors() == {"t1c1": "blocked", "t2c1": "blocked"}
    assert "tool_start t1c1" not in play.told()
    assert play.result["output"] == "Well."


def test_a_notice_of_the_provider_is_in_the_log() -> None:
    play = Play(model=[says("hi", notices=["tools are ignored"])]).to_end()

    assert play.records("notice")[0]["text"] == "tools are ignored"


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
        tool("look", schema), model=[says("", written, call("look", {"id": 1})), says("ok")]
    ).to_end()
    error = json.loads(play.results()["t1c1"])["error"]

    assert error["code"] == code
    assert play.errors() == {"t1c1": code, "t1c2": None}
    assert "tool_start t1c1" not in play.told()
    assert play.result["output"] == "ok"


def test_the_same_call_for_ever_ends() -> None:
    play = Play(tool(), model=[says("", call("look", {"a": 1}))] * 50)
    play.model[6] = says("I stop.")

    assert play.to_end().result["output"] == "I stop."


# Limits of a tool.


def test_a_tool_is_called_so_often_in_a_run() -> None:
    pay = tool("pay", limits=CallLimits(per_run=2))
    play = Play(
        pay, model=[says("", *[call("pay")] * 3), says("", call("pay")), says("x")]
    ).to_end()

    assert play.errors() == {"t1c1": None, "t1c2": None, "t1c3": "blocked", "t2c1": "blocked"}
    assert "`pay` may be called 2 times in a run" in play.results()["t2c1"]


def test_a_call_that_could_not_be_made_does_not_count() -> None:
    pay = tool("pay", {"type": "object", "required": ["a"]}, limits=CallLimits(per_run=1))
    play = Play(pay, model=[says("", call("pay"), call("pay", {"a": 1})), says("x")]).to_end()

    assert play.errors() == {"t1c1": "invalid_arguments", "t1c2": None}


def test_a_tool_is_called_after_others_have_succeeded_only() -> None:
    pay = tool("pay", limits=CallLimits(after=["look"]))
    model = [
        says("", call("pay"), call("look")),
        says("", call("pay"), call("look")),
        says("", call("pay")),
        says("x"),
    ]
    broken = failed(ErrorCode.TOOL_ERROR, "no")
    play = Play(tool("look"), pay, model=model, outcomes={"look": (broken, "ok")}).to_end()

    assert [play.errors()[f"t{turn}c1"] for turn in (1, 2, 3)] == ["blocked", "blocked", None]
    assert "`pay` may be called after look only" in play.results()["t1c1"]


# Ends.


def test_an_activity_that_raises_stop_run_ends_the_run() -> None:
    play = Play(
        tool("look"),
        tool("stop"),
        model=[says("", call("look"), call("stop"), call("look"))],
        outcomes={"stop": Stopped("the shop is closed")},
    ).to_end()

    assert (play.result["status"], play.result["output"]) == ("stopped", "the shop is closed")
    assert len(play.results()) == 3
    assert play.results()["t1c2"] == "The run was stopped: the shop is closed"


def test_an_activity_that_stops_a_run_leaves_nobody_waiting() -> None:
    play = Play(
        tool("stop"),
        tool("pay", side_effects=True),
        model=[says("", call("pay"), call("stop"))],
        outcomes={"stop": Stopped("closed")},
        pick=lambda count: count - 1,
    ).to_end()

    assert play.result["status"] == "stopped"
    assert play.errors() == {"t1c1": "cancelled", "t1c2": None}
    assert play.desk.open() == []


@pytest.mark.parametrize(
    ("ends", "status"),
    [
        ((TERMINATE, TERMINATE), "stopped"),
        ((TERMINATE, "ok"), "completed"),
        ((TERMINATE, failed(ErrorCode.TOOL_ERROR, "no")), "completed"),
    ],
)
def test_a_run_stops_where_every_result_asks_for_it(ends: Any, status: str) -> None:
    play = Play(
        tool(),
        model=[says("Good bye.", call("look"), call("look")), says("Still here.")],
        outcomes={"t1c1": ends[0], "t1c2": ends[1]},
    ).to_end()

    assert play.result["status"] == status
    assert play.result["output"] == ("Good bye." if status == "stopped" else "Still here.")


@pytest.mark.parametrize("other", [call("nothing"), call("pay")])
def test_one_call_refused_before_it_was_carried_out_keeps_the_run_going(other: WrittenCall) -> None:
    play = Play(
        tool("look"),
        tool("pay", side_effects=True),
        model=[says("", call("look"), other), says("Still here.")],
        outcomes={"look": TERMINATE},
        decisions={"t1c2": ["deny"]},
    ).to_end()

    assert play.result["status"] == "completed"


def test_a_result_that_cannot_be_written_does_not_end_the_run() -> None:
    play = Play(
        tool("look", output_path="†state.a[7]"),
        model=[says("", call("look")), says("Still here.")],
        outcomes={"look": TERMINATE},
    ).to_end()

    assert play.errors() == {"t1c1": "invalid_output"}
    assert play.result["status"] == "completed"


def test_what_was_said_last_is_the_output_of_a_run_that_stopped() -> None:
    play = Play(
        tool("big"),
        tool("stop"),
        model=[
            says("One moment.", call("big")),
            says("", call("big")),
            says("", call("stop")),
        ],
        outcomes={"big": "x" * 900_000, "stop": TERMINATE},
    ).to_end()

    assert play.result["output"] == "One moment."


def test_a_model_that_cannot_be_asked_fails_the_run() -> None:
    play = Play(model=[])
    assert isinstance(play.run.next(), AskModel)
    play.run.failed(MODEL_ERROR, "401: no such key")

    assert (play.failure.code, play.failure.message) == ("model_error", "401: no such key")
    assert play.told() == ["turn_start", "error"]
    assert play.run.status == "failed"


def test_the_last_event_is_the_end_and_there_is_one() -> None:
    for play in (Play(model=[says("x")]).to_end(), Play(tool(), model=[says("")] * 9).to_end()):
        ends = [event for event in play.events() if event["type"] in ("done", "error")]
        assert ends == play.events()[-1:]


# Asking what is next.


def test_what_is_next_is_the_same_until_it_is_done() -> None:
    play = Play(tool(), model=[says("", call("look")), says("x")])
    for _ in range(10):
        step, length = play.run.next(), len(play.log)
        assert play.run.next() == step
        assert len(play.log) == length
        if play.run.over is None:
            play.take(step)


def test_a_request_points_to_all_that_stands_in_the_log() -> None:
    play = Play(tool(), model=[says("", call("look")), says("x")])
    while not play.run.over:
        step = play.run.next()
        if isinstance(step, AskModel):
            assert step.pointer.entries == len(play.log)
            assert step.pointer.digest == read_again(play.log)[0]
            assert step.pointer.turn == play.run.kept.meter.turns + 1
        play.take(step)


def test_the_settings_of_a_request_come_with_its_first_page() -> None:
    play = Play(tool(), model=[says("x")], state={"a": 1})
    play.run.next()
    first, later = (play.run.page(PageOf(upto=3, offset=offset)).ask for offset in (0, 5))

    assert first is not None
    assert first.tail == 'The current state (†state), for your information:\n{"a": 1}'
    assert later is None


# Cancelled.


def cancelled_in(stage: str, **more: Any) -> Play:
    """A run with three calls that is cancelled in the middle of them."""
    play = Play(
        tool("look"),
        tool("pay", side_effects=True),
        tool("once", side_effects=True, idempotent=False, **more),
        model=[says("", call("look"), call("pay"), call("once"))],
        decisions={"t1c3": ["approve"]},
        outcomes={"once": Unknown("it was begun")},
    )
    play.take(play.run.next())
    step = play.run.next()
    assert isinstance(step, CarryOut)
    if stage != "proposed":
        play.run.calls.open(1, step.turn.calls)
    if stage in ("once running", "once unsure"):
        play.see_on(step.turn, step.turn.calls[2])
    if stage == "once unsure":
        play.see_on(step.turn, step.turn.calls[2])
    play.run.cancelled()
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
    assert play.told()[-2:] == ["turn_end", "error"]
    assert (play.failure.code, play.run.status) == ("cancelled", "cancelled")
    assert play.desk.open() == []


def test_a_run_that_is_over_is_not_cancelled_any_more() -> None:
    play = Play(model=[says("x")]).to_end()
    length = len(play.log)
    play.run.cancelled()

    assert play.run.status == "completed"
    assert len(play.log) == length


def test_a_run_can_be_cancelled_while_the_model_answers_and_while_it_asks_for_more() -> None:
    asking = Play(model=[])
    asking.run.next()
    asking.run.cancelled()
    assert asking.told() == ["turn_start", "error"]

    more = Play(
        tool(),
        model=[says("", call("look"))],
        budget={"maxTurns": 1},
        definition={"on_limit": {"maxTurns": "ask"}},
    )
    while not more.desk.open():
        more.take(more.run.next())
        more.run.next()
    assert more.run.status == "awaiting_approval"
    more.run.cancelled()
    assert (more.desk.open(), more.run.status) == ([], "cancelled")


# What people say on the way.


def test_a_message_to_steer_enters_before_the_next_request() -> None:
    play = Play(tool(), model=[says("", call("look")), says("x")])
    play.take(play.run.next())
    play.hear("only the red ones")
    play.to_end()

    assert [message["role"] for message in play.messages()] == [
        "user",
        "assistant",
        "tool",
        "user",
        "assistant",
    ]


def test_a_follow_up_gives_the_run_another_turn_when_it_would_end() -> None:
    play = Play(model=[says("one"), says("two")])
    play.hear("and then?", delivery="followUp")
    play.to_end()

    assert [message["content"] for message in play.messages()] == ["go", "one", "and then?", "two"]
    assert play.result["output"] == "two"


def test_a_message_that_arrives_as_the_run_ends_is_not_lost() -> None:
    play = Play(model=[says("one"), says("two")])
    play.take(play.run.next())
    play.hear("wait")
    play.to_end()
    assert play.result["output"] == "two"

    ended = Play(tool(), model=[says("", call("look"))], budget={"maxTurns": 1})
    ended.take(ended.run.next())
    ended.take(ended.run.next())
    ended.hear("later", delivery="followUp")
    ended.to_end()
    assert ended.result["status"] == "budget_exceeded"
    assert ended.messages()[-1]["content"] == "later"


def test_a_follow_up_after_the_final_answer_is_answered_too() -> None:
    looks = [says("", call("look"))] * 6
    play = Play(tool(), model=[*looks, says("final"), says("more")])
    play.hear("and then?", delivery="followUp")
    play.to_end()

    assert play.result["output"] == "more"
    assert play.result["turns"] == 8


# Conversations.


def talk(*model: Any, **more: Any) -> Play:
    return Play(tool(), model=model, conversation={"idleTimeout": "5m"}, **more)


def test_a_conversation_waits_for_the_next_message() -> None:
    play = talk(says("one"), says("two")).to_end()
    step = play.run.next()

    assert isinstance(step, AwaitMessage)
    assert step.idle_timeout is not None
    assert step.idle_timeout.total_seconds() == 300
    assert play.run.status == "awaiting_message"
    assert play.run.answered_up_to == 0


def test_a_message_of_a_conversation_is_answered() -> None:
    play = talk(says("one"), says("two")).to_end()
    number = play.hear("and?")
    play.to_end()

    assert (play.run.output, play.run.answered_up_to) == ("two", number)
    play.run.close()
    play.to_end()
    assert (play.result["status"], play.result["output"]) == ("completed", "two")


def test_a_message_is_answered_by_what_was_said_after_it_was_heard() -> None:
    """A follow-up is not answered by the answer to a message that came later, yet was heard."""
    play = talk(says("", call("look")), says("one"), says("two"))
    play.take(play.run.next())
    follow_up = play.hear("first sent", delivery="followUp")
    play.hear("second sent")
    answered: list[tuple[Any, int]] = []
    while not isinstance(step := play.run.next(), AwaitMessage):
        play.take(step)
        answered.append((play.run.output, play.run.answered_up_to))

    assert ("one", 0) in answered
    assert answered[-1] == ("two", 2)
    assert follow_up == 1


def test_a_conversation_ends_where_it_is_closed_with_nothing_left_to_hear() -> None:
    play = talk(says("one"), says("two"))
    play.take(play.run.next())
    play.hear("one more")
    play.run.close()
    play.to_end()

    assert play.result["output"] == "two"


def test_each_message_of_a_conversation_has_its_own_rounds_of_calls() -> None:
    looks = [says("", call("look"))] * 3
    play = talk(*looks, says("one"), *looks, says("two"), budget={"maxIterations": 4}).to_end()
    play.hear("again")
    play.to_end()

    assert play.run.output == "two"
    assert play.said() == ["again"]
