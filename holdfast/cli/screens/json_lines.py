"""A run as one JSON object a line, for programs.

`holdfast run` begins with `{"type": "run", "run": ID}`. Then come the frames of the run as the HTTP
API sends them (`client.stream.frames`): its events, with `token`, `tool_call_delta` and
`tool_update` between them, and last either `done` or `error`. An output that is a reference to the
worker's store is whole in `done`, where it is available.
"""

from typing import Any, TextIO

from holdfast.cli.screens.console import unread_output
from holdfast.client.run import Run
from holdfast.client.stream.deltas import Frame, StreamCursor
from holdfast.client.stream.frames import frames
from holdfast.client.stream.run_watch import MAX_LOST_LOOKS
from holdfast.runtime.text_safety import as_json


async def print_json_lines(run: Run, stream: TextIO) -> int:
    """Print a run to its end, without notes for people; return the exit code.

    Raises:
        HoldfastError: there is no such run, Temporal does not answer for a minute, or the output of
            the run is not available; all other lines are printed before.
    """
    last = dict[str, Any]()
    await run.observe()  # a run that cannot be reached at first is an error at once
    async for each in frames(run, StreamCursor(), most_lost=MAX_LOST_LOOKS):
        if isinstance(each, Frame):
            last = each.data
            if each.type not in ("done", "error"):
                print(as_json(last), file=stream, flush=True)
    ending = await run.ending(unread=unread_output(run.id))
    print(as_json(ending.whole(last)), file=stream, flush=True)
    if ending.output_error is not None:
        raise ending.output_error
    return ending.exit_code
