"""Who can read all that Temporal has, and has no key: every answer of its service, as it comes."""

from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from temporalio.api.common.v1 import Payload, WorkflowExecution
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.query.v1 import WorkflowQuery
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.api.workflowservice.v1 import (
    DescribeWorkflowExecutionRequest,
    DescribeWorkflowExecutionResponse,
    GetWorkflowExecutionHistoryRequest,
    ListWorkflowExecutionsRequest,
    QueryWorkflowRequest,
)
from temporalio.client import Client

# What Temporal itself writes and reads, in plain JSON.
OF_TEMPORAL = ("search_attributes", "header")
Place = tuple[str, ...]


class Reader:
    """A client without keys."""

    def __init__(self, client: Client) -> None:
        self._service = client.workflow_service
        self._namespace = client.namespace

    async def runs(self, id: str) -> list[WorkflowExecutionInfo]:
        """The list of all workflows whose ids begin so."""
        asked = ListWorkflowExecutionsRequest(
            namespace=self._namespace, query=f'WorkflowId STARTS_WITH "{id}"'
        )
        return list((await self._service.list_workflow_executions(asked)).executions)

    async def described(self, id: str, run: str = "") -> DescribeWorkflowExecutionResponse:
        """What Temporal shows of a workflow."""
        asked = DescribeWorkflowExecutionRequest(
            namespace=self._namespace, execution=WorkflowExecution(workflow_id=id, run_id=run)
        )
        return await self._service.describe_workflow_execution(asked)

    async def history(self, id: str, run: str = "") -> list[HistoryEvent]:
        """The events of a workflow."""
        asked = GetWorkflowExecutionHistoryRequest(
            namespace=self._namespace, execution=WorkflowExecution(workflow_id=id, run_id=run)
        )
        found: list[HistoryEvent] = []
        while True:
            page = await self._service.get_workflow_execution_history(asked)
            found += page.history.events
            if not page.next_page_token:
                return found
            asked.next_page_token = page.next_page_token

    async def answer(self, id: str, query: str) -> Message:
        """What a workflow answers to a query."""
        asked = QueryWorkflowRequest(
            namespace=self._namespace,
            execution=WorkflowExecution(workflow_id=id),
            query=WorkflowQuery(query_type=query),
        )
        return await self._service.query_workflow(asked)


def payloads(message: Message, place: Place = ()) -> Iterator[tuple[Place, Payload]]:
    """Every payload in a message, and where it stands."""
    if isinstance(message, Payload):
        yield place, message
        return
    for field, value in message.ListFields():
        for inner in _messages(field, value):
            yield from payloads(inner, (*place, field.name))


def plain(message: Message, encoding: bytes = b"binary/encrypted") -> list[Place]:
    """Where a payload stands that has not the encoding of a codec."""
    return [
        place
        for place, payload in payloads(message)
        if payload.metadata.get("encoding") != encoding and not set(place) & set(OF_TEMPORAL)
    ]


def texts(message: Message) -> Iterator[str]:
    """Every text in a message that is in no payload."""
    if isinstance(message, Payload):
        return
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_STRING:
            yield from [value] if isinstance(value, str) else map(str, value)
        for inner in _messages(field, value):
            yield from texts(inner)


def _messages(field: FieldDescriptor, value: Any) -> list[Message]:
    if field.type != FieldDescriptor.TYPE_MESSAGE:
        return []
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return [each for each in value.values() if isinstance(each, Message)]
    return [value] if isinstance(value, Message) else list(value)
