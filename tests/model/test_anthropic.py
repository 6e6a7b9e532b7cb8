"""Runs through the provider `anthropic`, whose server is llama.cpp's own `/v1/messages`."""

import json

import pytest

from tests.model.mind import MESSAGES_ENDPOINT, TOOLS, PlayedDesk, ended, model_messages

pytestmark = [pytest.mark.model, pytest.mark.timeout(60)]

MESSAGES = {"endpoint": MESSAGES_ENDPOINT}


async def test_a_call_is_executed_and_its_result_read(desk: PlayedDesk) -> None:
    """Of three that are asked for, one at the least."""
    for order in (1042, 1038, 1031):
        run = await desk.ask(f"Look up order {order}.", tools=TOOLS, model=MESSAGES)
        result = await ended(run)
        found = [json.loads(each) for each in (await run.results()).values()]
        if result["turns"] > 1 and any("shipments" in each for each in found):
            assert result["usage"]["inputTokens"] > result["usage"]["outputTokens"] > 0
            assert result["usage"]["cachedTokens"] > 0
            return
    pytest.fail("no order was looked up")


async def test_a_text_is_answered_and_its_length_kept_to(desk: PlayedDesk) -> None:
    run = await desk.ask("Tell me a long story.", model={**MESSAGES, "maxOutputTokens": 8})
    result = await ended(run)
    assert result["output"]
    assert result["usage"]["outputTokens"] == 8 * result["turns"]


@pytest.mark.parametrize("choice", ["required", {"name": "look_up_order"}], ids=["any", "by name"])
async def test_a_call_that_is_required_is_made(desk: PlayedDesk, choice: object) -> None:
    run = await desk.ask("Look up order 1042.", tools=TOOLS, toolChoice=choice, model=MESSAGES)
    await ended(run)
    [first, *_] = await model_messages(run)
    assert first.get("calls")


async def test_a_conversation_with_failed_calls_continues(desk: PlayedDesk) -> None:
    model = {**MESSAGES, "maxOutputTokens": 120}
    run = await desk.ask(
        "Look up order 9999999999999999999999.", tools=TOOLS, model=model, toolChoice="required"
    )
    assert (await ended(run))["turns"] > 1
