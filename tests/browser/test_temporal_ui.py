"""A run in Temporal's own UI, read and decided by a person who knows nothing of us.

Of the UI, these tests use what a person sees: its tabs, its buttons, its dialogs.
"""

import json
import os
import random
from collections import Counter
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pytest
from playwright.async_api import expect
from temporalio.api.enums.v1 import EventType

from examples.support_desk import shop
from holdfast.validation.text_safety import visible
from tests.browser.stage import SUMMARY, DeskServer, ObservedRun, decisions, staged
from tests.engine.driver import call
from tests.workflows.test_ui_details import HOSTILE, PAY, page, waiting

pytestmark = [pytest.mark.browser, pytest.mark.slow]

REFUND, CANCEL, MAIL = "refund_order", "cancel_shipment", "send_mail"


@pytest.fixture(scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[DeskServer]:
    """One server, worker and browser for all of them."""
    before = os.environ.get("SUPPORT_DESK_DIR")
    async with staged(tmp_path_factory.mktemp("temporal")) as stage:
        yield stage
    os.environ.pop("SUPPORT_DESK_DIR", None)
    if before is not None:
        os.environ["SUPPORT_DESK_DIR"] = before


@pytest.fixture
async def run(stage: DeskServer, tmp_path: Path, request: pytest.FixtureRequest) -> ObservedRun:
    """A run that waits for people."""
    run = await stage.start(request.node.name[:60], tmp_path / "shop")
    await run.waits_for(REFUND, CANCEL)
    return run


async def test_calls_are_decided_from_the_dialogs_with_the_data_on_the_page(
    stage: DeskServer, run: ObservedRun, tmp_path: Path
) -> None:
    before = await run.history_length()
    async with stage.visitor(run) as visitor:
        waits = "Turn 3: decision needed (see User Metadata): Refund an order: order_id=1042"
        assert any(label.startswith(waits) for label in await visitor.timeline(waits))
        details = await visitor.details()
        assert (await visitor.summary()).strip() == SUMMARY
        dialog = await visitor.dialog("Send an Update")
        await expect(dialog.get_by_role("option", name="decide")).to_contain_text(
            "Decide on an approval: an invalid decision is rejected. See User Metadata."
        )
        await visitor.leave(dialog)
        dialog = await visitor.dialog("Send a Signal")
        for name in ("approve", "message", "close"):
            said = await dialog.get_by_role("option", name=name).first.inner_text()
            assert len(said) > len(name) + 10
        await visitor.leave(dialog)
        refund, cancel = decisions(details)
        other = json.dumps(json.loads(refund) | {"digest": "0" * 64}, indent=2)
        dialog = await visitor.send("Send an Update", "decide", other)
        await expect(dialog).to_contain_text("is not that of the pending call as it waits now")
        assert await run.history_length() == before
        await dialog.get_by_role("button", name="Cancel").last.click()
        dialog = await visitor.send("Send an Update", "decide", refund)
        await expect(visitor.page.get_by_text("Update successful").first).to_be_visible()
        await expect(dialog).to_be_hidden()
        await run.waits_for(CANCEL)
        await visitor.send("Send a Signal", "approve", cancel.replace("approve", "deny"))
        await run.waits_for(MAIL)
        (mail,) = decisions(await visitor.details())
        await visitor.send("Send an Update", "decide", mail)
        assert (await run.handle.result())["status"] == "completed"
        after = await visitor.details()
        labels = await visitor.timeline("Refund an order, approved")
    lines = [line for line in details.split("\n") if line]
    assert lines[0].startswith("This run is the work of an AI agent, support_desk: “Answers cust")
    assert lines[2].startswith("Now: it waits for 2 decisions of a person.")
    assert "Approval needed: Refund an order (t3c1)" in details
    assert f"holdfast decide {run.id} t3c2 deny --reason 'YOUR REASON'" in details
    assert "generate • Turn 1: the model decides what to do (script)" in labels
    assert "search_orders • Turn 1: Search orders: customer=ada@example.com, limit=10" in labels
    approved = [label for label in labels if label.startswith("refund_order • ")]
    assert approved[0].startswith("refund_order • Turn 3: Refund an order, approved")
    assert "Now: it is done." in after
    assert "Refund an order (order_id=1042, amount=249.0," in after
    assert "Cancel a shipment (shipment_id=S-2057," in after
    assert "denied" in after
    what = [deed.what for deed in shop.deeds(tmp_path / "shop")]
    assert what == [
        "R-1: 249.00 for order 1042, arrived with a cracked water tank",
        "to ada@example.com: Your refund for order 1042",
    ]


async def test_every_activity_and_timer_has_a_summary_and_the_group_of_its_turn(
    run: ObservedRun,
) -> None:
    await _decide_all(run, by="grace")
    scheduled = {EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED, EventType.EVENT_TYPE_TIMER_STARTED}
    found = [e async for e in run.handle.fetch_history_events() if e.event_type in scheduled]
    assert len(found) == 14
    for event in found:
        said = json.loads(event.user_metadata.summary.data)
        (marker,) = event.event_group_markers
        assert said.startswith(f"T{marker.label.id[1:]}: ")


@pytest.mark.parametrize("text", HOSTILE)
async def test_the_ui_makes_nothing_but_text_of_what_a_model_writes(
    stage: DeskServer, text: str
) -> None:
    shown = await _rendered(stage, text)
    assert shown.tags == (await _rendered(stage, "harmless")).tags
    lines = [line.rstrip() for line in visible(text).split("\n") if line.strip()]
    assert [line for line in lines if line not in shown.code] == []


async def test_however_a_model_piles_up_marks_the_ui_makes_only_text_of_them(
    stage: DeskServer,
) -> None:
    pieces = [*'`*_[]()#-!|<>~^$&:\\"\n1a ', "```", "**", "](", "<b>"]
    pieces += ["http://", "&#42;", "{runId}"]
    chance = random.Random(1042)
    harmless = (await _rendered(stage, "harmless")).tags
    for _ in range(200):
        text = "".join(chance.choices(pieces, k=12))
        assert (await _rendered(stage, text)).tags == harmless, text


class _Rendered(HTMLParser):
    """What a renderer made of a page: how often each tag, and what is in code."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.code: list[str] = []
        self._in_code = False
        # A break in code is there for the UI's placeholders, and is none to the eye.
        self.feed(html.replace("</code><wbr><code>", ""))

    def handle_starttag(self, tag: str, attrs: object) -> None:
        """Count a tag; a text's own are how many lines it has, and a fraction's digits."""
        self.tags += Counter() if tag in ("br", "code", "sub", "sup") else Counter([tag])
        self._in_code = tag == "code"
        if self._in_code:
            self.code.append("")

    def handle_endtag(self, tag: str) -> None:
        """Code ends."""
        self._in_code = False

    def handle_data(self, data: str) -> None:
        """Take down what is in code."""
        if self._in_code:
            self.code[-1] += data


async def _rendered(stage: DeskServer, text: str) -> _Rendered:
    """What the UI makes of a page with the text everywhere where strangers can write."""
    pay = PAY.model_copy(update={"label": text})
    wanted = call("pay", {"a": text, f"b{text}": 1, "_reasoningForCall": text})
    written = text.replace("\ud800", "")
    play = waiting(
        wanted,
        tools=(pay,),
        input=written,
        principal={"id": written},
        definition={"description": written},
    )
    async with httpx.AsyncClient(base_url=stage.ui, verify=False) as http:
        answer = await http.get("/render", params={"content": page(play, written)})
    return _Rendered(answer.text.partition("<main>")[2].partition("</main>")[0])


async def _decide_all(run: ObservedRun, by: str) -> None:
    for tools in ((REFUND, CANCEL), (MAIL,)):
        for one in await run.waits_for(*tools):
            decision = {"callId": one["callId"], "decision": "approve", "by": by}
            await run.handle.execute_update("decide", decision)
    await run.handle.result()
