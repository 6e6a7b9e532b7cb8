"""The company's worker: `python -m tests.library.acme.worker ENDPOINTS TASK_QUEUE`."""

import asyncio
import sys
from pathlib import Path

from temporalio.client import Client
from temporalio.envconfig import ClientConfig
from temporalio.plugin import SimplePlugin
from temporalio.worker import Worker

from holdfast import HoldfastPlugin
from tests.library.acme.agents import support
from tests.library.acme.encoding import converter
from tests.library.acme.plugins import ACTIVITIES, WORKFLOWS, CompanyPlugin, openai_agents

DESK = Path(__file__).parent / "desk"
READY = "acme worker ready"


def plugins(endpoints: Path | None = None, *, is_first: bool = False) -> list[SimplePlugin]:
    """Return the company's plugins and that of Holdfast, which is the first or the last one."""
    holdfast = HoldfastPlugin(agents=[support], catalog=DESK, endpoints=endpoints)
    theirs: list[SimplePlugin] = [openai_agents(), CompanyPlugin()]
    return [holdfast, *theirs] if is_first else [*theirs, holdfast]


async def main(endpoints: str, task_queue: str) -> None:
    """Run the worker until it is killed."""
    client = await Client.connect(
        **ClientConfig.load_client_connect_config(),
        data_converter=converter,
        plugins=plugins(Path(endpoints)),
    )
    async with Worker(client, task_queue=task_queue, workflows=WORKFLOWS, activities=ACTIVITIES):
        print(READY, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
