"""Whether everybody can use a page: axe-core looks at it, and finds nothing."""

from typing import Any

from axe_playwright_python.base import AXE_SCRIPT
from playwright.async_api import Page

# All rules, those of good practice too; what axe cannot tell for itself is not counted.
_RUN = "axe.run(document, {resultTypes: ['violations']})"
_MAX_PLACES = 5


async def check(page: Page) -> None:
    """See that axe-core finds nothing on a page as it stands.

    Raises:
        AssertionError: it finds something; the message says what, and where.
    """
    # Through the browser's own debugger, which the page's security policy does not hold back.
    await page.evaluate(AXE_SCRIPT)
    found: list[dict[str, Any]] = (await page.evaluate(_RUN))["violations"]
    assert not found, f"{page.url}\n" + "\n".join(map(_told, found))


def _told(violation: dict[str, Any]) -> str:
    places = [f"    {', '.join(map(str, node['target']))}" for node in violation["nodes"]]
    return "\n".join([f"  {violation['id']}: {violation['help']}", *places[:_MAX_PLACES]])
