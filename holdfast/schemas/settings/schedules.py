"""Schedules that start runs: the files of a catalog's `schedules/`, in Temporal's words."""

import re
from datetime import timedelta
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import AfterValidator, Field, model_validator

from holdfast.schemas.base import Duration, Json, OneOf, SettingsFile
from holdfast.schemas.run import AnyPrincipal
from holdfast.schemas.settings.budgets import TimeZone

MAX_LABELS: Final = 20
# The values of the fields of a cron expression.
_VALUES: Final = {
    "minute": r"[0-5]?\d",
    "hour": r"[01]?\d|2[0-3]",
    "day of the month": r"0?[1-9]|[12]\d|3[01]",
    "month": r"0?[1-9]|1[0-2]|[a-z]{3}",
    "day of the week": r"[0-6]|[a-z]{3}",
}
_WRITE: Final = "write minute, hour, day, month and day of the week, as in `0 7 * * 1-5`"


def _check_cron(cron: str) -> str:
    fields = cron.lower().split()
    if len(fields) != len(_VALUES):
        raise ValueError(f"a cron expression has five fields; {_WRITE}")
    for field, (name, value) in zip(fields, _VALUES.items(), strict=True):
        part = rf"(\*|({value})(-({value}))?)(/\d\d?)?"
        if not re.fullmatch(f"{part}(,{part})*", field, re.ASCII):
            raise ValueError(f"`{field}` is no {name}; {_WRITE}")
    return cron


class ScheduleDefinition(SettingsFile, OneOf):
    """When runs of an agent start, and with what; the name of the file is the schedule's id."""

    one_of: ClassVar = ("cron", "interval")

    agent: Annotated[str, Field(min_length=1)]
    """The agent of the catalog."""
    input: str | dict[str, Json]
    """The task of each run: a text, or an object."""
    cron: Annotated[str, Field(max_length=200), AfterValidator(_check_cron)] | None = None
    """When runs start: minute, hour, day of the month, month, day of the week."""
    interval: Duration | None = None
    """The time between two starts, counted from 1970 in UTC."""
    time_zone: TimeZone | None = None
    """The time zone of `cron`, such as Europe/Berlin (default: UTC)."""
    overlap: (
        Literal["Skip", "BufferOne", "BufferAll", "CancelOther", "TerminateOther", "AllowAll"]
        | None
    ) = None
    """What becomes of a start while the run before it is open (default: Skip). Required if runs can
    wait for a person."""
    catchup_window: Duration = timedelta(days=365)
    """How late a start may be made up for, after an outage of the server; 10s or more."""
    approvals: Literal["deny"] | None = None
    """`deny`: whatever would wait for a person is denied."""
    principal: AnyPrincipal | None = None
    """On whose behalf the runs act; never a token, which is for one run."""
    labels: Annotated[dict[str, str], Field(max_length=MAX_LABELS)] = {}
    """Names and values in the memo of each run."""

    @model_validator(mode="after")
    def _consistent(self) -> "ScheduleDefinition":
        if self.interval is not None and self.time_zone is not None:
            raise ValueError(
                "an `interval` has no time zone; leave out `timeZone`, or write `cron`"
            )
        if self.catchup_window < timedelta(seconds=10):
            raise ValueError("`catchupWindow` is shorter than Temporal allows; write 10s or more")
        return self

    def request(self) -> dict[str, Any]:
        """Return the request of each run, as JSON."""
        of_run = ("agent", "input", "approvals", "principal")
        return {key: each for key, each in self.to_json().items() if key in of_run}
