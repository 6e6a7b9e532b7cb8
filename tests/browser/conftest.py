"""What tests in a browser share with those that need none: an inbox, and runs that wait."""

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser

from tests.browser.window import chromium
from tests.web.conftest import crowd, patience, stage

__all__ = ["crowd", "patience", "stage"]


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    """One browser for the session: each window has a context of its own."""
    async with chromium() as made:
        yield made
