"""Consoles that take every text as it stands, and whether a person sits in front of one."""

import os
from typing import TextIO

from rich.console import Console


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to the command to end; rich would end the program here."""
        raise BrokenPipeError


def is_terminal(stream: TextIO) -> bool:
    """Whether a person sees the stream on a terminal that can draw."""
    return stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


def console_for(stream: TextIO, width: int | None = None) -> Console:
    """A console in which no text is markup, an emoji's name or a thing to colour."""
    return _Console(file=stream, width=width, markup=False, emoji=False, highlight=False)
