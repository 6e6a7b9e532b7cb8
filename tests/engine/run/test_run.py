"""A run between its steps; what happens in one is in `tests/engine/plays`."""

from holdfast.schemas.internal.model_request import ConversationPageRequest
from holdfast.schemas.message import Delivered
from holdfast.workflows.engine.phases import AskModel
from holdfast.workflows.engine.run_messages import Mailbox
from tests.engine.driver import Play, call, read_again, reply, tool


def test_the_calls_of_a_turn_are_checked_within_one_allowance() -> None:
    """Temporal takes a workflow that thinks for two seconds for dead."""
    schema = {"type": "object", "properties": {"text": {"pattern": "[ab]{200}"}}}
    large = call("look", {"text": "ab" * 100_000})
    play = Play(tool("look", schema), model=[reply("", *[large] * 4), reply("ok")]).to_end()

    assert list(play.errors().values()) == [None, *["invalid_arguments"] * 3]
    assert "too large to be checked" in play.results()["t1c4"]


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


# Messages.


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


def test_a_message_is_answered_although_an_earlier_one_was_withdrawn_meanwhile() -> None:
    mailbox = Mailbox()
    gone = mailbox.put(Delivered(content="go", delivery="followUp"))
    read = mailbox.put(Delivered(content="go", delivery="steer"))
    mailbox.take(ending=False)
    assert mailbox.heard < gone
    mailbox.withdraw(gone)
    assert mailbox.heard == read


def test_the_sender_of_a_message_receives_the_budget_that_ended_it() -> None:
    budget = {"maxTurns": 8, "perMessage": {"maxTurns": 1}, "total": {"maxTurns": 4}}
    model = [reply("one"), reply("", call("look")), reply("two"), reply("", call("look"))]
    play = Play(tool(), model=model, conversation={"idleTimeout": "5m"}, budget=budget).to_end()
    numbers = [play.receive(each) for each in ("look", "again")]
    play.to_end()
    play.continue_as_new()

    problems = [str(play.run.messages.budget_problem(number)) for number in numbers]
    assert ["maxTurns (1) of this message" in each for each in problems] == [True, True]
    number = play.receive("and?")
    play.to_end()
    assert play.run.messages.budget_problem(number) is None
    last = play.receive("more")
    play.to_end()
    assert "maxTurns is used up" in str(play.run.messages.budget_problem(last))
