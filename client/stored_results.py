"""What a run has in the worker's store, for whoever is shown the run.

A screen is shown how it begins; a pipe or a file gets all of it, or whoever asked an error. Where
the store is, is read from `HOLDFAST_STORE`, as the worker reads it; that of `--dev` is found in the
folder where it was started.
"""

import os
import sys
from dataclasses import replace
from typing import Any

from temporalio.converter import DataConverter

from holdfast.client.command_errors import RUN_FAILED, CommandError
from holdfast.client.result import RunEnding
from holdfast.runtime.storage.locations import VARIABLE, open_store_at, reader_store_location
from holdfast.runtime.storage.store import StoreError, read_stored_value
from holdfast.runtime.text_safety import holdfast_command
from holdfast.schemas.internal.stored_value import Stored


def in_brief(ending: RunEnding) -> RunEnding:
    """The end of a run, with how its output begins where that is kept elsewhere."""
    stored = None if ending.result is None else Stored.of(ending.result.output)
    return ending if stored is None else replace(ending, told=_told(stored, "not read here"))


async def with_output(ending: RunEnding, run_id: str, converter: DataConverter) -> RunEnding:
    """The end of a run, with its output in the place of what stands for it in the run."""
    stored = None if ending.result is None else Stored.of(ending.result.output)
    if ending.result is None or stored is None:
        return ending
    if sys.stdout.isatty():
        all_of_it = f"all of them: {holdfast_command('watch', run_id)} | cat"
        return replace(ending, told=_told(stored, all_of_it))
    try:
        output = await _fetched(stored, converter)
    except StoreError as error:
        told = _told(stored, f"they cannot be had: {error}")
        wrong = f"the output of run {run_id} cannot be had: {error.wrong}"
        return replace(ending, told=told, lacking=CommandError(wrong, error.todo, RUN_FAILED))
    return replace(ending, result=ending.result.model_copy(update={"output": output}))


async def _fetched(stored: Stored, converter: DataConverter) -> Any:
    place = reader_store_location(os.environ)
    if place is None:
        todo = f"set {VARIABLE} to the `--store` of its worker"
        raise StoreError("it is in its worker's store, and none is known here", todo)
    async with open_store_at(place, writing=False) as store:
        return await read_stored_value(store, stored.sha256, converter)


def _told(stored: Stored, how: str) -> str:
    size = f"{stored.size_bytes:,} bytes, kept outside of Temporal"
    return f"{size} ({how}), begin:\n{stored.beginning}"
