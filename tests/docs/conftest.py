"""What the tests of the pages share."""

import pytest
from temporalio.client import Client

from tests.support.namespaces import new_namespace


@pytest.fixture
async def namespace(client: Client) -> Client:
    """A client of a new namespace: a test has its runs and its task queue to itself."""
    return await new_namespace(client)
