"""The address of the inbox at which workers connect: opened by the shared key, and no other way."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from starlette.responses import PlainTextResponse
from temporalio.contrib.pydantic import pydantic_data_converter
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from holdfast.activities.model.progress import Progress
from holdfast.activities.model.viewers import Viewers
from holdfast.client.stream.live_answers import LiveAnswers
from holdfast.schemas.internal.live_answer import VIEWERS_KEY
from holdfast.web.app import with_live_answers
from holdfast.web.http.serving import open_listener, server
from tests.support.eventually import eventually

KEY = "the-key-of-worker-and-inbox"


@asynccontextmanager
async def web_process(live: LiveAnswers) -> AsyncIterator[str]:
    """An inbox whose pages are one line; yields its host and port."""
    app = with_live_answers(PlainTextResponse("the inbox"), live, KEY)
    with open_listener("127.0.0.1", 0) as socket:
        http = server(app, sockets=True)
        task = asyncio.create_task(http.serve([socket]))
        try:
            yield f"127.0.0.1:{socket.getsockname()[1]}"
        finally:
            http.should_exit = True
            await task


async def test_each_web_process_receives_what_is_watched_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(VIEWERS_KEY, KEY)
    ours, other = LiveAnswers(pydantic_data_converter), LiveAnswers(pydantic_data_converter)
    answers = {each: Progress("t1/1", attempt=1) for each in ("r", "s")}
    async with web_process(ours) as at, web_process(other) as beside:
        places = [f"ws://{at}", f"ws://{beside}/"]
        task = asyncio.create_task(
            Viewers(answers, places, pydantic_data_converter, lambda *_: None).run()
        )
        with ours.watch("r") as one, other.watch("s") as another:
            answers["r"].text("Good day")
            answers["s"].text("Good night")

            async def is_shown() -> bool:
                texts = [each.progress and each.progress.text for each in (one, another)]
                return texts == ["Good day", "Good night"]

            await eventually(is_shown)
        async with httpx.AsyncClient() as http:
            assert (await http.get(f"http://{at}/")).text == "the inbox"
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("shown", [{}, {"Authorization": "Bearer another key"}])
async def test_without_the_key_no_worker_is_let_in(
    shown: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with web_process(LiveAnswers(pydantic_data_converter)) as at:
        for path in ("/live-answers", "/"):
            with pytest.raises(InvalidStatus) as refused:
                async with connect(f"ws://{at}{path}", additional_headers=shown):
                    pass
            assert refused.value.response.status_code == 403
    assert not caplog.messages


async def test_wrong_keys_from_its_address_keep_no_worker_out() -> None:
    """Behind a proxy, the sender of wrong keys has the address of every worker."""
    async with web_process(LiveAnswers(pydantic_data_converter)) as at:
        for key in [*(f"wrong{n}" for n in range(12)), KEY]:
            shown = {"Authorization": f"Bearer {key}"}
            try:
                async with connect(f"ws://{at}/live-answers", additional_headers=shown):
                    assert key == KEY
            except InvalidStatus:
                assert key != KEY
