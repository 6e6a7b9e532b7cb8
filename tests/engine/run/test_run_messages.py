"""What people say to a run on its way, and conversations."""

from typing import Any

from holdfast.workflows.engine.execution_base import AwaitMessage
from tests.engine.driver import Play, call, says, tool


def test_a_message_that_arrives_as_the_run_ends_is_not_lost() -> None:
    play = Play(model=[says("one"), says("two")])
    play.take(play.run.next())
    play.receive("wait")
    play.to_end()
    assert play.result["output"] == "two"

    ended = Play(tool(), model=[says("", call("look"))], budget={"maxTurns": 1})
    ended.take(ended.run.next())
    ended.take(ended.run.next())
    ended.receive("later", delivery="followUp")
    ended.to_end()
    assert ended.result["status"] == "budget_exceeded"
    assert ended.messages()[-1]["content"] == "later"


def test_a_run_is_known_to_end_until_somebody_says_more() -> None:
    play = Play(tool(), model=[says("", call("look")), says("one"), says("two")])
    known = [play.run.is_ending]
    for _ in range(3):
        play.take(play.run.next())
        known.append(play.run.is_ending)
    play.receive("and?", delivery="followUp")
    known.append(play.run.is_ending)
    play.take(play.run.next())
    known.append(play.run.is_ending)
    play.to_end()
    known.append(play.run.is_ending)
    assert known == [False, False, False, True, False, True, False]


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
    number = play.receive("and?")
    play.to_end()

    assert (play.run.output, play.run.answered_up_to) == ("two", number)
    play.run.mailbox.close()
    play.to_end()
    assert (play.result["status"], play.result["output"]) == ("completed", "two")
