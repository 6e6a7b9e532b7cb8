"""Messages of people to a run on its way, and conversations."""

from typing import Any

import pytest

from holdfast.workflows.engine.call.outcomes import Succeeded
from holdfast.workflows.engine.phases import AwaitMessage
from tests.engine.driver import Play, call, reply, tool


def test_a_run_is_ending_until_another_message_arrives() -> None:
    play = Play(tool(), model=[reply("", call("look")), reply("one"), reply("two")])
    known = [play.run.is_ending]
    for _ in range(3):
        play.take(play.next())
        known.append(play.run.is_ending)
    play.receive("and?", delivery="followUp")
    known.append(play.run.is_ending)
    play.take(play.next())
    known.append(play.run.is_ending)
    play.to_end()
    known.append(play.run.is_ending)
    assert known == [False, False, False, True, False, True, False]


# Conversations.


def talk(*model: Any, **more: Any) -> Play:
    return Play(tool(), model=model, conversation={"idleTimeout": "5m"}, **more)


def test_a_conversation_waits_for_the_next_message() -> None:
    play = talk(reply("one"), reply("two")).to_end()
    step = play.next()

    assert isinstance(step, AwaitMessage)
    assert step.idle_timeout is not None
    assert step.idle_timeout.total_seconds() == 300
    assert play.run.status == "awaiting_message"
    assert play.run.progress.answered_up_to == 0
    assert not play.run.is_ending


# Budgets of a conversation.

LOOK = reply("", call("look"))


def send(play: Play, text: str = "and?", **more: Any) -> int:
    """A message, played until it is answered, or the run has ended."""
    number = play.receive(text, **more)
    play.to_end()
    return number


def test_each_message_of_a_conversation_has_the_budget_of_its_own() -> None:
    play = talk(*[LOOK, reply("found")] * 3, budget={"maxTurns": 2, "maxCalls": 1}).to_end()
    assert [send(play), send(play)] == [1, 2]

    assert (play.run.progress.output, play.run.status) == ("found", "awaiting_message")
    assert play.run.state.meter.turns == 6
    view = play.run.state.meter.view(play.clock())
    assert view["maxTurns"] == {"used": 2, "limit": 2, "total": {"used": 6, "limit": None}}


def test_a_message_that_ends_on_its_budget_leaves_the_conversation_open() -> None:
    more = {"maxTurns": 8, "perMessage": {"maxTurns": 1}}
    play = talk(reply("one"), LOOK, reply("two"), budget=more).to_end()
    number = send(play)

    problem = play.run.messages.budget_problem(number)
    assert problem is not None
    assert "maxTurns (1) of this message" in problem
    assert isinstance(play.next(), AwaitMessage)
    notice = "the budget maxTurns is used up; the next message has its own"
    assert [record["text"] for record in play.records("notice")] == [notice]
    play.continue_as_new()
    assert play.run.messages.budget_problem(number) == problem
    assert play.run.messages.budget_problem(send(play)) is None
    assert play.run.progress.output == "two"


def test_messages_that_are_read_together_end_together_on_their_budget() -> None:
    more = {"maxTurns": 8, "perMessage": {"maxTurns": 1}}
    play = talk(reply("one"), LOOK, budget=more).to_end()
    first, second = play.receive("a"), play.receive("b")
    play.to_end()

    problems = [play.run.messages.budget_problem(number) for number in (first, second)]
    assert ["maxTurns (1)" in str(problem) for problem in problems] == [True, True]


def test_the_total_ends_a_conversation_and_every_message_of_it() -> None:
    play = talk(reply("one"), reply("two"), budget={"total": {"maxTurns": 2}}).to_end()
    send(play)
    first, second = play.receive("a"), play.receive("b", delivery="followUp")
    play.to_end()

    assert play.result["status"] == "budget_exceeded"
    texts = [play.run.messages.budget_problem(number) for number in (first, second)]
    assert texts == ["the run has ended: its budget maxTurns is used up"] * 2
    assert [each["text"] for each in play.result["undelivered"]] == ["a", "b"]


# Messages that are not read.


def test_a_queued_message_is_listed_and_can_be_withdrawn() -> None:
    play = Play(model=[reply("one")])
    play.take(play.next())
    keep, gone = (play.receive(each * 300, delivery="followUp") for each in ("a", "b"))
    assert [each.number for each in play.mailbox.queued()] == [keep, gone]
    assert len(play.mailbox.queued()[0].text) < 210
    play.mailbox.withdraw(gone)
    assert not play.mailbox.is_queued(gone)
    play.mailbox.withdraw(keep)
    assert play.to_end().result["output"] == "one"


ENDS = [{"budget": {"maxTurns": 1}}, {"outcomes": {"look": Succeeded("enough", terminate=True)}}]


@pytest.mark.parametrize("ends", ENDS)
def test_a_result_lists_what_no_model_has_read(ends: Any) -> None:
    play = Play(tool(), model=[LOOK], **ends)
    play.take(play.next())
    play.receive("wait", delivery="followUp")
    play.receive("stop")
    play.to_end()

    assert play.result["undelivered"] == [
        {"number": 1, "role": "user", "delivery": "followUp", "text": "wait"},
        {"number": 2, "role": "user", "delivery": "steer", "text": "stop"},
    ]
    assert {message["content"] for message in play.messages()[-2:]} == {"wait", "stop"}
