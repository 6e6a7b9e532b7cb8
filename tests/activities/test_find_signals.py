"""Signals are found by their place in the history, and only with the bytes that a run received."""

import uuid
from dataclasses import replace

from temporalio.client import Client
from temporalio.testing import ActivityEnvironment

from holdfast.activities.find_signals import find_signals
from holdfast.schemas.base import sha256


async def test_a_signal_is_the_one_at_its_place_with_its_payload(client: Client) -> None:
    queue = f"nobody-{uuid.uuid4().hex[:8]}"
    handle = await client.start_workflow("AgentWorkflow", {}, id=queue, task_queue=queue)
    sent = [{"callId": "t1c1", "decision": each} for each in ("approve", "deny", "approve")]
    for decision in sent:
        await handle.signal("message", "hello")
        await handle.signal("approve", decision)
    events = [event async for event in handle.fetch_history_events()]
    await handle.terminate()
    received = [
        (event, event.workflow_execution_signaled_event_attributes)
        for event in events
        if event.HasField("workflow_execution_signaled_event_attributes")
    ]
    approvals = [(event, found) for event, found in received if found.signal_name == "approve"]
    digests = [sha256(found.input.payloads[0].data) for _, found in approvals]
    environment = ActivityEnvironment(client=client)
    environment.info = replace(environment.info, workflow_id=queue)

    async def found(after: int, **wanted: str) -> list[str]:
        asked = {"runId": handle.first_execution_run_id, "name": "approve", "after": after}
        by_number = {name.removeprefix("n"): digest for name, digest in wanted.items()}
        return [*await environment.run(find_signals, {**asked, "digests": by_number})]

    assert await found(0, n1=digests[0], n2=digests[1], n3=digests[2]) == ["1", "2", "3"]
    assert await found(0, n1=digests[1], n2=digests[1], n4=digests[0]) == ["2"]
    assert await found(approvals[0][0].event_id, n1=digests[0], n2=digests[2]) == ["2"]
