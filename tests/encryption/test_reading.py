"""What a reader of all of Temporal has without a key: nothing that a run is about (§13)."""

import json
import re
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import Message
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.client import (
    Client,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateStage,
)
from temporalio.exceptions import ApplicationError

from tests.encryption.reader import Reader, plain, texts
from tests.support.backend import Launch, Run
from tests.support.eventually import eventually
from tests.support.model_server import Answer, call
from tests.workflows.commands.test_child_workflows import waits

WORD = "heliotrope"
ASK = {
    "_tool": "ask",
    "description": f"Have the helper do it: {WORD}.",
    "properties": {"task": {"type": "string"}},
    "_delegate": "helper",
}
QUERIES = ("status", "approvals", "context", "events", "state", "__temporal_workflow_metadata")


@pytest.fixture
def reader(client: Client) -> Reader:
    return Reader(client)


def scripted(turn: int, body: dict[str, Any]) -> Answer:
    """A model that uses everything, in five turns, and its helper, which pays."""
    if body["messages"][0]["content"].startswith("helper"):
        return Answer(calls=[call("pay", amount=5)]) if turn == 1 else Answer(f"{WORD}, paid")
    turns = [
        Answer(
            f"I {WORD}",
            calls=[
                call("echo", text=WORD, _reasoningForCall=WORD),
                call("look_up", id=7),
                call("quick", text=WORD),
                call("quick", text=""),
                call("raises"),
            ],
        ),
        Answer(calls=[call("pay", amount=77), call("ask", task=WORD)]),
        Answer(f"done: {WORD}"),
        Answer(f"again: {WORD}", hold=HELD),
    ]
    return turns[min(turn, len(turns)) - 1]


ACCEPTED = WorkflowUpdateStage.ACCEPTED
HELD = threading.Event()
# What tools, tests and models write in a run; the engine's own words are in the list as well.
CONTENT = (WORD, "item 7", "the stock is empty", "there is no text", "too much", "service desk")
# And what is no content: Temporal's names, ours, those of tools, and the types of errors.
PLAIN = {
    *("AgentWorkflow", "generate", "decide", "send", "message", "close", "delegate_waits"),
    *("echo", "look_up", "raises", "pay", "core_local_activity"),
    *("Encoded failure", "ValueError", "StopRun", "NotFoundError", "result_too_large"),
    *("default", "history-service", "temporal-python", "request-from-RespondWorkflowTaskCompleted"),
}
LOOKS_LIKE_AN_ID = re.compile(
    r"^[\d.]+$|^[0-9a-f]{32}$|[0-9a-f]{8}-|@|^(run|queue)-|^t\dc\d$|^turn \d$"
)


@pytest.fixture
async def run(launch: Launch, tmp_path: Path) -> AsyncIterator[Run]:
    """A conversation in which everything has happened that a run can do; it is being answered."""
    HELD.clear()
    helper = {"model": {"endpoint": "fake", "name": "fake"}, "instructions": f"helper {WORD}"}
    (tmp_path / "catalog/agents").mkdir(parents=True)
    (tmp_path / "catalog/agents/helper.json").write_text(json.dumps({**helper, "tools": ["pay"]}))
    backend = await launch(scripted, catalog=tmp_path / "catalog", continue_after=40)
    run = await backend.start(
        ["echo", "look_up", "quick", "raises", "pay", ASK],
        agent={"instructions": f"the service desk of {WORD}"},
        input=f"the {WORD}",
        state={"colour": WORD},
        conversation=True,
        principal={"id": "ann", "scopes": [WORD]},
    )
    await run.waiting()
    await run.handle.signal("message", {"content": f"by the way, {WORD}"})
    await run.decide("t2c1", "deny", reason=f"too much {WORD}", by="bob")
    await waits(run.delegate("t2c2"))
    await run.delegate("t2c2").decide("t1c1", "approve", reason=WORD)
    await eventually(lambda: idle(run))
    answering = await run.handle.start_update(
        "send", {"content": f"and {WORD}?"}, wait_for_stage=ACCEPTED
    )
    yield run
    HELD.set()
    await answering.result()
    await run.handle.signal("close")
    await run.result()


async def everything(reader: Reader, run: Run) -> list[Message]:
    """All that Temporal has of a run and its delegate, and all that they answer."""
    both = {run.id, run.delegate("t2c2").id}

    async def listed() -> list[WorkflowExecutionInfo] | None:
        runs = await reader.runs(run.id)
        return runs if both <= {one.execution.workflow_id for one in runs} else None

    runs = await eventually(listed)
    found: list[Message] = [*runs]
    for one in runs:
        id, each = one.execution.workflow_id, one.execution.run_id
        found += [await reader.described(id, each), *await reader.history(id, each)]
    found += [await reader.answer(run.id, query) for query in QUERIES]
    return found


async def idle(run: Run) -> bool:
    """Whether the run waits for a message."""
    return bool((await run.status())["status"] == "awaiting_message")


async def beating(reader: Reader, run: Run) -> bool:
    """Whether the model's words are in the heartbeat of the request."""
    activities = (await reader.described(run.id)).pending_activities
    return any(one.heartbeat_details.payloads for one in activities)


async def test_without_a_key_only_ids_names_and_codes_are_readable(
    run: Run, reader: Reader
) -> None:
    await eventually(lambda: beating(reader, run))
    found = await everything(reader, run)
    # What Temporal's SDK writes of local activities: id, type and times.
    of_sdk = ("marker_recorded_event_attributes", "details", "payloads")
    assert {place for each in found for place in plain(each)} <= {of_sdk}
    for each in found:
        assert not [word for word in CONTENT if word.encode() in each.SerializeToString()]
    said = {text for each in found for text in texts(each) if not LOOKS_LIKE_AN_ID.search(text)}
    assert said - PLAIN == set()


async def test_a_refusal_is_sent_to_its_client_alone(launch: Launch, reader: Reader) -> None:
    backend = await launch([Answer(calls=[call("pay", amount=5)]), Answer("done")])
    run = await backend.start(["pay"])
    await run.waiting()
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await run.decide("t1c1", "edit", arguments={"amount": WORD})
    assert isinstance(refused.value.cause, ApplicationError)
    assert (refused.value.cause.type, WORD in refused.value.cause.message) == (
        "invalid_decision",
        True,
    )
    with pytest.raises(WorkflowQueryFailedError) as unanswered:
        await run.handle.query("context", {"after": WORD})
    assert str(unanswered.value) == "Encoded failure"
    await run.decide("t1c1", "deny")
    await run.result()
    assert not plain((await reader.history(run.id))[-1])
