"""What people say to a run on its way, and conversations."""

from typing import Any

from holdfast.workflows.engine.call.tool_call import Stopped
from holdfast.workflows.engine.execution_base import AwaitMessage
from tests.engine.driver import Play, call, says, tool


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


def test_a_run_is_known_to_end_until_somebody_says_more() -> None:
    play = Play(tool(), model=[says("", call("look")), says("one"), says("two")])
    known = [play.run.is_ending]
    for _ in range(3):
        play.take(play.run.next())
        known.append(play.run.is_ending)
    play.hear("and?", delivery="followUp")
    known.append(play.run.is_ending)
    play.take(play.run.next())
    known.append(play.run.is_ending)
    play.to_end()
    known.append(play.run.is_ending)
    assert known == [False, False, False, True, False, True, False]


def test_a_run_that_is_stopped_ends_whatever_is_said() -> None:
    play = Play(tool(), model=[says("", call("look"))], outcomes={"look": Stopped("closed")})
    for _ in range(2):
        play.take(play.run.next())
    play.hear("and?", delivery="followUp")
    assert play.run.is_ending


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
    assert not play.run.is_ending


def test_a_message_of_a_conversation_is_answered() -> None:
    play = talk(says("one"), says("two")).to_end()
    number = play.hear("and?")
    play.to_end()

    assert (play.run.output, play.run.answered_up_to) == ("two", number)
    play.run.mailbox.close()
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
    play.run.mailbox.close()
    play.to_end()

    assert play.result["output"] == "two"


def test_each_message_of_a_conversation_has_its_own_rounds_of_calls() -> None:
    looks = [says("", call("look"))] * 3
    play = talk(*looks, says("one"), *looks, says("two"), budget={"maxIterations": 4}).to_end()
    play.hear("again")
    play.to_end()

    assert play.run.output == "two"
    assert play.said() == ["again"]
