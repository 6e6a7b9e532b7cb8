"""Runs whose model is asked in other formats than chat completions, by a worker's endpoints."""

from typing import Any

from tests.providers.wire.openai_responses import begun, call, ended, piecemeal, spoken, thought
from tests.support.backend import Launch
from tests.support.model_server import Answer

REASONS = {"endpoint": "fake", "name": "gpt-5.5", "temperature": None}


def responds(*items: Any) -> Answer:
    return Answer(events=[*begun(*items), ended()])


async def test_a_run_carries_the_encrypted_reasoning_of_a_response_along(launch: Launch) -> None:
    arguments = '{"text": "coffee", "times": 2}'
    looked = thought(0, "gAAAA-first", "I say it twice.")
    answers = [
        responds(piecemeal(0, looked), piecemeal(1, call(1, "echo", arguments), arguments)),
        responds(piecemeal(0, thought(2)), spoken(1, "Twice.")),
    ]
    backend = await launch(answers, provider="openai-responses")
    run = await backend.start(["echo"], agent={"model": REASONS}, input="Say coffee twice.")
    result = await run.result()
    assert (result["status"], result["output"], result["turns"]) == ("completed", "Twice.", 2)
    assert await run.results() == {"t1c1": "coffeecoffee"}
    assert result["usage"] | {"cost": None} == {
        "inputTokens": 24,
        "outputTokens": 60,
        "cachedTokens": 8,
        "cost": None,
    }
    first, second = backend.model.requests
    assert second["input"][: len(first["input"])] == first["input"]
    assert [each["type"] for each in second["input"]] == [
        *("message", "reasoning", "function_call", "function_call_output")
    ]
    assert second["input"][1] == looked
    assert not any(entry["type"] == "notice" for entry in await run.events())
