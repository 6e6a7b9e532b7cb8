"""The channels of a worker, and the activity that tells people in one of them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from temporalio import activity

from holdfast.activities.notify.base import Notifier, notification_error
from holdfast.activities.notify.message_text import limit_content
from holdfast.schemas import names
from holdfast.schemas.settings.notify import Channel, Listener, News


@dataclass(frozen=True)
class ServedChannel:
    """A channel, and what tells people in it."""

    settings: Channel
    notifier: Notifier


class NotificationChannels:
    """The channels that a worker has, by name; `inbox` is what links begin with."""

    def __init__(self, inbox: str = "", served: Mapping[str, ServedChannel] | None = None) -> None:
        self._inbox = inbox.rstrip("/")
        self._served = dict(served or {})

    def listeners(self) -> list[Listener]:
        """What runs know of them."""
        return [
            Listener(name=name, groups=served.settings.groups, on=served.settings.on)
            for name, served in self._served.items()
        ]

    def secrets(self) -> Iterator[str]:
        """What is to stay secret: values, and of addresses the part that nobody guesses."""
        for served in self._served.values():
            for hidden in served.notifier.environment_values:
                value = hidden.value() if hidden.is_set else ""
                for part in (value, *value.split()):
                    path = urlsplit(part).path.lstrip("/")
                    yield from (part, part.removeprefix("whsec_"), path)

    def warnings(self) -> list[str]:
        """What the operator should know when the worker starts: the secrets that are not there."""
        return [
            f"channel `{name}`: the environment variable {hidden.variable} is not set; nobody is "
            "told in it"
            for name, served in self._served.items()
            for hidden in served.notifier.environment_values
            if not hidden.is_set
        ]

    @activity.defn(name=names.TELL_PEOPLE)
    async def tell_people(self, told: dict[str, Any]) -> None:
        """Tell people of something that a run has to say, in one channel.

        Args:
            told: `channel`, its name, and `news`, a `schemas.settings.notify.News` as JSON.

        Raises:
            ApplicationError: of type `telling_failed`: they were not told, or may not have been.
        """
        served = self._served.get(told["channel"])
        if served is None:
            # Another worker may have it, and so may this one once it is started anew.
            said = f"this worker has no channel `{told['channel']}`; see its `--notifiers`"
            raise notification_error(said, retried=True)
        news = limit_content(News.read(told["news"]), served.settings.content)
        await served.notifier.notify(news.model_copy(update={"link": self._link(news)}))

    def _link(self, news: News) -> str:
        """Where it is decided; once it is over, where the run is to be seen."""
        run, call = news.workflow_id, news.waiting.call_id
        place = ("run", run) if news.is_over else ("waiting", run, call)
        # As the inbox builds its own: an id may hold any character.
        return self._inbox + "".join(f"/{quote(part, safe='')}" for part in place)
