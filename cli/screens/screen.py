"""Where a run is drawn: what every screen can do, and which screen fits an output.

A terminal gets a live display, anything else plain lines, and a program one JSON object a line.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TextIO

from holdfast.cli.screens.console import is_terminal
from holdfast.cli.screens.json_lines import JsonScreen
from holdfast.cli.screens.live import LiveScreen
from holdfast.cli.screens.plain import PlainScreen
from holdfast.client.result import RunEnding
from holdfast.client.run_handle import AnswerProgress
from holdfast.schemas.decision import PendingApproval
from holdfast.schemas.internal.delegate import DelegatePending


class Screen(Protocol):
    """Draws what happens in one run. Use `live()` around everything that is drawn."""

    @property
    def log(self) -> str:
        """Which of the run's logs it draws: `context` or `events`."""

    def live(self) -> AbstractContextManager[None]:
        """The time in which the run is drawn."""

    def show_entry(self, entry: Mapping[str, Any]) -> None:
        """Draw an entry of the log."""

    def show_answer(self, streaming: AnswerProgress | None) -> None:
        """Draw what the model has said so far; `None` when none is answering."""

    def show_calls(self, calls: Sequence[Mapping[str, Any]]) -> None:
        """Show where the calls of the turn stand: `{callId, tool, stage}`; none between turns."""

    def show_approval(self, waiting: PendingApproval, *, asked: bool) -> None:
        """Draw a pending approval and how to decide it.

        With `asked`, the person in front of the screen is asked next.
        """

    def show_delegate_approvals(self, new: list[DelegatePending], *, waits: bool) -> None:
        """Draw the new pending approvals of delegates, and how to decide them.

        With `waits`, there are some now, new or not.
        """

    def show_queued(self) -> None:
        """Draw that a request has to wait for its turn at the model."""

    def print_note(self, text: str) -> None:
        """Tell the person something that is not from the run; `text` is safe to print."""

    def pause_for_input(self) -> AbstractContextManager[None]:
        """The time in which the person types: nothing moves meanwhile."""

    def prompt(self, text: str) -> None:
        """Show what is asked, and stay on the line."""

    def show_ending(self, ending: RunEnding) -> None:
        """Draw how the run ended."""


def screen_for(stream: TextIO, run_id: str, *, as_json: bool = False) -> Screen:
    """The screen that fits the stream."""
    if as_json:
        return JsonScreen(stream)
    if is_terminal(stream):
        return LiveScreen(stream, run_id)
    return PlainScreen(stream, run_id)
