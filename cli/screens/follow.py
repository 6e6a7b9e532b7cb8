"""Following a run: what happens is drawn as it happens, and people are asked there and then.

    async def follow(
        client: Client,
        run_id: str,
        *,
        out: Screen,
        ask: Answers | None = None,
        keep_following: bool = True,
    ) -> int

`out` is where the run is drawn: `screen_for(sys.stdout, run_id)`. `ask` is who answers for its
pending approvals: `ScriptedAnswers.from_stdin()` (a terminal, or a pipe whose lines answer the
questions in order), or `None` for no questions. When the answers end, the way to decide is said,
and then `keep_following` says whether the run is followed on or left waiting. The result is the
exit
code: 0 for a run that completed or stopped, 1 for any other end and for a run that was left
waiting.

Temporal is looked at as often as `client.stream.polling` says; the run itself is asked only when it
has moved.
"""

import asyncio
from dataclasses import dataclass, field
from math import inf
from time import monotonic
from typing import Any, Final

from temporalio.client import Client

from holdfast.cli.prompts.answers import AnswerSource
from holdfast.cli.prompts.question_loop import ApprovalPrompts
from holdfast.cli.screens.screen import Screen
from holdfast.client.command_errors import RUN_FAILED, UNREACHABLE, CommandError, EncryptedError
from holdfast.client.run_handle import RunDescription, RunHandle, delegate_approvals
from holdfast.client.stream.frames import SLOWEST_SECONDS, PollInterval
from holdfast.runtime.text_safety import clean, holdfast_command
from holdfast.schemas.decision import PendingApproval

# Less than that is no wait to speak of: any request is handed out first.
_IN_LINE_SECONDS: Final = 1.0
# Each look is retried by the SDK for ten seconds before it counts as one of these.
MAX_LOST_LOOKS: Final = 6


async def follow(
    client: Client,
    run_id: str,
    *,
    out: Screen,
    ask: AnswerSource | None = None,
    keep_following: bool = True,
) -> int:
    """Follow a run to its end; see the top of this module.

    Raises:
        CommandError: there is no such run, Temporal does not answer for a minute, or the output of
            the run cannot be had, which was drawn to its end then.
    """
    run = RunHandle(client, run_id)
    await run.observe()  # what cannot be reached at first is not waited for
    with out.live():
        return await RunFollower(run, out, ApprovalPrompts(run, out, ask), keep_following).follow()


@dataclass
class Line:
    """Reports each request that waits for its rate limit, once."""

    request: str | None = None
    told_from: float = 0

    def waits_long(self, request: str | None) -> bool:
        """Return whether this request waits long enough to report it now."""
        now = monotonic()
        if request != self.request:
            self.request, self.told_from = request, now + _IN_LINE_SECONDS
        long = request is not None and now >= self.told_from
        if long:
            self.told_from = inf
        return long


@dataclass
class RunFollower:
    """Follows one run.

    `_seen` is the position up to which it was drawn, `_last` the number of the last entry.
    """

    run: RunHandle
    screen: Screen
    people: ApprovalPrompts
    keep_following: bool
    _pace: PollInterval = field(default_factory=PollInterval)
    _line: Line = field(default_factory=Line)
    _seen: tuple[object, ...] = ()
    _last: int = 0
    _waiting: list[PendingApproval] = field(default_factory=list)
    _silent: bool = False
    _listens: bool = False

    async def follow(self) -> int:
        """Look, draw and ask until the run has ended or is left."""
        while True:
            look = await self.observe()
            moved = await self._catch_up(look)
            if look.closed:
                return await self._end()
            # Where something was drawn, the message may be in it that the heartbeat was part of.
            self.screen.show_answer(None if moved else look.streaming)
            if self._line.waits_long(look.queued_request):
                self.screen.show_queued()
            answered = await self.people.ask_new(self._waiting)
            if not answered and not self.keep_following:
                self.screen.print_note(f"To come back: {holdfast_command('watch', self.run.id)}")
                return RUN_FAILED
            moved = moved or look.streaming is not None
            await asyncio.sleep(self._pace.next(moved=moved, busy=look.busy))

    async def observe(self) -> RunDescription:
        """Observe the run, also across a short loss of Temporal."""
        for _ in range(MAX_LOST_LOOKS - 1):
            try:
                return await self.run.observe()
            except CommandError as error:
                if error.code != UNREACHABLE:
                    raise
                self.screen.print_note(f"{clean(str(error))}; still trying")
                await asyncio.sleep(SLOWEST_SECONDS)
        return await self.run.observe()

    async def _catch_up(self, look: RunDescription) -> bool:
        """Draw what was written since the last time; whether there was anything."""
        if look.position == self._seen:
            return False
        before = self._last
        try:
            await self._draw(look)
        except EncryptedError:
            raise  # it is permanent
        except CommandError as error:
            self._tell_silence(error)
        else:
            self._silent, self._seen = False, look.position
        return self._last > before

    async def _draw(self, look: RunDescription) -> None:
        # Pending approvals are read first, so that all that led to them is drawn before the
        # question.
        status = {} if look.closed else await self._see_what_waits()
        async for entry in self.run.entries(self.screen.log, self._last):
            self._last = entry["n"]
            self.screen.show_entry(entry)
        self.people.show_delegate_approvals(delegate_approvals(status))
        self._tell_listening(status.get("status") == "awaiting_message")

    async def _see_what_waits(self) -> dict[str, Any]:
        """Read the stages of the calls and the pending approvals; return the status of the run."""
        status = await self.run.status()
        self.screen.show_calls(status.get("calls") or [])
        self._waiting = await self.run.pending_approvals() if status.get("pending") else []
        return status

    def _tell_listening(self, listens: bool) -> None:
        if listens and not self._listens:
            self.screen.print_note(
                f"It waits for a message: {holdfast_command('send', self.run.id)} TEXT"
            )
        self._listens = listens

    def _tell_silence(self, error: CommandError) -> None:
        """Say once that the run does not answer; it is asked again at every look."""
        if not self._silent:
            self.screen.print_note(clean(str(error)))
        self._silent = True

    async def _end(self) -> int:
        ending = await self.run.ending()
        self.screen.show_ending(ending)
        if ending.output_error is not None:
            raise ending.output_error
        return ending.exit_code
