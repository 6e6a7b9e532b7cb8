"""§10: when the context nears the model's window, its older part is replaced for the model by a
summary; nothing is dropped from the context."""

from typing import Any

import pytest

from holdfast.schemas.internal.model_request import Ask, ConversationPageRequest
from holdfast.schemas.internal.solution import Solution, Usage
from holdfast.schemas.message import ImagePart
from holdfast.workflows.engine.call.outcomes import Failed, Outcome, Succeeded
from holdfast.workflows.engine.call.states import ToolCall
from holdfast.workflows.engine.conversation.summaries import (
    MAX_REQUESTS_PER_TURN,
    MAX_SUMMARY_CHARACTERS,
)
from holdfast.workflows.engine.model.latent_calls import Latent
from holdfast.workflows.engine.phases import AskModel
from tests.engine.driver import MODEL, Play, call, reply, tool
from tests.engine.windowed import Windowed, check_calls

WINDOW = 8_000
LARGE = {"max_turns": 1_000, "max_iterations": 1_000, "max_calls": 1_000}
SUMMARY = reply("They looked ten times.")
TOO_LONG = Solution(too_long=True)


def looking_run(turns: int, window: int = WINDOW, size: int = 2_000, **more: Any) -> Windowed:
    """A run that looks so many times, each time at so much, and then reports what it found."""
    model = [reply("", call("look", {"n": n})) for n in range(turns)]
    return Windowed(
        window,
        tool("look"),
        model=[*model, reply("found")],
        outcomes={"look": lambda one: f"{one.id}:" + "x" * size},
        definition={"budget": LARGE},
        **more,
    )


def summaries(play: Play) -> list[dict[str, Any]]:
    """The requests for summaries, as the results that the log has of them."""
    return play.records("summary")


# When, and where.


def test_a_run_continues_for_ever_under_a_small_window() -> None:
    play = looking_run(60).to_end()

    assert play.result["output"] == "found"
    assert play.refused == 0, "it never asks for more than the model takes"
    assert len(summaries(play)) > 3
    assert len(play.results()) == 60, "nothing is dropped from the context"
    for messages in play.read:
        check_calls(messages)


def test_the_newest_quarter_stays_as_it_is() -> None:
    play = looking_run(20).to_end()
    first = summaries(play)[0]
    at = next(index for index, one in enumerate(play.pointers) if one.summary)
    before, part, after = play.read[at - 1], play.read[at], play.read[at + 1]

    assert part == before[: len(part)], "what is summarised is the beginning of what was read"
    assert after[0]["content"] == first["text"]
    stay = after[1:]
    # The newest turn came after the request before.
    assert stay[:-2] == before[len(part) :]
    assert sum(len(str(one)) for one in stay) >= sum(len(str(one)) for one in part) / 4


def test_the_last_turn_is_not_summarised_before_it_was_read() -> None:
    """The input was, and the result of the one call takes much of the window by itself."""
    refused = Solution(too_long=True, window=WINDOW)
    play = Play(
        tool("look"),
        model=[refused, reply("", call("look")), reply("done")],
        summaries=[SUMMARY],
        outcomes={"look": "x" * 25_000},
        definition={"budget": LARGE},
    ).to_end()

    assert play.result["output"] == "done"
    assert len(summaries(play)) == 1


def test_a_summary_that_would_save_little_is_not_made() -> None:
    """Here the instructions take the window, and no summary of the conversation fixes that."""
    play = Windowed(
        WINDOW,
        tool("look"),
        model=[reply("", call("look")), reply("", call("look")), reply("done")],
        definition={"budget": LARGE, "instructions": "x" * 24_400},
    ).to_end()

    assert play.result["output"] == "done"
    assert summaries(play) == []


def test_a_picture_takes_little_of_the_window_however_many_bytes_it_has() -> None:
    picture = ImagePart(media_type="image/png", data="A" * 100_000).to_json()
    half_full = reply("hm", window=WINDOW, usage=Usage(input_tokens=4_000, output_tokens=9))
    play = Play(model=[half_full, reply("a picture")], conversation=True, input="x" * 9_000)
    play.to_end().receive([picture])
    step = play.next()
    assert isinstance(step, AskModel)
    assert not step.pointer.summary

    play.receive([picture] * 2)
    play.run.model_answered(half_full)
    step = play.next()
    assert isinstance(step, AskModel)
    assert step.pointer.summary


# What fails.


def test_a_part_that_is_too_long_for_a_summary_is_halved_until_it_fits() -> None:
    """A run that begins with far more than its model takes in."""
    context = [{"role": "user", "content": f"{n}:" + "x" * 1_000} for n in range(64)]
    play = Windowed(
        3_000,
        model=[reply("done")],
        says_window=False,
        context=context,
        definition={"budget": LARGE},
    ).to_end()

    assert play.result["output"] == "done"
    parts = [one.upto - one.since for one in play.pointers if one.summary]
    assert parts[:3] == [32, 16, 8]
    assert len(summaries(play)) > 3


def test_what_was_too_much_for_one_turn_is_forgotten_with_its_answer() -> None:
    context = [{"role": "user", "content": "x" * 1_000}] * 16
    play = Play(
        tool("look"),
        context=context,
        model=[TOO_LONG, reply("", call("look")), TOO_LONG, reply("done")],
        summaries=[TOO_LONG, TOO_LONG, SUMMARY, SUMMARY],
        definition={"budget": LARGE},
    ).to_end()

    one, two = (record["upto"] for record in summaries(play))
    assert one == 2
    assert two - one > 6


def test_so_many_requests_for_summaries_are_made_and_no_more() -> None:
    context = [{"role": "user", "content": f"{n}:" + "x" * 1_000} for n in range(99)]
    play = Play(
        context=context,
        model=[Solution(too_long=True, window=1_000)] * 99,
        summaries=[SUMMARY] * 99,
        definition={"budget": LARGE},
    ).to_end()

    assert f"also after {MAX_REQUESTS_PER_TURN} requests for summaries" in play.failure.message
    assert len(play.records("summary")) == MAX_REQUESTS_PER_TURN


# Budgets.


def test_what_was_too_long_costs_nothing() -> None:
    play = Play(model=[TOO_LONG, reply("x")], summaries=[TOO_LONG], definition={"budget": LARGE})
    play.take(play.next())
    play.take(play.next())

    assert play.run.state.meter.requests == 0
    assert not play.run.state.meter.tokens_unknown


# The request for it, and what the model reads of it.


def ask_of(play: Play, step: AskModel) -> Ask:
    """How the model is asked in a step."""
    want = ConversationPageRequest(upto=step.pointer.entries, summary=step.pointer.summary)
    ask = play.run.settings.page(want).ask
    assert ask is not None
    return ask


@pytest.mark.parametrize("calling", ["native", "composed"])
def test_it_is_asked_for_as_a_turn_is_but_for_a_text(calling: str) -> None:
    output = {"type": "object", "properties": {"n": {"type": "integer"}}}
    look = tool("look")
    play = Play(look, model=[TOO_LONG], definition={"calling": calling, "output": output})
    turn = play.next()
    assert isinstance(turn, AskModel)
    of_turn = ask_of(play, turn)
    play.take(turn)
    summary = play.next()
    assert isinstance(summary, AskModel)
    of_summary = ask_of(play, summary)

    same = {"tool_choice": "none", "output": None, "tail": of_summary.tail}
    assert of_summary == of_turn.model_copy(update=same)
    assert of_summary.tail is not None
    assert "in at most 1000 words of plain text" in of_summary.tail


def test_a_long_task_and_a_long_summary_take_a_part_of_the_window_and_no_more() -> None:
    play = looking_run(20, input="task " * 2_000, summaries=[reply("word " * 9_000)] * 9).to_end()

    text = summaries(play)[0]["text"]
    assert play.result["output"] == "found"
    assert text.count("(the rest is left out)") == 2
    assert len(text) < WINDOW * 4 / 2
    assert len(text) < 2 * MAX_SUMMARY_CHARACTERS


# Beside the turns.


def test_a_call_whose_own_request_is_too_long_fails_with_that_reason() -> None:
    found: list[Outcome | None] = []
    guess = tool("guess").model_copy(update={"activity": None})
    play = Play(guess, model=[reply("", call("guess")), reply("done")])

    def answered(one: ToolCall) -> Outcome:
        latent = Latent(one, play.run.agent, play.run.state)
        latent.pointer(1, MODEL)
        found.append(latent.answered(TOO_LONG))
        return Succeeded("whatever")

    play.outcomes["guess"] = answered
    play.to_end()

    [failed] = found
    assert isinstance(failed, Failed)
    assert failed.error.message == (
        "`guess` was not answered: its arguments and what it sees are too long for the model. Call"
        " it with less."
    )


def test_a_run_that_continues_as_new_after_each_turn_summarises_alike() -> None:
    whole, chained = looking_run(40), looking_run(40)
    chained.chained = True
    whole.to_end()
    chained.to_end()

    assert chained.records() == whole.records()
    assert chained.pointers == whole.pointers
