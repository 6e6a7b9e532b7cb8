"""What people, or the clock, decided on a question: its ruling."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Approved:
    """An approval to run with these arguments, which `edited_by` changed, if set."""

    arguments: dict[str, Any]
    edited_by: str | None = None


@dataclass(frozen=True)
class Denied:
    """A denial: the call does not run."""

    reason: str


@dataclass(frozen=True)
class AnsweredByPerson:
    """A person's answer that replaces a result."""

    result: Any


@dataclass(frozen=True)
class Expired:
    """The timeout for a decision passed."""


@dataclass(frozen=True)
class Moved:
    """An edit to arguments of another rule, which requires this `quorum` for them."""

    arguments: dict[str, Any]
    edited_by: str
    quorum: int


Ruling = Approved | Denied | AnsweredByPerson | Expired
