"""An encrypted run in Temporal's own UI (§13): unreadable, but with the codec endpoint.

Without it, not even what the browser is sent may hold a word of the run; with it, the page is what
it would be of a run that was not encrypted, and what is sent from it arrives encrypted.
"""

import asyncio
import base64
import binascii
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.async_api import Error, Page, Response, expect
from temporalio.api.enums.v1 import EventType

from examples.support_desk import shop
from holdfast.runtime.data_converter import data_converter, with_encryption
from holdfast.runtime.encryption.codec import EncryptionCodec
from holdfast.schemas import names
from tests.browser.stage import SUMMARY, DeskServer, ObservedRun, decisions, reading, staged
from tests.encryption.keys import NEW, ring
from tests.web.codec.serving import Served, served

pytestmark = [pytest.mark.browser, pytest.mark.slow]

REFUND, CANCEL, MAIL = "refund_order", "cancel_shipment", "send_mail"
# Of the request, its summary, the model's words, arguments, results and the agent's own texts.
WORDS = ["espresso", "Lovelace", "ada@example.com", "cracked", "S-2057", "249.0"]
WORDS += ["AI agent", "Refund an order", "Turn 1", "holdfast decide", "nowhere"]
IN_BASE64 = re.compile(r"[A-Za-z0-9+/]{8,}={0,2}")


@pytest.fixture(scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[DeskServer]:
    """A server, a worker that encrypts, and a browser."""
    keys = with_encryption(data_converter, ring(NEW))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUPPORT_DESK_DIR", "")
        async with staged(tmp_path_factory.mktemp("temporal"), converter=keys) as stage:
            yield stage


@pytest.fixture(scope="module")
async def endpoint(stage: DeskServer) -> AsyncIterator[Served]:
    """The codec endpoint for this stage's UI."""
    async with served(EncryptionCodec(ring(NEW)), origins=[stage.ui]) as endpoint:
        yield endpoint


@pytest.fixture
async def run(stage: DeskServer, tmp_path: Path, request: pytest.FixtureRequest) -> ObservedRun:
    """An encrypted run that waits for people."""
    run = await stage.start(request.node.name[:40], tmp_path / "shop")
    await run.waits_for(REFUND, CANCEL)
    return run


async def failed(stage: DeskServer, run_id: str) -> ObservedRun:
    """A run that ends with a message, which has the name that was asked for."""
    handle = await stage.client.start_workflow(
        names.AGENT_WORKFLOW, {"agent": "nowhere"}, id=run_id, task_queue=names.TASK_QUEUE
    )
    with pytest.raises(Exception, match="Workflow execution failed"):
        await handle.result()
    return ObservedRun(handle)


class SentPage:
    """All that a page is sent, in the clear and out of its base64."""

    def __init__(self, page: Page) -> None:
        self._bodies: list[asyncio.Task[str]] = []
        page.on("response", lambda answer: self._take(answer))

    def _take(self, answer: Response) -> None:
        if "/api/" in answer.url:
            self._bodies.append(asyncio.create_task(_text(answer)))

    async def text(self) -> str:
        """It, as one text."""
        texts = await asyncio.gather(*self._bodies)
        return "\n".join(part for text in texts for part in (text, *_out_of_base64(text)))


async def _text(answer: Response) -> str:
    try:
        return await answer.text()
    except Error:  # the page was left, and did not wait for it
        return ""


def _out_of_base64(text: str) -> Iterator[str]:
    for found in IN_BASE64.findall(text):
        with suppress(binascii.Error):
            yield base64.b64decode(found, validate=True).decode("utf-8", "replace")


async def shown(page: Page) -> str:
    """All that a person sees of a page, its frames included."""
    texts = [await page.locator("body").inner_text()]
    for frame in page.frames[1:]:
        with suppress(Error):  # it makes way for another
            texts.append(await frame.locator("body").inner_text())
    return "\n".join(texts)


async def test_without_the_endpoint_no_word_of_it_is_readable(
    stage: DeskServer, run: ObservedRun
) -> None:
    ended = await failed(stage, f"{run.id}-failed")
    seen = []
    async with stage.page() as page:
        sent = SentPage(page)
        for one, tab, there in (
            (run, "timeline", "resolve_agent"),
            (run, "history", "Workflow Execution Started"),
            (run, "user-metadata", "No summary available"),
            (run, "memo", "Memo"),
            (ended, "timeline", "Encoded failure"),
        ):
            address = f"{stage.ui}/namespaces/default/workflows/{one.id}/{one.handle.result_run_id}"
            await page.goto(f"{address}/{tab}")
            await expect(page.get_by_text(there).first).to_be_visible()
            seen.append(await shown(page))
        received = await sent.text()
    assert "binary/encrypted" in received
    assert "generate" in seen[0]
    for word in WORDS:
        assert word not in received, word
        assert not [text for text in seen if word in text], word


async def test_with_the_endpoint_the_page_shows_all_of_it_and_takes_a_decision(
    stage: DeskServer, endpoint: Served, run: ObservedRun, tmp_path: Path
) -> None:
    async with reading(stage, endpoint), stage.visitor(run) as visitor:
        waits = "Turn 3: decision needed (see User Metadata): Refund an order: order_id=1042"
        labels = await visitor.timeline(waits)
        assert any(label.startswith("search_orders • Turn 1: Search orders") for label in labels)
        assert any(label.startswith(waits) for label in labels)
        await expect(visitor.page.get_by_text("cracked water tank").first).to_be_visible()
        details = await visitor.details()
        assert (await visitor.summary()).strip() == SUMMARY
        assert f"holdfast decide {run.id} t3c1 approve" in details
        assert "Why, in the model" in details
        refund, _ = decisions(details)
        await visitor.send("Send an Update", "decide", refund)
        await run.waits_for(CANCEL)
        await _decide(run, "t3c2", "deny", reason="It left the house.")
        await run.waits_for(MAIL)
        await _decide(run, "t4c1", "approve")
        result = await run.handle.result()
        await visitor.timeline()
        await expect(visitor.page.get_by_text(result["output"][:40]).first).to_be_visible()
        assert "denied by grace (unverified)" in await visitor.details()
    assert shop.deeds(tmp_path / "shop")
    assert await _updates_are_encrypted(run)


async def _decide(run: ObservedRun, call: str, decision: str, **more: str) -> None:
    said = {"callId": call, "decision": decision, "by": "grace", **more}
    await run.handle.execute_update(names.DECIDE, said)


async def _updates_are_encrypted(run: ObservedRun) -> bool:
    accepted = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED
    found = [
        payload.metadata["encoding"]
        async for event in run.handle.fetch_history_events()
        if event.event_type == accepted
        for payload in (
            event.workflow_execution_update_accepted_event_attributes.accepted_request.input.args
        ).payloads
    ]
    return len(found) == 3 and set(found) == {b"binary/encrypted"}
