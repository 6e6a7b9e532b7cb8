"""A run on a terminal: past events scroll up, and the current activity is below them.

Everything is drawn as text with styles, never as markup: text of a model has no effect.
"""

import os
import sys
import termios
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TextIO

from rich.console import Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.rule import Rule
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from holdfast.cli.screens.console import console_for
from holdfast.cli.screens.plain import PlainScreen
from holdfast.client import question_text
from holdfast.client.result import RunEnding, ending_lines
from holdfast.runtime.narration.log_narration import NarrationLine, Tone
from holdfast.runtime.narration.question_view import QuestionView
from holdfast.runtime.text_safety import shorten
from holdfast.schemas.decision import PendingApproval
from holdfast.schemas.log_entry import read_record

_LOCAL_MODES = 3  # the place of the local modes among a terminal's attributes

_REFRESHES_PER_SECOND = 8
_BODY_CHARS = 4_000
_NAME_COLUMNS = 24

STYLES: Final[dict[Tone, str]] = {
    "turn": "bold",
    "plain": "",
    "said": "",
    "quiet": "dim",
    "good": "green",
    "bad": "red",
    "asks": "yellow",
}


class LiveScreen(PlainScreen):
    """Draws a run on a terminal, at 80 columns and up."""

    def __init__(self, stream: TextIO, run_id: str) -> None:
        super().__init__(stream, run_id)
        self._console = console_for(stream)
        self._spinner = Spinner("dots")
        self._last_said = ""
        self._live = self._region()

    @contextmanager
    def live(self) -> Iterator[None]:
        """Show the current activity below the events; remove it at the end."""
        self._start()
        try:
            with _echo(False):
                yield
        finally:
            self._live.stop()

    def show_entry(self, entry: Mapping[str, Any]) -> None:
        """Draw the lines of an entry."""
        record = read_record(entry)
        self.activity.add_entry(record.entry)
        for line in self._narration.lines(record):
            self._last_said = line.body if line.word == "model" else self._last_said
            if not line.minor:
                self._console.print(render_line(line))

    def show_approval(self, waiting: PendingApproval, *, asked: bool) -> None:
        """Draw a pending approval as a panel, with the command that decides it below."""
        self.activity.waits = True
        parts, view = list[RenderableType](), QuestionView.of(waiting)
        if view.reasoning:
            parts.append(Text(f"because: {view.reasoning}\n", style="italic"))
        if rows := view.rows:
            table = Table.grid(padding=(0, 2))
            table.add_column(style="bold", overflow="fold", max_width=_NAME_COLUMNS)
            table.add_column(overflow="fold")
            for name, value in rows:
                table.add_row(Text(name), Text(value))
            parts += [table, Text()]
        parts += [Text(text, style="dim") for text in question_text.explanations(waiting)]
        title = Text(view.heading, style="bold")
        panel = Panel(Group(*parts), title=title, title_align="left", border_style="yellow")
        self._console.print(panel)
        command = Text(question_text.how_to_decide(self._run_id, waiting), style="cyan")
        self._console.print(command, soft_wrap=True)

    def print_waiting(self, text: str) -> None:
        line = Text.assemble(("waiting", "bold yellow"), " ", text)
        self._console.print(line, soft_wrap=True)

    def print_note(self, text: str) -> None:
        self._console.print(Text(text, style="yellow"), soft_wrap=True)

    @contextmanager
    def pause_for_input(self) -> Iterator[None]:
        """Remove the current activity while a person types."""
        self._live.stop()
        try:
            with _echo(True):
                yield
        finally:
            # A new one: the old one would erase as many lines as it had before the prompt.
            self._live = self._region()
            self._start()

    def prompt(self, text: str) -> None:
        self._console.print(Text(text, style="bold yellow"), end="", soft_wrap=True)
        self._console.file.flush()

    def show_ending(self, ending: RunEnding) -> None:
        """Draw the output, the state and the usage of the run."""
        self.activity.show_answer(None)
        style = "green" if ending.exit_code == 0 else "red"
        self._console.print(Rule(style=style))
        for name, text in ending_lines(ending):
            if name == "output" and text == self._last_said:
                continue
            self._console.print(Text.assemble((name, f"bold {style}"), "  ", text))

    def _start(self) -> None:
        # Drawn at once: a line that is printed while the region is drawn for the first time, in its
        # own thread, would not erase it.
        self._live.start(refresh=True)

    def _region(self) -> Live:
        return Live(
            get_renderable=self._now,
            console=self._console,
            refresh_per_second=_REFRESHES_PER_SECOND,
            transient=True,
        )

    def _now(self) -> RenderableType:
        self._spinner.text = Text(self.activity.text(), style="dim")
        lines = self.activity.last_lines(self._console.width, self._console.height)
        return Group(*(Text(line, style="dim", no_wrap=True) for line in lines), self._spinner)


def render_line(line: NarrationLine) -> RenderableType:
    """Return a line of the log: the time, and beside it word and text, with the body below."""
    style = STYLES[line.tone]
    if line.tone == "turn":
        return Rule(Text(f"{line.word} {line.text}", style=style), align="left", style="dim")
    head = Text.assemble((line.word, f"bold {style}".strip()), " ", line.text)
    body = [Text(shorten(line.body, _BODY_CHARS), style=style)] if line.body else []
    table = Table.grid(padding=(0, 1))
    table.add_row(Text(line.at, style="dim"), Group(head, *body))
    return table


@contextmanager
def _echo(is_shown: bool) -> Iterator[None]:
    """Show or hide typed keys. Ctrl-C still interrupts.

    Does nothing unless standard input is a terminal with this program in its foreground: changing
    the terminal from the background would stop the program.
    """
    try:
        terminal = sys.stdin.fileno()
        is_ours = os.tcgetpgrp(terminal) == os.getpgrp()
    except (OSError, ValueError):
        is_ours = False
    if not is_ours:
        yield
        return
    before = termios.tcgetattr(terminal)
    changed = termios.tcgetattr(terminal)
    modes = changed[_LOCAL_MODES]
    changed[_LOCAL_MODES] = modes | termios.ECHO if is_shown else modes & ~termios.ECHO
    termios.tcsetattr(terminal, termios.TCSADRAIN, changed)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
