"""Which model answers: the next of a list where one fails, and composed calling without tools."""

from typing import Any

import pytest

from holdfast.schemas.agent import ModelSettings
from holdfast.schemas.internal.solution import Solution, Usage
from holdfast.schemas.tool import ActivityBinding, ResolvedTool
from holdfast.workflows.engine.phases import AskModel
from tests.engine.driver import NoAnswer, Play, call, reply, tool

SECOND, THIRD = (ModelSettings(endpoint="script", name=name) for name in ("second", "third"))
NO_TOOLS = Solution(no_tools=True, notices=["endpoint `script` answered 400: no tools"])
LOOK = reply("", call("look"))
DONE = reply("done")
SWITCH = "script/script did not answer (it is down): script/second is used from now on"


def listed(*model: Any, summaries: Any = ()) -> Play:
    definition = {"fallbacks": [SECOND, THIRD]}
    return Play(tool(), model=model, definition=definition, summaries=summaries)


def asked(play: Play) -> str:
    """The model that the next request is for, while the run changes to it."""
    while not isinstance(step := play.next(), AskModel):
        play.take(step)
    return play.run.settings.ask().model.name


def notices(play: Play) -> list[str]:
    return [record["text"] for record in play.records("notice")]


def test_the_next_model_answers_where_one_fails_and_stays() -> None:
    play = listed(NoAnswer(text="it is down"), LOOK, DONE)
    models = [asked(play)]
    for _ in range(3):
        play.take(play.next())
        models.append(asked(play) if play.model else "")
    assert models[:3] == ["script", "second", "second"]
    result = play.to_end().result
    assert (result["status"], result["turns"], notices(play)) == ("completed", 2, [SWITCH])


def test_usage_is_counted_by_model_and_each_turn_names_its_own() -> None:
    spent = {"usage": Usage(input_tokens=10, output_tokens=1, cost=0.5)}
    model = [reply("", call("look"), **spent), NoAnswer(text="down"), reply("done", **spent)]
    play = listed(*model).to_end()
    ends = [end.get("model") for end in play.records("turn_end")]
    assert ends == ["script/script", "script/second"]
    usage = {"inputTokens": 10, "outputTokens": 1, "cachedTokens": 0, "cost": 0.5}
    assert play.result["models"] == [
        {"model": "script/script", "turns": 1, "usage": usage},
        {"model": "script/second", "turns": 1, "usage": usage},
    ]


def test_a_run_with_one_model_logs_no_model() -> None:
    play = Play(tool(), model=[LOOK, DONE]).to_end()
    assert "models" not in play.result
    assert not any("model" in end for end in play.records("turn_end"))


def test_it_fails_once_no_model_is_left_with_the_last_one_s_error() -> None:
    play = listed(*(NoAnswer(text=f"no {n}") for n in range(3))).to_end()
    assert (play.failure.code, play.failure.message) == ("model_error", "no 2")
    assert len(notices(play)) == 2


def test_a_conversation_that_is_too_long_goes_to_the_next_model_before_it_is_summarised() -> None:
    too_long = Solution(too_long=True, window=1_000)
    play = listed(too_long, too_long, too_long, DONE, summaries=[reply("short")]).to_end()
    assert play.result["output"] == "done"
    assert ["too long" in notice for notice in notices(play)] == [True, True]
    assert len(play.records("summary")) == 1


def test_a_run_that_continues_as_new_stays_with_its_model_and_calling() -> None:
    play = listed(NoAnswer(text="it is down"), NO_TOOLS, composed(call_of="look"), DONE)
    play.chained = True
    play.model[-1] = reply('{"calls": [], "output": "done"}')
    assert play.to_end().result["output"] == "done"
    assert (play.run.agent.model, play.run.agent.calling) == (SECOND, "composed")
    assert play.run.agent.fallbacks == [THIRD]


def composed(call_of: str) -> Solution:
    return reply(f'{{"calls": [{{"_tool": "{call_of}"}}], "output": null}}')


def test_a_model_without_tools_is_asked_for_composed_answers_at_no_charge() -> None:
    play = Play(tool(), model=[NO_TOOLS, composed("look"), reply('{"calls": [], "output": "3"}')])
    play.to_end()
    assert (play.result["output"], play.result["turns"], play.result["calls"]) == ("3", 2, 1)
    assert notices(play) == [
        "endpoint `script` answered 400: no tools",
        "script/script does not support tools: from now on its calls are a part of its answers"
        " (composed calling)",
    ]


def test_a_second_refusal_of_tools_is_an_answer_that_costs_a_turn() -> None:
    play = Play(tool(), model=[NO_TOOLS] * 9, budget={"maxTurns": 2}).to_end()
    assert (play.result["status"], play.result["turns"]) == ("budget_exceeded", 2)


@pytest.mark.parametrize("lazy", [False, True])
def test_approved_calls_run_after_a_change_of_the_model(*, lazy: bool) -> None:
    pay = ResolvedTool(
        name="pay",
        parameters={"type": "object"},
        side_effects=True,
        activity=ActivityBinding(type="pay"),
    )
    model = [NoAnswer(text="it is down"), reply("", call("pay")), DONE]
    definition = {"fallbacks": [SECOND], "plan": "lazy" if lazy else "eager"}
    play = Play(pay, model=model, definition=definition).to_end()
    assert (play.result["output"], play.errors()) == ("done", {"t1c1": None})


# An answer that the provider ended without one.

REASON = "the provider ended the answer without one (`OTHER`)"
REFUSED = Solution(refused=REASON, notices=[REASON], usage=Usage(input_tokens=3, output_tokens=1))
TOLD = f"invalid_output: {REASON}. Call a tool, or answer."


def test_a_refused_answer_is_a_turn_of_which_the_model_reads_the_reason() -> None:
    play = Play(tool(), model=[REFUSED, LOOK, REFUSED, DONE]).to_end()
    assert (play.result["output"], play.result["turns"]) == ("done", 4)
    assert play.engine_messages() == [TOLD, TOLD]


def test_a_second_refused_answer_in_a_row_fails_the_run_and_is_in_its_usage() -> None:
    play = Play(tool(), model=[LOOK, REFUSED, REFUSED])
    play.chained = True  # the first one is known under the next history
    failure = play.to_end().failure
    assert (failure.code, failure.message) == ("model_error", REASON)
    assert play.engine_messages() == [TOLD]
    spent = play.run.get_spent()
    assert (spent.turns, spent.usage.input_tokens) == (3, None)
    assert play.run.state.meter.input_tokens == 6


def test_the_next_model_answers_after_a_second_refused_answer() -> None:
    play = listed(REFUSED, REFUSED, REFUSED, DONE).to_end()
    assert (play.result["output"], play.result["turns"]) == ("done", 4)
    assert [start["turn"] for start in play.records("turn_start")] == [1, 2]
    assert notices(play)[-1].startswith("script/second did not answer (the provider ended")


def test_a_refused_summary_is_requested_again() -> None:
    too_long = Solution(too_long=True, window=1_000)
    once = Play(model=[too_long, DONE], summaries=[REFUSED, reply("short")]).to_end()
    twice = Play(model=[too_long, DONE], summaries=[REFUSED, REFUSED]).to_end()
    assert (once.result["output"], once.result["turns"]) == ("done", 3)
    assert (twice.failure.code, twice.failure.message) == ("model_error", REASON)
