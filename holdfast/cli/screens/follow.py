"""Follow a run: draw its events as they happen, and ask people for decisions meanwhile.

The run itself is queried only when a look at it shows progress. For programs, a run is one JSON
object a line. `holdfast run` begins with `{"type": "run", "run": ID}`. Then come the frames of the
run as the HTTP API sends them (`client.stream.run_feed`): its events, with `token`,
`tool_call_delta` and `tool_update` between them, and last either `done` or `error`. An output that
is a reference to the worker's store is whole in `done`, where it is available.
"""

from contextlib import aclosing
from math import inf
from time import monotonic
from typing import Any, Final, TextIO

from holdfast.cli.prompts.answers import AnswerSource
from holdfast.cli.prompts.question_loop import ApprovalPrompts
from holdfast.cli.screens.console import is_terminal, unread_output
from holdfast.cli.screens.live import LiveScreen
from holdfast.cli.screens.plain import PlainScreen
from holdfast.client import errors
from holdfast.client.run import Run
from holdfast.client.stream.run_feed import Frame, RunFeed
from holdfast.client.stream.run_watch import MAX_LOST_LOOKS, RunDescription
from holdfast.runtime.narration.phrases import QUEUED_FOR_MODEL
from holdfast.runtime.text_safety import as_json, clean, holdfast_command
from holdfast.schemas import names
from holdfast.schemas.decision import PendingApproval

# A shorter wait is not reported: every request is handed out first.
_QUEUED_SECONDS: Final = 1.0
# A busy worker is reported after this time: longer than a workflow task that times out and is
# repeated, and the query before.
_BUSY_SECONDS: Final = 30.0


def screen_for(stream: TextIO, run_id: str) -> PlainScreen:
    return LiveScreen(stream, run_id) if is_terminal(stream) else PlainScreen(stream, run_id)


async def follow(run: Run, *, out: PlainScreen, ask: AnswerSource | None = None) -> int:
    """Follow a run to its end; with `ask`, ask for decisions. Return the exit code.

    The code is 0 for a run that completed or stopped, 1 for any other end and for a run that was
    left waiting.

    Raises:
        HoldfastError: there is no such run, Temporal does not answer for a minute, or the output of
            the run is not available; the run is drawn to its end before.
    """
    await run.observe()  # a run that cannot be reached at first is an error at once
    with out.live():
        return await RunFollower(run, out, ApprovalPrompts(run, out, ask)).follow()


async def print_json_lines(run: Run, stream: TextIO) -> int:
    """Print a run to its end, without notes for people; return the exit code.

    Raises:
        HoldfastError: there is no such run, Temporal does not answer for a minute, or the output of
            the run is not available; all other lines are printed before.
    """
    last = dict[str, Any]()
    await run.observe()  # a run that cannot be reached at first is an error at once
    async for each in RunFeed(run, most_lost=MAX_LOST_LOOKS).frames():
        if isinstance(each, Frame):
            last = each.data
            if each.type not in ("done", "error"):
                print(as_json(last), file=stream, flush=True)
    ending = await run.ending(unread=unread_output(run.id))
    print(as_json(ending.whole(last)), file=stream, flush=True)
    if ending.output_error is not None:
        raise ending.output_error
    return ending.exit_code


class RunFollower:
    """Follows one run."""

    def __init__(self, run: Run, screen: PlainScreen, people: ApprovalPrompts) -> None:
        self.run, self.screen, self.people = run, screen, people
        self._feed = RunFeed(run)
        self._last_entry = 0
        self._waiting: list[PendingApproval] = []
        # 0: the run answers; infinite: it is reported that it does not.
        self._silent_since = 0.0
        self._takes_messages = False

    async def follow(self) -> int:
        """Draw and ask until the run has ended or is left."""
        queued: str | None = None
        report_at = inf
        async with aclosing(self.run.looks(MAX_LOST_LOOKS)) as looks:
            while True:
                look, before = await anext(looks), self._last_entry
                if isinstance(look, errors.HoldfastError):
                    if look.exit_code != errors.UNREACHABLE:
                        raise look
                    self.screen.print_note(f"{clean(str(look))}; still trying")
                    continue
                if self._feed.has_moved(look):
                    await self._catch_up(look)
                if look.closed:
                    ending = await self.run.ending(unread=unread_output(self.run.id))
                    self.screen.show_ending(ending)
                    if ending.output_error is not None:
                        raise ending.output_error
                    return ending.exit_code
                # New entries may have the message that the heartbeat was part of.
                has_moved = self._last_entry > before
                self.screen.activity.show_answer(None if has_moved else look.streaming)
                if look.queued_request != queued:
                    queued, report_at = look.queued_request, monotonic() + _QUEUED_SECONDS
                if queued is not None and monotonic() >= report_at:
                    self.screen.print_waiting(QUEUED_FOR_MODEL)
                    report_at = inf
                self.screen.show_failing(look.failing)
                if not await self.people.ask_new(self._waiting):
                    again = holdfast_command("watch", self.run.id)
                    self.screen.print_note(f"To follow it again: {again}")
                    return errors.RUN_FAILED

    async def _catch_up(self, look: RunDescription) -> None:
        """Draw the entries since the last time; report once that the run does not answer."""
        try:
            # Pending approvals are read first, so that everything that led to them is drawn before
            # the question.
            status = None
            if not look.closed:
                status = await self.run.status()
                self.screen.activity.show_calls(status.calls)
                self._waiting = [*await self.run.approvals()] if status.pending else []
            # An approval may have been requested since the status was read.
            last = inf if status is None or status.pending else status.log.entries
            async for entry in self.run.entries(names.CONTEXT, self._last_entry, last):
                self._last_entry = entry["n"]
                self.screen.show_entry(entry)
        except errors.EncryptedError:
            raise  # it is permanent
        except errors.HoldfastError as error:
            self._silent_since = self._silent_since or monotonic()
            wait_seconds = _BUSY_SECONDS if isinstance(error, errors.BusyWorkerError) else 0
            if monotonic() >= self._silent_since + wait_seconds:
                self.screen.print_note(clean(str(error)))
                self._silent_since = inf
            return
        self._silent_since = 0.0
        self._feed.has_read(look)
        self.people.show_delegate_approvals(status.delegate_approvals if status else [])
        takes_messages = status is not None and status.status == "awaiting_message"
        if takes_messages and not self._takes_messages:
            self.screen.print_note(
                f"It waits for a message: {holdfast_command('send', self.run.id)} TEXT"
            )
        self._takes_messages = takes_messages
