"""The transcript of a run that has ended, as the `context` of a run that continues it.

It holds what the model would read next: the newest summary, if there is one, and the messages after
it. A call without a result, such as one of a terminated run, gets an error as its result.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from holdfast.client.errors import wrong_command
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.client.run_lists import RunListing
from holdfast.runtime.text_safety import holdfast_command
from holdfast.schemas import names
from holdfast.schemas.base import json_size, readable_json
from holdfast.schemas.log_entry import LogRecord, MessageEntry, SummaryEntry, read_record
from holdfast.schemas.message import (
    ChatMessage,
    Content,
    ContextMessage,
    DataPart,
    EarlierCall,
    TextPart,
)

# Temporal takes two megabytes, of which the rest of the request needs a part.
MAX_TRANSCRIPT_BYTES: Final = 1_500_000
_NO_RESULT: Final = "the run ended before its result; whether it took effect is unknown"


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


def transcript(records: Sequence[LogRecord], *, has_input: bool) -> list[ContextMessage]:
    """Return the messages of a run's log, each call before its result.

    With `has_input`, the request has an input of its own: the run's is then a text.
    """
    summaries = [one.entry for one in records if isinstance(one.entry, SummaryEntry)]
    since = summaries[-1].upto if summaries else 0
    messages = [ContextMessage(content=one.text) for one in summaries[-1:]]
    said = [
        one.entry.message
        for one in records
        if isinstance(one.entry, MessageEntry) and one.n > since
    ]
    results = {message.call_id: message for message in said if message.role == "tool"}
    for message in said:
        if message.role == "tool" or not (message.content or message.calls):
            continue
        calls = [
            EarlierCall(id=call.id, tool=call.tool, arguments=call.arguments)
            for call in message.calls
        ]
        messages.append(
            ContextMessage(
                role="assistant" if calls else message.role,
                content=_content(message, has_input=has_input),
                calls=calls,
            )
        )
        for call in calls:
            result = results.get(call.id)
            messages.append(
                ContextMessage(
                    role="tool",
                    call_id=call.id,
                    content=_NO_RESULT if result is None else result.content,
                    is_error=result is None or result.is_error,
                )
            )
    return messages


def _content(message: ChatMessage, *, has_input: bool) -> Content:
    content = message.content if message.said is None else message.said
    if isinstance(content, str) or not has_input:
        return content
    return [
        TextPart(text=f"input: {readable_json(part.data)}")
        if isinstance(part, DataPart) and part.kind == "input"
        else part
        for part in content
    ]
