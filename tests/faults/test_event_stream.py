"""`kill -9` of the inbox and of the worker in the middle of a stream of events: a client that comes
back with the id of its last frame has in the end what one has that nothing cut off, and an open
page shows all of the text again.

The model is held in the middle of its second answer, and every part is killed while it is: the
inbox, then the worker, so that another attempt starts the answer again, and the inbox again. The
answer is longer than a heartbeat shows, so its beginning comes as live text alone.
"""

import asyncio
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from playwright.async_api import expect
from temporalio.client import Client

from tests.browser.window import chromium
from tests.support.backend import TOOLS, Backend, Run
from tests.support.eventually import eventually
from tests.support.inbox import Sent, answers, events, inbox, sent, timeless
from tests.support.model_server import Answer, call, serve
from tests.support.process import InboxProcess, WorkerProcess

pytestmark = pytest.mark.usefixtures("ledger")

FIRST, SECOND = "I look it up. ", "It was there all along. " * 100
# The client asks again for so long, as a browser does.
RECONNECT_SECONDS = 30


@dataclass
class KilledProcesses:
    """Everything that is killed, and the gate that holds the model."""

    backend: Backend
    worker: WorkerProcess
    inbox: InboxProcess
    gate: threading.Event


@pytest.fixture
def scene(client: Client, tmp_path: Path, quick_starts: None) -> Iterator[KilledProcesses]:
    """The worker and the inbox are processes."""
    queue, gate = f"stream-{uuid.uuid4().hex[:8]}", threading.Event()
    said = [Answer(FIRST, calls=[call("look_up", id=1)]), Answer(SECOND, hold=gate)]
    address = client.service_client.config.target_host
    with serve(said) as model:
        endpoints = tmp_path / "endpoints.yaml"
        endpoints.write_text(f"fake: {{provider: openai, baseUrl: '{model.url}', timeout: 60s}}\n")
        options = ["--tools", str(TOOLS), "--endpoints", str(endpoints), "--task-queue", queue]
        beats = ["--heartbeat-timeout", "2s"]
        with InboxProcess(address) as desk:
            viewers = ["--viewers", desk.url.replace("http", "ws")]
            with WorkerProcess(address, *options, *beats, *viewers) as worker:
                yield KilledProcesses(Backend(client, queue, model), worker, desk, gate)
                gate.set()


class ReturningClient:
    """A client that comes back, for as long as it takes, with the id of the last frame it has."""

    def __init__(self, http: httpx.AsyncClient, run: Run) -> None:
        self._http, self._path = http, f"/runs/{run.id}/events"
        self.frames: list[Sent] = []
        self.connected = 0

    async def read(self) -> None:
        """Read to the end of the run."""
        async with asyncio.timeout(RECONNECT_SECONDS * 3):
            while not self._is_over:
                try:
                    await self._connect()
                except httpx.TransportError:
                    await asyncio.sleep(0.1)  # no server is there: it comes back, as a browser does

    @property
    def _is_over(self) -> bool:
        return bool(self.frames) and self.frames[-1].event in ("done", "error")

    async def _connect(self) -> None:
        last = {"Last-Event-ID": self.frames[-1].id} if self.frames else {}
        async with self._http.stream("GET", self._path, headers=last) as response:
            assert response.status_code == 200
            self.connected += 1
            async for each in sent(response):
                if each.event:
                    self.frames.append(each)

    async def attempt(self, number: int) -> None:
        """Wait until it has some of that attempt at the second answer."""

        async def is_there() -> bool:
            tokens = [one.data for one in self.frames if one.event == "token"]
            return any((one["turn"], one["attempt"]) == (2, number) for one in tokens)

        await eventually(is_there)

    async def again(self, times: int) -> None:
        """Wait until it has been let in so often."""

        async def is_in() -> bool:
            return self.connected >= times

        await eventually(is_in)


async def test_a_client_that_is_cut_off_again_and_again_has_all_of_it(
    scene: KilledProcesses, client: Client
) -> None:
    run = await scene.backend.start(["look_up"])
    async with inbox(client) as stage, httpx.AsyncClient(base_url=scene.inbox.url) as http:
        assert (await http.get(scene.inbox.link)).status_code in (200, 303)
        cut_off, undisturbed = ReturningClient(http, run), ReturningClient(stage.http, run)
        reading = asyncio.gather(cut_off.read(), undisturbed.read())

        await cut_off.attempt(1)
        scene.inbox.kill()
        scene.inbox.start()
        await cut_off.again(2)

        scene.worker.kill()
        scene.worker.start()
        await cut_off.attempt(2)

        scene.inbox.kill()
        scene.gate.set()
        await run.result()
        scene.inbox.start()
        await reading

    # On a busy machine it may be cut off again.
    assert cut_off.connected >= 3
    assert undisturbed.connected == 1
    assert events(cut_off.frames) == events(undisturbed.frames) == timeless(await run.events())
    assert answers(cut_off.frames) == answers(undisturbed.frames) == {1: FIRST, 2: SECOND}
    ends = [one.event for one in cut_off.frames if one.event in ("done", "error")]
    assert ends == ["done"]


@pytest.mark.browser
async def test_a_page_that_stays_open_shows_all_of_the_text_after_each_end(
    scene: KilledProcesses,
) -> None:
    run = await scene.backend.start(["look_up"])
    async with chromium() as browser:
        page = await browser.new_page()
        await page.goto(scene.inbox.link)
        await page.goto(f"{scene.inbox.url}/run/{run.id}")
        text, attempt = page.locator("#said"), page.locator("#attempt")
        await expect(text).to_have_text(SECOND)
        for process, shown in ((scene.inbox, ""), (scene.worker, " (attempt 2)")):
            process.kill()
            await text.evaluate("said => said.textContent = ''")
            process.start()
            await expect(attempt).to_have_text(shown)
            await expect(text).to_have_text(SECOND)
        scene.inbox.kill()
        scene.gate.set()
        await run.result()
        scene.inbox.start()
        await expect(page.locator("#now")).to_contain_text("Completed.")
        await expect(page.locator("#entries")).to_contain_text(SECOND.strip())
