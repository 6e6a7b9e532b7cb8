"""The activity `find_signals`: when Temporal received signals that a run reads late."""

from datetime import UTC
from typing import Any

from temporalio import activity
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryReverseRequest
from temporalio.client import Client
from temporalio.common import RawValue

from holdfast.schemas import names
from holdfast.schemas.base import sha256
from holdfast.schemas.decision import ReceivedSignals


@activity.defn(name=names.FIND_SIGNALS)
async def find_signals(asked: dict[str, Any]) -> dict[str, str]:
    """Return the time of each of the `ReceivedSignals` that the history holds, by its number.

    A history is read from its end, and no further than the signals can be.
    """
    wanted = ReceivedSignals.read(asked)
    found = await _events(activity.client(), activity.info().workflow_id or "", wanted)
    times = {}
    for number, digest in wanted.digests.items():
        event = found[number - 1] if number <= len(found) else None
        if event is None:
            continue
        payloads = event.workflow_execution_signaled_event_attributes.input.payloads[:1]
        values = await activity.client().data_converter.decode(payloads, [RawValue])
        if digest == (sha256(values[0].payload.data) if values else ""):
            times[str(number)] = event.event_time.ToDatetime(UTC).isoformat()
    return times


async def _events(client: Client, workflow_id: str, wanted: ReceivedSignals) -> list[HistoryEvent]:
    request = GetWorkflowExecutionHistoryReverseRequest(
        namespace=client.namespace,
        execution=WorkflowExecution(workflow_id=workflow_id, run_id=wanted.run_id),
    )
    found: list[HistoryEvent] = []
    while True:
        page = await client.workflow_service.get_workflow_execution_history_reverse(
            request, retry=True
        )
        for event in page.history.events:
            if event.event_id <= wanted.after:
                return found[::-1]
            signal = event.workflow_execution_signaled_event_attributes
            if signal.signal_name == wanted.name:
                found.append(event)
        request.next_page_token = page.next_page_token
        if not page.next_page_token:
            return found[::-1]
