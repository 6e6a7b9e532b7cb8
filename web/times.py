"""A time as the pages of lists and calls tell it: to programs, to people, and how far off it is."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from holdfast.runtime.text_safety import format_age, local_time


@dataclass(frozen=True)
class When:
    """A moment, in UTC; `iso` is empty where it is not known."""

    iso: str
    text: str
    off: str


def when(at: Any) -> When:
    """A time of a list or of a run's log: `3 min ago`, `in 7 d`."""
    time = local_time(at)
    if time is None:
        return When("", "at an unknown time", "")
    utc = time.astimezone(UTC)
    off = f"in {format_age(time)}" if time > datetime.now(UTC) else f"{format_age(time)} ago"
    return When(utc.isoformat(timespec="milliseconds"), utc.strftime("%Y-%m-%d %H:%M UTC"), off)
