"""Why a worker does not start, for the person who starts it: lines to read, and an exit code."""

from typing import Final

STOPPED: Final = 0
WRONG_SETUP: Final = 2
UNREACHABLE: Final = 3


class StartError(Exception):
    """A worker that cannot start. Each line says what is wrong and what to do."""

    def __init__(self, lines: list[str], code: int = WRONG_SETUP) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines
        self.code = code


def wrong_setup(wrong: str, todo: str) -> StartError:
    """Something in the settings has to be mended first."""
    return StartError([f"holdfast: {wrong}; {todo}"])


def unreachable(wrong: str, todo: str) -> StartError:
    """Temporal does not answer."""
    return StartError([f"holdfast: {wrong}; {todo}"], UNREACHABLE)
