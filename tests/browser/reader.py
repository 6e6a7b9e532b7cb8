"""Somebody who may read encrypted runs, and has told Temporal's UI so."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Page, expect

from tests.browser.stage import Stage
from tests.web.codec.serving import SECRET, Served


@asynccontextmanager
async def reading(stage: Stage, endpoint: Served) -> AsyncIterator[Page]:
    """A person signs in at the endpoint, and tells the UI of it."""
    async with stage.page() as page:
        await page.goto(endpoint.address)
        await page.get_by_label("Secret").fill(SECRET)
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_role("heading", name="You are signed in")).to_be_visible()
        await page.goto(stage.ui)
        await page.get_by_role("button", name="Configure Codec Server").click()
        dialog = page.get_by_role("dialog").filter(visible=True)
        await dialog.get_by_text("Use my browser setting").click()
        await dialog.get_by_role("textbox").fill(endpoint.address)
        await dialog.get_by_text("Include cross-origin credentials").click()
        await dialog.get_by_role("button", name="Apply").click()
        await expect(dialog).to_be_hidden()
        yield page
        # The windows of one browser share both.
        await page.evaluate("localStorage.clear()")
        await page.context.clear_cookies()
