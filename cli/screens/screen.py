"""The interface of every screen that draws a run: `LiveScreen`, `PlainScreen`."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from holdfast.client.result import RunEnding
from holdfast.client.run_handle import AnswerProgress
from holdfast.schemas.decision import PendingApproval


class Screen:
    """Draws one run, within `live()`. A method that a screen does not override draws nothing."""

    @contextmanager
    def live(self) -> Iterator[None]:
        """Draw the run in the body of the `with` statement."""
        yield

    def show_entry(self, entry: Mapping[str, Any]) -> None:
        """Draw an entry of the log."""

    def show_answer(self, streaming: AnswerProgress | None) -> None:
        """Draw the partial answer of the model; `None` without one."""

    def show_calls(self, calls: Sequence[Mapping[str, Any]]) -> None:
        """Show the stages of the calls of the turn: `{callId, tool, stage}`; none between turns."""

    def show_approval(self, waiting: PendingApproval, *, asked: bool) -> None:
        """Draw a pending approval and how to decide it.

        With `asked`, the person in front of the screen is asked next.
        """

    def show_delegates_wait(self, waits: bool) -> None:
        """Show whether delegates have pending approvals."""

    def print_waiting(self, text: str) -> None:
        """Draw what the run waits for; `text` is safe to print."""

    def print_note(self, text: str) -> None:
        """Show a note for people that is not from the run; `text` is safe to print."""

    @contextmanager
    def pause_for_input(self) -> Iterator[None]:
        """Draw nothing while a person types, in the body of the `with` statement."""
        yield

    def prompt(self, text: str) -> None:
        """Show a prompt, and stay on its line."""

    def show_ending(self, ending: RunEnding) -> None:
        """Draw the ending of the run."""
