"""`python -m tests.browser.pictures`: make the README's pictures of a run in Temporal's UI anew."""

import asyncio
import tempfile
from pathlib import Path

from hosting.stopping import leave
from tests.browser.stage import Run, Stage, Visitor, staged

IMAGES = Path(__file__).parents[2] / "docs" / "images"
CANCEL, MAIL, REFUND = "cancel_shipment", "send_mail", "refund_order"


async def main() -> None:
    """A run that waits, and the same when everything is decided."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        async with staged(Path(folder)) as stage:
            run = await stage.start("ada-1042", Path(folder) / "shop")
            await _waiting(stage, run)
            await _decide(run)
            await _decided(stage, run)


async def _waiting(stage: Stage, run: Run) -> None:
    await run.waits_for(REFUND, CANCEL)
    async with stage.visitor(run) as visitor:
        await visitor.details()
        await _picture(visitor, "waiting")


async def _decide(run: Run) -> None:
    for call, decision in (("t3c1", "approve"), ("t3c2", "deny")):
        said = {"callId": call, "decision": decision, "by": "grace", "reason": "It has left."}
        await run.handle.execute_update("decide", said)
    await run.waits_for(MAIL)
    await run.handle.execute_update("decide", {"callId": "t4c1", "decision": "approve"})
    await run.handle.result()


async def _decided(stage: Stage, run: Run) -> None:
    async with stage.visitor(run) as visitor:
        await visitor.timeline()
        await _picture(visitor, "decided")


async def _picture(visitor: Visitor, name: str) -> None:
    await visitor.page.evaluate("document.fonts.ready")
    await visitor.page.screenshot(path=IMAGES / f"{name}.png")


if __name__ == "__main__":
    asyncio.run(main())
    leave(0)
