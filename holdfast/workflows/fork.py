"""The start of a fork: the run that it begins with is read, before anything of it happens.

The log is the result of an activity, in the fork's own history: a replay needs no other run.
"""

import asyncio
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy, SearchAttributeKey
from temporalio.exceptions import FailureError

with workflow.unsafe.imports_passed_through():
    from holdfast.schemas import names
    from holdfast.schemas.agent import WorkerFacts
    from holdfast.schemas.base import parse_duration
    from holdfast.schemas.run import Fork, RunRequest

from holdfast.workflows.engine.conversation.recorded_prefix import (
    CannotFork,
    PrefixPart,
    RecordedPrefix,
)
from holdfast.workflows.input import activity_failure, fail

# One attempt reads all pages; the worker of the other run may start meanwhile.
_START_TO_CLOSE = parse_duration("3m")
SCHEDULE_TO_CLOSE = parse_duration("10m")
_SOURCE = SearchAttributeKey.for_keyword(names.FORKED_FROM)
_RETRY = RetryPolicy(maximum_interval=parse_duration("15s"))


async def read_prefix(request: RunRequest, facts: WorkerFacts) -> RecordedPrefix | None:
    """Return what a fork begins with; None for any other run.

    Raises:
        ApplicationError: The other run cannot be read, or not by this principal.
    """
    if request.fork is None:
        return None
    # Without tokens, a principal is what the starter has written.
    reader = request.principal if facts.principal_tokens else None
    fork, args = request.fork, [reader and reader.to_json()]
    try:
        found = await _read(fork, *args)
        if "parts" in found:
            first = PrefixPart.read(found)
            whole = fork.model_copy(update={"turn": first.turn})
            parts = [await _read(whole, *args, n) for n in range(1, first.parts)]
            prefix = PrefixPart.join([first, *map(PrefixPart.read, parts)])
        else:
            prefix = RecordedPrefix.read(found)
    except FailureError as error:
        if workflow.cancellation_reason() is not None:
            raise asyncio.CancelledError from error
        fail(names.INVALID_REQUEST, f"`fork`: {activity_failure(error).message}")
    except CannotFork as error:
        fail(names.INVALID_REQUEST, f"`fork`: {error}")
    origin = fork.model_copy(update={"turn": prefix.turns})
    workflow.upsert_memo({names.FORKED_FROM: origin.to_json()})
    if prefix.is_listed:
        workflow.upsert_search_attributes([_SOURCE.value_set(fork.run)])
    return prefix


async def _read(fork: Fork, *more: Any) -> Any:
    return await workflow.execute_activity(
        names.READ_FORK,
        args=[fork.to_json(), *more],
        start_to_close_timeout=_START_TO_CLOSE,
        schedule_to_close_timeout=SCHEDULE_TO_CLOSE,
        retry_policy=_RETRY,
        summary=f"Reads the run that this one begins with: {fork.run}"[:200],
    )
