"""What the tests of the pages share."""

import uuid
from datetime import timedelta

import pytest
from google.protobuf.duration_pb2 import Duration
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client

from tests.support.eventually import eventually


@pytest.fixture
async def namespace(client: Client) -> Client:
    """A client of a new namespace: a test has its runs and its task queue to itself."""
    name = f"docs-{uuid.uuid4().hex[:8]}"
    kept = Duration()
    kept.FromTimedelta(timedelta(days=1))
    request = RegisterNamespaceRequest(namespace=name, workflow_execution_retention_period=kept)
    await client.workflow_service.register_namespace(request)
    address = client.service_client.config.target_host

    async def there() -> Client | None:
        try:
            made = await Client.connect(address, namespace=name)
            async for _ in made.list_workflows(limit=1):
                pass
        except Exception:
            return None
        return made

    return await eventually(there)
