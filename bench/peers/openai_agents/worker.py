"""The OpenAI Agents SDK on Temporal, with the tool as an activity, as its integration has it."""

import asyncio
import os
import sys
from datetime import timedelta

from agents import Agent, Runner, set_default_openai_api, set_tracing_disabled
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.openai_agents import ModelActivityParameters, OpenAIAgentsPlugin
from temporalio.openai_agents.workflow import activity_as_tool
from temporalio.worker import Worker

ONE_MINUTE = timedelta(minutes=1)


@activity.defn
async def read_record(name: str, size: int) -> str:
    """Read a record."""
    return (f"record {name}: " + "lorem ipsum " * size)[:size]


@workflow.defn
class RecordsWorkflow:
    """Reads records until the model is done."""

    @workflow.run
    async def run(self, prompt: str, max_turns: int) -> str:
        """The model's last text."""
        agent = Agent(
            name="bench",
            instructions="You read records.",
            model="fake",
            tools=[activity_as_tool(read_record, start_to_close_timeout=ONE_MINUTE)],
        )
        result = await Runner.run(agent, input=prompt, max_turns=max_turns)
        return str(result.final_output)


PLUGINS = [
    OpenAIAgentsPlugin(model_params=ModelActivityParameters(start_to_close_timeout=ONE_MINUTE))
]
REPLAYED = {"workflows": [RecordsWorkflow], "plugins": PLUGINS}


async def main(queue: str) -> None:
    """Work until the process is ended."""
    set_default_openai_api("chat_completions")
    # Traces would go to OpenAI itself.
    set_tracing_disabled(True)
    client = await Client.connect(os.environ["TEMPORAL_ADDRESS"], plugins=PLUGINS)
    async with Worker(
        client, task_queue=queue, workflows=[RecordsWorkflow], activities=[read_record]
    ):
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
