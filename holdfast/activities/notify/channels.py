"""The activity `tell_people`, and the channels of a worker in which it notifies people."""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from temporalio import activity

from holdfast.activities.notify.message_text import Notifier, limit_content
from holdfast.runtime.http_post import notification_error
from holdfast.schemas import names
from holdfast.schemas.settings.notify import Channel, Listener, News


class NotificationChannels:
    """The channels of a worker by name, each with its notifier; links begin with `inbox`."""

    def __init__(
        self, inbox: str = "", served: Mapping[str, tuple[Channel, Notifier]] | None = None
    ) -> None:
        self._inbox = inbox.rstrip("/")
        self._served = dict(served or {})

    def listeners(self) -> list[Listener]:
        """Return the facts about channels that runs need."""
        return [
            Listener(
                name=name,
                groups=channel.groups,
                on=channel.on,
                to_groups=[*(channel.mail.to_groups if channel.mail else ())],
            )
            for name, (channel, _) in self._served.items()
        ]

    def secrets(self) -> Iterator[str]:
        """Yield the secrets: values, and the paths of addresses."""
        for _, notifier in self._served.values():
            for each in notifier.environment_values:
                for part in (each.text, *each.text.split()):
                    path = urlsplit(part).path.lstrip("/")
                    yield from (part, part.removeprefix("whsec_"), path)

    def warnings(self) -> list[str]:
        """Return a warning for each secret that is not set."""
        return [
            f"channel `{name}`: the environment variable {each.variable} is not set; no "
            "notifications are sent"
            for name, (_, notifier) in self._served.items()
            for each in notifier.environment_values
            if not each.text
        ]

    @activity.defn(name=names.TELL_PEOPLE)
    async def tell_people(self, notification: dict[str, Any]) -> dict[str, Any] | None:
        """Send a notification: `channel` is the name of one, and `news` a `News` as JSON.

        Return the message that later news of the question update, if there is one.

        Raises:
            ApplicationError: of type `telling_failed`: it was not sent, or may not have been.
        """
        channel, notifier = self._served.get(notification["channel"], (None, None))
        if channel is None or notifier is None:
            # Another worker may have it, or this one after a restart.
            message = (
                f"this worker has no channel `{notification['channel']}`; see its `--notifiers`"
            )
            raise notification_error(message, retried=True)
        news = limit_content(News.read(notification["news"]), channel.content)
        # The address of the decision; once it is over, of the run.
        run, call = news.workflow_id, news.waiting.call_id
        place = ("run", run) if news.is_over else ("waiting", run, call)
        # As the inbox builds its own: an id may have any character.
        link = self._inbox + "".join(f"/{quote(part, safe='')}" for part in place)
        posted = await notifier.notify(news.model_copy(update={"link": link}))
        return None if posted is None else posted.to_json()
