"""A browser, windows of it in which a person who is signed in looks at an inbox, and axe-core."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any

from axe_playwright_python.base import AXE_SCRIPT
from playwright.async_api import Browser, ConsoleMessage, Page, ViewportSize, async_playwright

from tests.browser.stage import CHROMIUM
from tests.support.inbox import HOST, Stage

DESKTOP = ViewportSize(width=1280, height=900)
PHONE = ViewportSize(width=390, height=844)
# It runs as root, and needs nothing but the inbox.
_OPTIONS = [
    *("--no-sandbox", "--no-first-run", "--disable-sync", "--disable-background-networking"),
    f"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE {HOST}",
]

# All rules, those of good practice too; what axe cannot judge is not counted. A theme has colours.
_ALL_RULES = "axe.run(document, {resultTypes: ['violations']})"
_COLOURS = "axe.run(document, {resultTypes: ['violations'], runOnly: ['color-contrast']})"
_IS_DARK = "matchMedia('(prefers-color-scheme: dark)').matches"
_MAX_PLACES = 5
# What a browser sends to a page whose tab is left, or opened again.
SEEN = """
(seen) => {
  Object.defineProperty(document, "hidden", {get: () => !seen, configurable: true});
  document.dispatchEvent(new Event("visibilitychange"));
}
"""


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """A browser."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=_OPTIONS)
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def window(
    browser: Browser,
    stage: Stage,
    size: ViewportSize = DESKTOP,
    *,
    dark: bool = False,
    scripts: bool = True,
    refused: Collection[int] = (),
    timezone: str | None = None,
) -> AsyncIterator[Page]:
    """A window of a person who is signed in; nothing on its pages may go wrong. `refused` are the
    statuses of answers that a person sees as such: a browser notes each in its console."""
    context = await browser.new_context(
        viewport=size,
        color_scheme="dark" if dark else "light",
        java_script_enabled=scripts,
        timezone_id=timezone,
        base_url=stage.address,
    )
    await context.add_cookies(stage.cookies())
    page, wrong = await context.new_page(), list[str]()
    page.on("pageerror", lambda error: wrong.append(str(error)))
    noted = [f"with a status of {status} " for status in refused]

    def note(said: ConsoleMessage) -> None:
        if said.type == "error" and not any(known in said.text for known in noted):
            wrong.append(said.text)

    page.on("console", note)
    try:
        yield page
    finally:
        await context.close()
    assert not wrong, wrong


async def check(page: Page) -> None:
    """See that axe-core finds nothing on a page as it stands, in the light and in the dark.

    Raises:
        AssertionError: it finds something; the message has what, and where.
    """
    await page.wait_for_load_state()  # elements of a new page are there before its style is
    # Through the browser's own debugger, which the page's security policy does not hold back.
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(AXE_SCRIPT)
    found: list[dict[str, Any]] = (await page.evaluate(_ALL_RULES))["violations"]
    is_dark = await page.evaluate(_IS_DARK)
    await page.emulate_media(color_scheme="light" if is_dark else "dark")
    found += (await page.evaluate(_COLOURS))["violations"]
    await page.emulate_media(color_scheme="dark" if is_dark else "light")
    assert not found, f"{page.url}\n" + "\n".join(map(_described, found))


def _described(violation: dict[str, Any]) -> str:
    places = [f"    {', '.join(map(str, node['target']))}" for node in violation["nodes"]]
    return "\n".join([f"  {violation['id']}: {violation['help']}", *places[:_MAX_PLACES]])


async def fits(page: Page) -> bool:
    """Whether nothing of a page is beyond its right edge."""
    await page.wait_for_load_state()
    wide: bool = await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    return wide


async def fits_wide_and_narrow(page: Page) -> bool:
    """Whether a page fits at a desk, and then on a phone, where it stays."""
    found = []
    for size in (DESKTOP, PHONE):
        await page.set_viewport_size(size)
        found.append(await fits(page))
    return all(found)
