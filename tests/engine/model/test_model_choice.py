"""What a run has used of each of its models."""

from holdfast.schemas.agent import ModelSettings
from holdfast.schemas.internal.solution import Usage
from tests.engine.driver import NoAnswer, Play, call, reply, tool

SECOND = ModelSettings(endpoint="script", name="second")
LOOK = reply("", call("look"))


def test_usage_is_counted_by_model() -> None:
    spent = {"usage": Usage(input_tokens=10, output_tokens=1, cost=0.5)}
    model = [reply("", call("look"), **spent), NoAnswer(text="down"), reply("done", **spent)]
    play = Play(tool(), model=model, definition={"fallbacks": [SECOND]}).to_end()
    usage = {"inputTokens": 10, "outputTokens": 1, "cachedTokens": 0, "cost": 0.5}
    assert play.result["models"] == [
        {"model": "script/script", "turns": 1, "usage": usage},
        {"model": "script/second", "turns": 1, "usage": usage},
    ]


def test_failed_answers_before_a_refusal_are_counted_and_no_request() -> None:
    spent = Usage(input_tokens=10, output_tokens=1, cost=0.5)
    refused = reply(too_long=True, failed_usage=spent)
    done = reply("done", usage=spent)
    play = Play(tool(), model=[refused, done], definition={"fallbacks": [SECOND]}).to_end()
    meter = play.run.state.meter
    assert (meter.requests, meter.input_tokens, meter.cost) == (1, 20, 1.0)
    assert [each["turns"] for each in play.result["models"]] == [0, 1]


def test_failed_answers_of_unknown_usage_before_a_refusal_are_no_known_usage() -> None:
    spent = Usage(input_tokens=10, output_tokens=1, cost=0.5)
    refused = reply(too_long=True, failed_usage=Usage())
    done = reply("done", usage=spent)
    play = Play(tool(), model=[refused, done], definition={"fallbacks": [SECOND]}).to_end()
    assert play.result["usage"]["inputTokens"] is None
    assert [each["usage"]["cost"] for each in play.result["models"]] == [None, 0.5]


def test_the_result_of_a_run_with_one_model_names_none() -> None:
    assert "models" not in Play(tool(), model=[LOOK, reply("done")]).to_end().result


def test_a_run_that_fails_on_refused_answers_has_their_usage() -> None:
    refused = reply(refused="no answer", usage=Usage(input_tokens=3, output_tokens=1))
    play = Play(tool(), model=[LOOK, refused, refused]).to_end()

    assert play.failure.code == "model_error"
    spent = play.run.get_spent()
    assert (spent.turns, spent.usage.input_tokens) == (3, None), "that of one answer is unknown"
    assert play.run.state.meter.input_tokens == 6
