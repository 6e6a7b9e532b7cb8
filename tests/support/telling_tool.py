"""A tool that tells how far it has got. Like any module of tools it imports nothing of ours."""

import asyncio
import os
import time
from pathlib import Path

from pydantic import BaseModel, ConfigDict
from temporalio import activity

MAX_WAIT_SECONDS = 25


class Telling(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={"_activity": {"startToCloseTimeout": "30s", "heartbeatTimeout": "5s"}}
    )
    steps: int


@activity.defn
async def telling(arguments: Telling) -> str:
    """Tell of the first step, and wait until the ledger says `open telling`."""
    ledger, until = Path(os.environ["HOLDFAST_TEST_LEDGER"]), time.monotonic() + MAX_WAIT_SECONDS
    while time.monotonic() < until:
        activity.heartbeat({"step": 1, "of": arguments.steps})
        if ledger.exists() and "open telling" in ledger.read_text():
            return "told"
        await asyncio.sleep(0.02)
    raise TimeoutError
