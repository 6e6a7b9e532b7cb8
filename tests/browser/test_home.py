"""The home page in a browser: wide and narrow, and without scripts."""

import pytest
from playwright.async_api import Browser, expect

from tests.browser.window import check, fits_wide_and_narrow, window
from tests.client.crowd import Asks, Crowd
from tests.support.inbox import Stage

pytestmark = pytest.mark.browser


async def test_charts_are_tables_that_lead_to_their_runs(
    browser: Browser, stage: Stage, crowd: Crowd
) -> None:
    await crowd.start([Asks("new"), Asks("newer")])
    async with window(browser, stage) as page:
        await page.goto("/home")
        await expect(page.get_by_role("table")).not_to_have_count(0)
        assert await fits_wide_and_narrow(page)
        await check(page)
    async with window(browser, stage, scripts=False) as page:
        await page.goto("/home")
        row = page.get_by_role("row").filter(has_text="under 1 hour")
        bar = await row.locator("rect").bounding_box()
        assert bar is not None
        assert bar["width"] > 1, "it is drawn"
        await row.get_by_role("link").click()
        await expect(page.get_by_text(crowd.id("newer"))).not_to_have_count(0)
