"""Namespaces of their own, for tests that list runs: there are none of other tests."""

import uuid

from google.protobuf.duration_pb2 import Duration
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError

from tests.support.eventually import eventually


async def new_namespace(client: Client, name: str | None = None) -> Client:
    """Return a client of a new namespace, which has no search attributes yet."""
    name = name or f"test-{uuid.uuid4().hex[:8]}"
    day = Duration(seconds=86_400)
    request = RegisterNamespaceRequest(namespace=name, workflow_execution_retention_period=day)
    await client.workflow_service.register_namespace(request)
    inside = Client(**client.config() | {"namespace": name})

    async def is_known() -> bool:
        try:
            return await inside.count_workflows("") is not None
        except RPCError:
            return False

    await eventually(is_known)
    return inside
