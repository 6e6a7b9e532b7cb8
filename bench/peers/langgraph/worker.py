"""The worker of the graph. Its nodes must stand in a module that can be imported."""

import asyncio
import os
import sys

from records import RecordsWorkflow, build_graph
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.langgraph import LangGraphPlugin
from temporalio.worker import Worker

PLUGINS = [LangGraphPlugin(graphs={"records": build_graph()})]
REPLAYED = {
    "workflows": [RecordsWorkflow],
    "plugins": PLUGINS,
    "data_converter": pydantic_data_converter,
}


async def main(queue: str) -> None:
    """Work until the process is ended."""
    address = os.environ["TEMPORAL_ADDRESS"]
    client = await Client.connect(address, data_converter=pydantic_data_converter)
    async with Worker(client, task_queue=queue, workflows=[RecordsWorkflow], plugins=PLUGINS):
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
