"""`onThreshold`: an event and a notification when a share of a budget is used, once."""

from typing import Any

import pytest

from holdfast.schemas.internal.solution import Usage
from tests.engine.driver import Play, call, reply, tool

LOOKS = [reply("", call("look"), usage=Usage(input_tokens=90, output_tokens=10)) for _ in range(4)]
DONE = reply("done", usage=Usage(input_tokens=10, output_tokens=0))


def play(on_threshold: dict[str, float], budget: dict[str, Any], **more: Any) -> Play:
    definition = {"on_threshold": on_threshold, "budget": budget, **more}
    return Play(tool(), model=[*LOOKS, DONE], definition=definition)


@pytest.mark.parametrize(
    ("name", "limit", "share", "passed"),
    [
        ("maxTokens", 500, 0.6, (3, 300)),
        ("maxTokens", 500, 0.61, (4, 400)),
        ("maxTurns", 6, 0.5, (3, 3)),
        ("maxCalls", 5, 0.8, (4, 4)),
        ("maxIterations", 8, 0.25, (2, 2)),
        ("maxTokens", 5_000, 0.9, None),
        ("maxTokens", None, 0.1, None),
        ("maxCost", 1, 0.1, None),
    ],
)
def test_it_is_an_event_of_the_turn_that_comes_to_it_and_of_no_other(
    name: str, limit: int | None, share: float, passed: tuple[int, int] | None
) -> None:
    key = {"maxTokens": "max_tokens", "maxTurns": "max_turns", "maxCalls": "max_calls"}
    key |= {"maxIterations": "max_iterations", "maxCost": "max_cost"}
    played = play({name: share}, {key[name]: limit}).to_end()

    events = played.events()
    found = [n for n, each in enumerate(events) if each["type"] == "budget_threshold"]
    assert len(found) == (0 if passed is None else 1)
    for n in found:
        turn, used = passed or (0, 0)
        assert events[n + 1]["type"] == "turn_end"
        assert events[n + 1]["turn"] == turn
        assert {**events[n], "n": 0, "at": ""} == {
            "n": 0,
            "at": "",
            "type": "budget_threshold",
            "budget": name,
            "used": used,
            "limit": limit,
        }
    [*reached] = played.run.state.reached
    assert [each.label for each in reached] == (
        [f"{name}: {passed[1]} of {limit} used"] if passed else []
    )


def test_an_extension_is_a_new_grant_with_a_threshold_of_its_own() -> None:
    played = play({"maxTurns": 0.9}, {"max_turns": 2}, on_limit={"maxTurns": "ask"}).to_end()

    used = [each["used"] for each in played.records("budget_threshold")]
    assert used == [2, 4]


def test_a_sent_notification_is_not_sent_again_after_a_run_continued_as_new() -> None:
    chained = play({"maxTokens": 0.2}, {"max_tokens": 500})
    chained.chained = True
    chained.to_end()

    assert len(chained.records("budget_threshold")) == 1
