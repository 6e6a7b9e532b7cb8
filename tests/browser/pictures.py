"""`python -m tests.browser.pictures`: take the pictures of the README, in `docs/images`.

waiting.png: the current details of a run that waits for approval.
decided.png: the timeline of the same run, decided and done.
inbox-call.png, inbox-plan.png: a call in the inbox, and a plan on a phone.
encrypted.png, decrypted.png: an encrypted run, without the codec endpoint and with it.
"""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from playwright.async_api import FloatRect, Locator

from holdfast.hosting.process_exit import exit_process
from holdfast.runtime.data_converter import data_converter, with_encryption
from holdfast.runtime.encryption.codec import EncryptionCodec
from tests.browser.stage import DeskServer, ObservedRun, Visitor, reading, staged
from tests.encryption.keys import NEW, ring
from tests.support.inbox import inbox
from tests.web.codec.serving import served

IMAGES = Path(__file__).parents[2] / "docs" / "images"
_PLANS = Path(__file__).parents[2] / "examples" / "refund_plan"
# A person thinks for so long, or a wait is too short to be seen in the timeline.
_THINKING_SECONDS = 3
_SCALE = 1.1
_MARGIN = 16
_HEIGHT = 2000


async def main() -> None:
    """Take them all."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        async with staged(Path(folder), scale=_SCALE) as stage:
            run = await stage.start("ada-1042", Path(folder) / "shop")
            async with stage.visitor(run) as visitor:
                await _waiting(run, visitor)
                await _decided(run, visitor)
    with tempfile.TemporaryDirectory() as folder:
        await _encrypted(Path(folder))
    await _inbox()


async def _inbox() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with staged(Path(folder), scale=1.4) as stage:
            ada = {"id": "Ada Lovelace"}
            run = await stage.start("ada-1042", Path(folder) / "shop", principal=ada)
            await run.waits_for("refund_order", "cancel_shipment")
            await _page_of_call(stage, run, "t3c1", "inbox-call.png", (860, 890))
    with tempfile.TemporaryDirectory() as folder:
        async with staged(Path(folder), scale=1.25, catalog=_PLANS) as stage:
            run = await stage.start("broken", Path(folder) / "shop", agent="cashier")
            await run.waits_for("plan")
            await _page_of_call(stage, run, "t1-plan", "inbox-plan.png", (390, 844))


async def _page_of_call(
    stage: DeskServer, run: ObservedRun, call: str, name: str, size: tuple[int, int]
) -> None:
    async with inbox(stage.client, by="Maria Keller") as served, stage.page() as page:
        await page.context.add_cookies(served.cookies())
        await page.set_viewport_size({"width": size[0], "height": size[1]})
        await page.goto(f"{served.address}/waiting/{run.id}/{call}")
        await page.screenshot(path=IMAGES / name)


async def _waiting(run: ObservedRun, visitor: Visitor) -> None:
    await run.waits_for("refund_order", "cancel_shipment")
    # So narrow, the UI puts the details below the summary, and a line of them is a line.
    await visitor.page.set_viewport_size({"width": 1000, "height": _HEIGHT})
    await visitor.details()
    frame = visitor.page.locator("iframe").last.content_frame
    second = frame.get_by_role("heading", name="Cancel a shipment")
    tabs = visitor.page.get_by_role("tab").first
    await _picture(visitor, "waiting.png", tabs, await _top(second) - _MARGIN)


async def _decided(run: ObservedRun, visitor: Visitor) -> None:
    await asyncio.sleep(_THINKING_SECONDS)
    await _decide(run, "t3c1", "approve")
    await asyncio.sleep(_THINKING_SECONDS)
    await _decide(run, "t3c2", "deny", reason="It is on its way already.")
    await run.waits_for("send_mail")
    await asyncio.sleep(_THINKING_SECONDS)
    await _decide(run, "t4c1", "approve")
    await run.handle.result()
    await visitor.page.set_viewport_size({"width": 1600, "height": _HEIGHT})
    await visitor.timeline()
    title = visitor.page.get_by_role("heading", name=run.id)
    started = visitor.page.get_by_text("resolve_agent")
    await _picture(visitor, "decided.png", title, await _top(started) + 6 * _MARGIN)


async def _decide(run: ObservedRun, call: str, decision: str, **more: Any) -> None:
    said = {"callId": call, "decision": decision, "by": "grace", **more}
    await run.handle.execute_update("decide", said)


async def _encrypted(folder: Path) -> None:
    keys = ring(NEW)
    converter = with_encryption(data_converter, keys)
    async with (
        staged(folder, scale=_SCALE, converter=converter) as stage,
        served(EncryptionCodec(keys), origins=[stage.ui]) as endpoint,
    ):
        run = await stage.start("ada-1042", folder / "shop")
        await run.waits_for("refund_order", "cancel_shipment")
        async with stage.visitor(run) as visitor:
            await visitor.opened("timeline")
            await _overview(visitor, "encrypted.png")
        async with reading(stage, endpoint), stage.visitor(run) as visitor:
            await visitor.timeline()
            await _overview(visitor, "decrypted.png")


async def _overview(visitor: Visitor, name: str) -> None:
    """The run's input and its timeline."""
    await visitor.page.set_viewport_size({"width": 1200, "height": _HEIGHT})
    started = visitor.page.get_by_text("resolve_agent").first
    await started.wait_for()
    await asyncio.sleep(_THINKING_SECONDS)  # the timeline grows into its new place
    label = visitor.page.get_by_text("Input", exact=True).filter(visible=True).first
    await _picture(visitor, name, label, await _top(started) + 2 * _MARGIN)


async def _picture(visitor: Visitor, name: str, first: Locator, bottom: float) -> None:
    """The run's own part of the page, from an element down to `bottom`."""
    tabs = await visitor.page.get_by_role("tab").first.bounding_box()
    size = visitor.page.viewport_size
    assert tabs is not None
    assert size is not None
    left, top = tabs["x"] - _MARGIN, await _top(first) - _MARGIN / 2
    clip = FloatRect(x=left, y=top, width=size["width"] - left, height=bottom - top)
    await visitor.page.screenshot(path=IMAGES / name, clip=clip)
    print(f"{IMAGES / name}: {(IMAGES / name).stat().st_size // 1000} KB")


async def _top(element: Locator) -> float:
    box = await element.bounding_box()
    assert box is not None
    return float(box["y"])


if __name__ == "__main__":
    asyncio.run(main())
    exit_process(0)
