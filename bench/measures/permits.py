"""What permits add to a history: the same run on a worker without and with `--permits`.

The tool may run once, so that its result is signed, too. The run continues as new halfway.
"""

import base64
import json
import os
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

from bench.programs.our_worker import at_work
from tests.support.model_server import Answer, call, serve

CALLS = 8
ACTIVITY = "read_record"
CONTINUE_AFTER = 30
TOOL = {
    "_tool": "pay",
    "description": "Pay.",
    "properties": {"name": {"type": "string"}},
    "_activity": ACTIVITY,
    "_sideEffects": True,
    "_approval": {"require": "never"},
}
AGENT = {
    "name": "payer",
    "instructions": "Pay.",
    "model": {"endpoint": "fake", "name": "fake"},
    "tools": [TOOL],
    "budget": {"maxTurns": 2 * CALLS, "maxIterations": 2 * CALLS},
}
# The events that have a permit.
TITLES = {
    EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED: "an activity of a tool is scheduled",
    EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED: "an activity of a tool has completed",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW: "a run continues as new",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED: "the next execution has started",
}

# Without the state that they pass on: its times compress to more or fewer bytes in each run.
WITH_STATE = list(TITLES)[2:]


async def table(client: Client) -> str:
    """The figures as a Markdown table: the size of the same event without and with permits."""
    without, signed = await measure(client)
    rows = ["| event | bytes | with permits | added |", "| --- | ---: | ---: | ---: |"]
    for kind, title in TITLES.items():
        added = signed[kind] - without[kind]
        title += ", without its state" if kind in WITH_STATE else ""
        rows.append(f"| {title} | {without[kind]} | {signed[kind]} | {added} |")
    return "\n".join(rows)


async def measure(client: Client) -> list[dict[int, int]]:
    """The size of an event by its type, without and with permits."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "permit.key").write_bytes(base64.b64encode(os.urandom(32)))
        keys = Path(folder) / "permits.yaml"
        keys.write_text(json.dumps({"keys": [{"id": "bench", "file": "permit.key"}]}))
        return [await _sizes(client), await _sizes(client, permits=keys)]


async def _sizes(client: Client, **settings: Any) -> dict[int, int]:
    def answer(turn: int, _: dict[str, Any]) -> Answer:
        calls = [call("pay", name="record")] if turn <= CALLS else []
        return Answer("" if calls else "Paid.", calls=calls)

    sizes: defaultdict[int, int] = defaultdict(int)
    with serve(answer) as model:
        async with at_work(client, model.url, continue_after=CONTINUE_AFTER, **settings) as queue:
            request = {"agent": AGENT, "input": "Pay."}
            run = await client.start_workflow(
                "AgentWorkflow", request, id=queue.replace("bench", "run"), task_queue=queue
            )
            await run.result()
            first: str | None = run.first_execution_run_id
            while first:
                one = client.get_workflow_handle(run.id, run_id=first)
                events = [event async for event in one.fetch_history_events()]
                _add(sizes, events)
                left = events[-1].workflow_execution_continued_as_new_event_attributes
                first = left.new_execution_run_id
    return dict(sizes)


def _add(sizes: dict[int, int], events: Sequence[HistoryEvent]) -> None:
    """Note the size of the last event of each kind; of activities, of those of the tool."""
    of_tool = {
        event.event_id
        for event in events
        if event.activity_task_scheduled_event_attributes.activity_type.name == ACTIVITY
    }
    for event in events:
        completed = event.activity_task_completed_event_attributes.scheduled_event_id
        is_activity = "ACTIVITY_TASK" in EventType.Name(event.event_type)
        if not is_activity or {event.event_id, completed} & of_tool:
            attributes = getattr(event, str(event.WhichOneof("attributes")))
            if event.event_type in WITH_STATE:
                attributes.ClearField("input")
            sizes[event.event_type] = attributes.ByteSize()
