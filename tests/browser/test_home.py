"""The home page in a browser: wide and light, narrow and dark, and without scripts."""

import pytest
from playwright.async_api import Browser, expect

from tests.browser.window import DESKTOP, PHONE, check, fits, window
from tests.client.crowd import Asks, Crowd
from tests.support.inbox import Stage

pytestmark = pytest.mark.browser


async def test_charts_are_tables_that_lead_to_their_runs(
    browser: Browser, stage: Stage, crowd: Crowd
) -> None:
    await crowd.start([Asks("new"), Asks("newer")])
    for size, dark in ((DESKTOP, False), (PHONE, True)):
        async with window(browser, stage, size, dark=dark) as page:
            await page.goto("/home")
            await expect(page.get_by_role("table")).not_to_have_count(0)
            assert await fits(page)
            await check(page)
    async with window(browser, stage, scripts=False) as page:
        await page.goto("/home")
        row = page.get_by_role("row").filter(has_text="under 1 hour")
        bar = await row.locator("rect").bounding_box()
        assert bar is not None
        assert bar["width"] > 1, "it is drawn"
        await row.get_by_role("link").click()
        await expect(page.get_by_text(crowd.id("newer"))).not_to_have_count(0)
