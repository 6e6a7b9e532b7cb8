"""What inboxes, workers and the workflow of absences exchange.

An absence names a substitute, who decides by a right of their own: it adds readers, and no right.
"""

from datetime import datetime, timedelta
from typing import Annotated, Final, Self

from pydantic import AwareDatetime, Field, model_validator

from holdfast.schemas.base import Lenient, Strict

MAX_AWAY: Final = timedelta(days=366)
MAX_ABSENCES: Final = 1_000
MAX_UPDATES_A_RUN: Final = 1_000  # a server accepts two thousand

_Name = Annotated[str, Field(min_length=1, max_length=200)]


class Away(Strict):
    """A time in which a person is away, and their substitute."""

    from_: Annotated[AwareDatetime, Field(alias="from")]
    """From when."""
    until: AwareDatetime
    """Until when."""
    to: _Name
    """The substitute, by the name that they sign in with."""

    @model_validator(mode="after")
    def _is_bounded(self) -> Self:
        if not timedelta() < self.until - self.from_ <= MAX_AWAY:
            raise ValueError(f"`until` is after `from`, by at most {MAX_AWAY.days} days")
        return self


class Absence(Strict):
    """The absence of a person, as they have set it; without `away`, they are back."""

    person: _Name
    """Who is away, by the name that they sign in with."""
    groups: Annotated[list[_Name], Field(max_length=100)] = []
    """The groups that they decide for."""
    away: Away | None = None
    """When, and the substitute."""


class Absences(Lenient):
    """The absences of a namespace, one for each person; it continues as new after some updates."""

    absences: Annotated[list[Absence], Field(max_length=MAX_ABSENCES)] = []
    updates_a_run: Annotated[int, Field(ge=1)] = MAX_UPDATES_A_RUN

    def after(self, now: datetime) -> list[Absence]:
        """Return the absences that are not over."""
        return [each for each in self.absences if each.away and each.away.until > now]

    def time_left(self, now: datetime) -> timedelta:
        """Return the time until the last one is over, which may be past.

        Without any, a minute: the update that adds the first is on its way.
        """
        ends = [each.away.until - now for each in self.absences if each.away]
        return max(ends, default=timedelta(minutes=1))
