"""§10: what a model is asked for a summary with, and what it reads of it in every later request."""

import pytest

from holdfast.schemas.internal.model_request import Ask, ConversationPageRequest
from holdfast.workflows.engine.conversation.summaries import MAX_SUMMARY_CHARACTERS
from holdfast.workflows.engine.phases import AskModel
from tests.engine.conversation.test_summaries import (
    LARGE,
    SUMMARY,
    TOO_LONG,
    WINDOW,
    looking_run,
    summaries,
)
from tests.engine.driver import Play, reply, tool


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


def test_the_task_is_kept_word_for_word() -> None:
    play = looking_run(20, input="Look 20 times.\nSay †what you found.", summaries=[SUMMARY] * 9)
    play.to_end()

    for summary in summaries(play):
        assert "\nLook 20 times.\nSay †what you found.\n" in summary["text"]
        assert summary["text"].endswith("\nThey looked ten times.")
        assert "†state.path" in summary["text"]
        assert "t1c1" not in summary["text"], "it is the task and no more"


def test_with_the_messages_before_it() -> None:
    context = [
        {"role": "system", "content": "Be polite."},
        {"role": "user", "content": [{"type": "data", "kind": "notes", "data": {"a": 1}}]},
    ]
    play = looking_run(20, context=context, input="Look!").to_end()

    assert 'system: Be polite.\n\nnotes: {"a": 1}\n\nLook!' in summaries(play)[0]["text"]


def test_a_long_task_and_a_long_summary_take_a_part_of_the_window_and_no_more() -> None:
    play = looking_run(20, input="task " * 2_000, summaries=[reply("word " * 9_000)] * 9).to_end()

    text = summaries(play)[0]["text"]
    assert play.result["output"] == "found"
    assert text.count("(the rest is left out)") == 2
    assert len(text) < WINDOW * 4 / 2
    assert len(text) < 2 * MAX_SUMMARY_CHARACTERS


def test_without_tools_the_prompt_has_no_references() -> None:
    play = Play(model=[TOO_LONG, reply("x")], summaries=[SUMMARY], definition={"budget": LARGE})
    assert "†" not in play.to_end().records("summary")[0]["text"]
