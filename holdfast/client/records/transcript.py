"""The request of a run that continues the transcript of a run that has ended."""

from collections.abc import Mapping
from typing import Any, Final

from holdfast.client.errors import wrong_command
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.run_lists import RunListing
from holdfast.runtime.text_safety import holdfast_command
from holdfast.schemas import names
from holdfast.schemas.base import json_size
from holdfast.schemas.log_entry import read_record, transcript

# Temporal takes two megabytes, of which the rest of the request needs a part.
MAX_TRANSCRIPT_BYTES: Final = 1_500_000


async def continue_run(
    client: HoldfastClient, run_id: str, fields: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the fields of a request, with the transcript of a run before their own `context`.

    Where they name no agent, the request has that of the run, and its skill.

    Raises:
        HoldfastError: the run does not exist, is not over, does not answer, or is too long.
    """
    run = client.run(run_id)
    listing = RunListing.of(await run.describe())
    if listing.single:
        todo = f"see {holdfast_command('show', run_id)}"
        raise wrong_command(f"{run_id} is a single call, which cannot be continued", todo)
    if not (await run.observe()).closed:
        todo = f"send it a message: {holdfast_command('send', run_id)} TEXT --steer"
        raise wrong_command(f"run {run_id} has not ended", todo)
    entries = [entry async for entry in run.entries(names.CONTEXT)]
    earlier = transcript([read_record(entry) for entry in entries], has_input="input" in fields)
    context = [*(message.to_json() for message in earlier), *fields.get("context", ())]
    # A message that is too large for a page is not whole.
    lost = sum(entry.get("cut", 0) for entry in entries if entry["type"] == "message")
    size = json_size(context) + lost
    if size > MAX_TRANSCRIPT_BYTES:
        todo = f"at most {MAX_TRANSCRIPT_BYTES}: start a run with a summary as its input"
        raise wrong_command(f"the transcript of run {run_id} has {size} bytes", todo)
    if "agent" in fields:
        return {**fields, "context": context}
    agent, skill = listing.agent, (await run.status()).skill
    if agent in (None, names.UNNAMED_AGENT):
        todo = f"name one: {holdfast_command('run', 'AGENT', '--continue', run_id)}"
        raise wrong_command(f"run {run_id} has no agent of a catalog", todo)
    return {"agent": agent, **({"skill": skill} if skill else {}), **fields, "context": context}
