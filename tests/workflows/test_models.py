"""Runs whose model is asked in other formats than chat completions, by a worker's endpoints."""

from typing import Any

from tests.providers.wire.openai_responses import begun, call, ended, piecemeal, spoken, thought
from tests.support.backend import Launch
from tests.support.model_server import Answer
from tests.support.model_server import call as call_of

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
    assert not any(entry["type"] == "notice" for entry in await run.context())


async def test_a_model_that_reads_text_alone_is_told_of_images_and_refused_documents(
    launch: Launch,
) -> None:
    backend = await launch([Answer(calls=[call_of("echo", text="a", times=1)]), Answer("A cat?")])
    reads_text = {"model": {"endpoint": "fake", "name": "tiny", "accepts": []}}
    picture = {"type": "image", "mediaType": "image/png", "data": "iVBORw0KGgo="}
    text = {"type": "text", "text": "What is it?"}
    run = await backend.start(
        ["echo"], agent=reads_text, input=None, context=[{"content": [text, picture]}]
    )
    assert (await run.result())["output"] == "A cat?"
    assert [each["text"] for each in await run.context() if each["type"] == "notice"] == [
        "the model `tiny` takes no images: it read a text in place of 1"
    ]
    document = {"type": "document", "data": "JVBERi0xLjc="}
    refused = await backend.start(agent=reads_text, input=None, context=[{"content": [document]}])
    failure = await refused.failure()
    assert failure.type == "model_error"
    assert "the model `tiny` of endpoint `fake` takes no documents" in failure.message
    accepted = await backend.start(["echo"], input=None, context=[{"content": [text, document]}])
    assert (await accepted.result())["status"] == "completed"
    assert backend.model.requests[-1]["messages"][1]["content"][1]["type"] == "file"
