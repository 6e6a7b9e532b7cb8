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
    """Tell of the first step, and wait until the ledger says `open telling`; each `step telling` in
    it is one step more."""
    ledger, until = Path(os.environ["HOLDFAST_TEST_LEDGER"]), time.monotonic() + MAX_WAIT_SECONDS
    while time.monotonic() < until:
        written = ledger.read_text() if ledger.exists() else ""
        activity.heartbeat({"step": 1 + written.count("step telling"), "of": arguments.steps})
        if "open telling" in written:
            return "told"
        await asyncio.sleep(0.02)
    raise TimeoutError
