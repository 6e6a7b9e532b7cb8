"""A run that is answered in text, by a real model: streamed, counted, waited for, cancelled."""

import asyncio

import pytest
from temporalio.client import WorkflowFailureError

from holdfast.client.run import Run as ClientRun
from holdfast.client.stream.heartbeats import AnswerProgress
from tests.model.mind import PlayedDesk, ended, model_messages
from tests.support.backend import Run
from tests.support.eventually import eventually

pytestmark = [pytest.mark.model, pytest.mark.timeout(60)]

# It continues until it is cut off, after a few seconds.
STORY = "Tell me a long story about a coffee machine that travels around the world."
ON_AND_ON = {"maxOutputTokens": 256, "options": {"ignore_eos": True}}


async def streamed(desk: PlayedDesk, run: Run, beyond: int = 0) -> AnswerProgress:
    """What anyone sees of the model's answer, once it has more than so many characters."""
    remote = ClientRun(desk.client, run.id)

    async def more() -> AnswerProgress | None:
        look = await remote.observe()
        assert not look.closed, "the run ended before more of the answer was seen"
        seen = look.streaming
        return seen if seen and seen.offset + len(seen.text) > beyond else None

    return await eventually(more)


async def waits(run: Run) -> bool:
    """Whether a conversation waits for its next message."""
    status: str = (await run.status())["status"]
    return status == "awaiting_message"


async def test_a_run_completes_with_the_models_text_and_usage(desk: PlayedDesk) -> None:
    run = await desk.ask("What is a good coffee?")
    result = await ended(run)
    assert result["status"] == "completed"
    assert (await model_messages(run))[-1]["content"] == result["output"]
    assert result["turns"] <= 2  # a first answer may be cut off
    assert result["usage"]["inputTokens"] > 10
    assert 1 < result["usage"]["outputTokens"] <= 64 * result["turns"]


async def test_text_can_be_watched_while_it_is_written(desk: PlayedDesk) -> None:
    run = await desk.ask(STORY, model=ON_AND_ON)
    first = await streamed(desk, run)
    second = await streamed(desk, run, beyond=first.offset + len(first.text))
    await ended(run)
    answer = (await model_messages(run))[0]["content"]
    for seen in (first, second):
        assert answer[seen.offset :].startswith(seen.text)


async def test_a_model_that_reads_for_long_is_waited_for(desk: PlayedDesk) -> None:
    """It sends nothing meanwhile, for longer than the heartbeat timeout."""
    result = await ended(await desk.ask("What is this about? " + "Coffee is made of beans. " * 150))
    assert result["status"] == "completed"
    assert result["usage"]["inputTokens"] > 900


async def test_earlier_messages_are_not_read_again(desk: PlayedDesk) -> None:
    """A request begins like the one before, so that the server's prompt cache holds."""
    run = await desk.ask("Say hello.", conversation=True)
    await eventually(lambda: waits(run))
    first = (await run.status())["usage"]
    await run.handle.execute_update("send", {"content": "What is coffee?"})
    await run.handle.execute_update("send", {"content": "And what is tea?"})
    await run.handle.signal("close")
    result = await ended(run)
    assert result["turns"] == 3
    assert result["usage"]["cachedTokens"] - first["cachedTokens"] > first["inputTokens"]


async def test_runs_that_ask_at_once_are_answered_one_after_the_other(desk: PlayedDesk) -> None:
    drinks = ("coffee", "tea", "milk")
    runs = [await desk.ask(f"What is {drink}?") for drink in drinks]
    for result in await asyncio.gather(*map(ended, runs)):
        assert result["status"] == "completed"


async def test_a_cancelled_run_leaves_the_model_to_others(desk: PlayedDesk) -> None:
    """Left alone, its answer would take longer than this test may."""
    run = await desk.ask(STORY, model={**ON_AND_ON, "maxOutputTokens": 7000})
    await streamed(desk, run)
    await run.handle.cancel()
    with pytest.raises(WorkflowFailureError):
        await run.result()
    assert (await run.status())["status"] == "cancelled"
    assert (await ended(await desk.ask("Say hello.")))["status"] == "completed"
