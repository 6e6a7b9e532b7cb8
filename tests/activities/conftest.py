"""Fixtures of the tests of activities."""

from collections.abc import AsyncIterator

import httpx
import pytest

from holdfast.catalog.endpoints import http_client
from tests.catalog.conftest import folder as folder
from tests.catalog.conftest import shop as shop


@pytest.fixture(scope="module")
async def http() -> AsyncIterator[httpx.AsyncClient]:
    """The HTTP client of a worker."""
    async with http_client() as found:
        yield found
