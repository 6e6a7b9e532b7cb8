"""What tests in a browser share with those that need none: an inbox, and runs that wait."""

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser

from tests.browser.window import chromium
from tests.web.conftest import crowd, patience, stage

__all__ = ["crowd", "patience", "stage"]


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    """One browser for the tests of a module."""
    async with chromium() as made:
        yield made
