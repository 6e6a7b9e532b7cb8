"""How a run stands, in words: the same on every page, and each with how it is meant."""

from collections.abc import Mapping
from typing import Final

from holdfast.runtime.text_safety import clean
from holdfast.schemas.names import ErrorCode

# The tone of a badge: at work, waiting for somebody, as it should have ended, or otherwise.
STATUSES: Final[Mapping[str, tuple[str, str]]] = {
    "running": ("at work", "plain"),
    "awaiting_approval": ("waits for a person", "asks"),
    "awaiting_message": ("waits for a message", "asks"),
    "completed": ("done", "good"),
    "stopped": ("ended by a tool", "good"),
    "budget_exceeded": ("out of budget", "bad"),
    "failed": ("failed", "bad"),
    "cancelled": ("cancelled", "dim"),
    "terminated": ("terminated", "bad"),
    "timed_out": ("timed out", "bad"),
}


def told(status: str, code: str | None = None) -> tuple[str, str]:
    """The words and the tone of a status; of one that is not known, what it says itself. `code` is
    what it failed with: where a person denied a single call, that went as they wished."""
    if (status, code) == ("failed", ErrorCode.DENIED):
        return "failed: denied", "dim"
    return STATUSES.get(status, (clean(status), "bad"))
