"""What every notifier has: the environment's secrets, and one way to say that it failed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from temporalio.exceptions import ApplicationError

from holdfast.schemas.names import TELLING_FAILED
from holdfast.schemas.settings.notify import News

# An attempt ends by itself before Temporal gives it up, so that it says why.
ATTEMPT_SECONDS = 20.0


def notification_error(
    message: str, *, retried: bool = False, delay: timedelta | None = None
) -> ApplicationError:
    """An error of type `telling_failed`, tried again (after `delay`) or not."""
    return ApplicationError(
        message, type=TELLING_FAILED, non_retryable=not retried, next_retry_delay=delay
    )


@dataclass(frozen=True)
class EnvironmentValue:
    """A value that the environment holds. It is read where it is used."""

    variable: str
    environ: Mapping[str, str]

    @property
    def is_set(self) -> bool:
        """Whether the environment holds it."""
        return bool(self.environ.get(self.variable))

    def value(self) -> str:
        """The value.

        Raises:
            ApplicationError: there is none; not retried, for a worker's environment stays.
        """
        found = self.environ.get(self.variable)
        if not found:
            raise notification_error(f"the environment variable {self.variable} is not set")
        return found.strip()


class Notifier(Protocol):
    """One way to tell people."""

    @property
    def environment_values(self) -> Iterator[EnvironmentValue]:
        """What it needs of the environment."""

    async def notify(self, news: News) -> None:
        """Tell it, once.

        Raises:
            ApplicationError: nobody was told, or nobody knows whether somebody was.
        """
