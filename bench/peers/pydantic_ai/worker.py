"""Pydantic AI with its Temporal durability, which continues as new when Temporal suggests it."""

import asyncio
import os
import sys

from pydantic_ai import Agent, ModelMessage, RunContext, RunUsage, UsageLimits
from pydantic_ai.durable_exec.temporal import (
    PydanticAIPlugin,
    PydanticAIWorkflow,
    TemporalDurability,
)
from pydantic_ai.models.openai import OpenAIChatModel
from temporalio import workflow
from temporalio.client import Client
from temporalio.worker import Worker


def go_on(context: RunContext[None]) -> None:
    """Continue as new, with the conversation so far."""
    workflow.continue_as_new(args=[None, context.messages, context.usage])


agent = Agent(
    OpenAIChatModel("fake"),
    name="bench",
    instructions="You read records.",
    capabilities=[TemporalDurability(continue_as_new=go_on)],
)


@agent.tool_plain
async def read_record(name: str, size: int) -> str:
    """Read a record."""
    return (f"record {name}: " + "lorem ipsum " * size)[:size]


@workflow.defn
class RecordsWorkflow(PydanticAIWorkflow):
    """Reads records until the model is done."""

    __pydantic_ai_agents__ = [agent]

    @workflow.run
    async def run(
        self,
        prompt: str | None,
        messages: list[ModelMessage] | None = None,
        usage: RunUsage | None = None,
    ) -> str:
        """The model's last text."""
        limits = UsageLimits(request_limit=None)
        result = await agent.run(prompt, message_history=messages, usage=usage, usage_limits=limits)
        return result.output


PLUGINS = [PydanticAIPlugin()]
REPLAYED = {"workflows": [RecordsWorkflow], "plugins": PLUGINS}


async def main(queue: str) -> None:
    """Work until the process is ended."""
    client = await Client.connect(os.environ["TEMPORAL_ADDRESS"], plugins=PLUGINS)
    async with Worker(client, task_queue=queue, workflows=[RecordsWorkflow]):
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
