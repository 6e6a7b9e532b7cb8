"""A worker whose model is real, if very small, and what is true of every run with it."""

import uuid
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from holdfast.schemas.names import GENERATE
from tests.support.backend import Run

ENDPOINT = "local"
# The same server, by Anthropic's format: llama.cpp has it as well.
MESSAGES_ENDPOINT = "local-messages"
TOOLS = ["search_orders", "look_up_order"]
ENDINGS = ("completed", "budget_exceeded")


class PlayedDesk:
    """A support desk that the small model plays. It can read orders and do nothing else."""

    def __init__(self, client: Client, task_queue: str) -> None:
        self.client = client
        self.task_queue = task_queue

    async def ask(
        self,
        text: str,
        *,
        model: dict[str, Any] | None = None,
        conversation: bool = False,
        **agent: Any,
    ) -> Run:
        """Start a run of an agent without tools; `agent` adds to its definition, `model` to its
        model's settings."""
        definition = {
            "name": "desk",
            "instructions": "You work at the support desk of a coffee shop. Be brief.",
            # What it costs to read the prompt, which is most of an answer, is what is saved here.
            "reasoningForCall": False,
            "budget": {"maxIterations": 2, "maxTurns": 4},
            **agent,
            "model": {
                "endpoint": ENDPOINT,
                "temperature": 0,
                "maxOutputTokens": 64,
                **(model or {}),
            },
        }
        handle = await self.client.start_workflow(
            "AgentWorkflow",
            {"agent": definition, "input": text, "conversation": conversation},
            id=f"model-{uuid.uuid4().hex[:12]}",
            task_queue=self.task_queue,
        )
        return Run(handle)


async def ended(run: Run) -> dict[str, Any]:
    """The result of a run, which ended as a run may whatever its model answered."""
    result = await run.result()
    assert result["status"] in ENDINGS
    told = await run.event_lines()
    assert told[-1] == "done"
    assert await refusals(run) == []
    asked = [
        call["id"] for message in await model_messages(run) for call in message.get("calls", [])
    ]
    assert list(await run.results()) == asked
    assert result["calls"] == len(asked)
    return result


async def model_messages(run: Run) -> list[dict[str, Any]]:
    """The messages that the model wrote."""
    messages = [entry["message"] for entry in await run.context() if entry["type"] == "message"]
    return [message for message in messages if message["role"] == "assistant"]


async def user_texts(run: Run) -> list[str]:
    """The texts that the model was sent as the user's."""
    messages = [entry["message"] for entry in await run.context() if entry["type"] == "message"]
    return [message.get("content", "") for message in messages if message["role"] == "user"]


async def refusals(run: Run) -> list[str]:
    """Why requests to the model were made again. This server refuses what it cannot read with
    500 however often it is asked, so a run that was answered in the end shows little."""
    history = await run.history()
    scheduled = {
        event.event_id: event.activity_task_scheduled_event_attributes.activity_type.name
        for event in history
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
    }
    started = [
        event.activity_task_started_event_attributes
        for event in history
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED
    ]
    return [
        each.last_failure.message
        for each in started
        if each.attempt > 1 and scheduled[each.scheduled_event_id] == GENERATE
    ]
