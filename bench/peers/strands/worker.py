"""Strands Agents on Temporal, with the tool as an activity, as its integration has it."""

import asyncio
import os
import sys
from datetime import timedelta

from strands.models.openai import OpenAIModel
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.strands_agents import StrandsPlugin, TemporalAgent
from temporalio.strands_agents.workflow import activity_as_tool
from temporalio.worker import Worker

ONE_MINUTE = timedelta(minutes=1)


@activity.defn
async def read_record(name: str, size: int) -> str:
    """Read a record."""
    return (f"record {name}: " + "lorem ipsum " * size)[:size]


@workflow.defn
class RecordsWorkflow:
    """Reads records until the model is done."""

    def __init__(self) -> None:
        self.agent = TemporalAgent(
            model="fake",
            system_prompt="You read records.",
            start_to_close_timeout=ONE_MINUTE,
            tools=[activity_as_tool(read_record, start_to_close_timeout=ONE_MINUTE)],
            # Else it prints what the model says, which a worker has no use for.
            callback_handler=None,
        )

    @workflow.run
    async def run(self, prompt: str) -> str:
        """The model's last text."""
        return str(await self.agent.invoke_async(prompt))


def model() -> OpenAIModel:
    """Where the model is stands in the environment; Temporal repeats what fails."""
    return OpenAIModel(model_id="fake", client_args={"max_retries": 0})


PLUGINS = [StrandsPlugin(models={"fake": model})]
REPLAYED = {"workflows": [RecordsWorkflow], "plugins": PLUGINS}


async def main(queue: str) -> None:
    """Work until the process is ended."""
    client = await Client.connect(os.environ["TEMPORAL_ADDRESS"])
    async with Worker(
        client,
        task_queue=queue,
        workflows=[RecordsWorkflow],
        activities=[read_record],
        plugins=PLUGINS,
    ):
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
