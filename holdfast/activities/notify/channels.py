"""The activity `tell_people`, and the channels of a worker from `--notifiers`: `notify.yaml`.

The file is checked when the worker starts, and each problem is reported with file, line and fix.
Only a variable that is not set is reported when it is needed; the values of others are checked, and
never shown.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
from temporalio import activity

from holdfast.activities.notify.mail import MailNotifier
from holdfast.activities.notify.message_text import Notifier, limit_content
from holdfast.activities.notify.slack import SlackAppNotifier, SlackNotifier
from holdfast.activities.notify.webhook import BadSecret, WebhookNotifier, signing_secrets
from holdfast.runtime import addresses
from holdfast.runtime.absences import AbsenceReader, present_absences
from holdfast.runtime.decision_links import LINK_SECRET, MIN_SECRET_CHARACTERS, DecisionLinks
from holdfast.runtime.http_post import EnvironmentValue, notification_error
from holdfast.runtime.settings_files.file_problems import LoadError
from holdfast.runtime.settings_files.source import read_source
from holdfast.schemas import names
from holdfast.schemas.settings.notify import Channel, Listener, News, Notifiers, Webhook
from holdfast.validation.problems import ValueProblem, under


class NotificationChannels:
    """The channels of a worker by name, each with its notifier; links begin with `inbox`."""

    def __init__(
        self,
        inbox: str = "",
        served: Mapping[str, tuple[Channel, Notifier]] | None = None,
        absences: AbsenceReader | None = None,
    ) -> None:
        self._inbox, self._absences = inbox.rstrip("/"), absences
        self._served = dict(served or {})

    def with_absences(self, absences: AbsenceReader) -> "NotificationChannels":
        """Return the same channels, whose news name the approvers who are away."""
        return NotificationChannels(self._inbox, self._served, absences)

    def listeners(self) -> list[Listener]:
        """Return the facts about channels that runs need."""
        return [
            Listener(
                name=name,
                groups=channel.groups,
                on=channel.on,
                to_groups=[*(channel.mail.to_groups if channel.mail else ())],
                full=channel.content == "full",
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
        news = News.read(notification["news"])
        if self._absences is not None and news.waiting.approvers and not news.is_over:
            away = [
                one.model_copy(update={"groups": []})
                for one in present_absences(await self._absences.read())
                if not {*one.groups}.isdisjoint(news.waiting.approvers)
            ]
            news = news.model_copy(update={"absences": away})
        # They depend on the groups, which the content may leave out.
        recipients, news = notifier.recipients(news), limit_content(news, channel.content)
        # The address of the decision; once it is over, of the run.
        run, call = news.workflow_id, news.waiting.call_id
        place = ("run", run) if news.is_over else ("waiting", run, call)
        # As the inbox builds its own: an id may have any character.
        link = self._inbox + "".join(f"/{quote(part, safe='')}" for part in place)
        posted = await notifier.notify(news.model_copy(update={"link": link}), recipients)
        return None if posted is None else posted.to_json()


def load_notifiers(
    file: Path | None, environ: Mapping[str, str], http: httpx.AsyncClient
) -> NotificationChannels:
    """Return the channels of `file`, if there is one.

    Raises:
        LoadError: the file has problems.
    """
    if file is None:
        return NotificationChannels()
    source = read_source(file)
    settings = source.parse_as(Notifiers)
    faults, served = list[ValueProblem](), dict[str, tuple[Channel, Notifier]]()
    try:
        inbox = addresses.parse_address(settings.inbox)
        if inbox.query or inbox.fragment:
            raise addresses.AddressError("links are appended to it", "leave out `?` and `#`")
    except addresses.AddressError as error:
        faults.append(ValueProblem(("inbox",), error.reason, error.fix))
    links = DecisionLinks(LINK_SECRET, environ, settings.inbox.rstrip("/"))
    for name, channel in settings.channels.items():
        kind = next(each for each in Channel.one_of if getattr(channel, each) is not None)
        notifier, wrong = _notifier(channel, environ, http, links)
        faults += under(wrong, "channels", name, kind)
        if links in notifier.environment_values and 0 < len(links.text) < MIN_SECRET_CHARACTERS:
            reason = f"the secret in the variable {LINK_SECRET} is too short"
            todo = f"write at least {MIN_SECRET_CHARACTERS} characters: openssl rand -hex 32"
            faults.append(ValueProblem(("channels", name, kind, "links"), reason, todo))
        served[name] = channel, notifier
    if faults:
        raise LoadError(source.problems(faults))
    return NotificationChannels(settings.inbox, served)


def _notifier(
    channel: Channel, environ: Mapping[str, str], http: httpx.AsyncClient, links: DecisionLinks
) -> tuple[Notifier, Iterable[ValueProblem]]:
    if (webhook := channel.webhook) is not None:
        url = webhook.url or EnvironmentValue(webhook.url_env or "", environ)
        variable = webhook.secret_env
        secret = None if variable is None else EnvironmentValue(variable, environ)
        own_links = links if webhook.links else None
        made = WebhookNotifier(url, secret, http, webhook.format, own_links, webhook.links)
        return made, _wrong_webhook(webhook, environ)
    if (slack := channel.slack) is not None and slack.channel is not None:
        token = EnvironmentValue(slack.token_env or "", environ)
        return SlackAppNotifier(token, slack, channel.content == "full", http), ()
    if slack is not None:
        url_env = slack.url_env or ""
        return SlackNotifier(EnvironmentValue(url_env, environ), http), _wrong_url(url_env, environ)
    mail, wrong = channel.mail, []
    assert mail is not None  # Channel demands one of them
    if mail.tls == "none" and not addresses.is_loopback(mail.host):
        fix = "write `tls: starttls` or `tls: tls`; `none` is for a server on this machine"
        wrong = [ValueProblem(("tls",), "mail would be sent unencrypted", fix)]
    variable = mail.password_env
    password = None if variable is None else EnvironmentValue(variable, environ)
    return MailNotifier(mail, password, links if mail.links else None), wrong


def _wrong_webhook(webhook: Webhook, environ: Mapping[str, str]) -> Iterator[ValueProblem]:
    if webhook.url is not None:
        try:
            addresses.parse_address(webhook.url)
        except addresses.AddressError as error:
            yield ValueProblem(("url",), error.reason, error.fix)
    if webhook.url_env is not None:
        yield from _wrong_url(webhook.url_env, environ)
    value = environ.get(webhook.secret_env or "", "")
    try:
        signing_secrets(value) if value else []
    except BadSecret as error:
        reason = f"the variable {webhook.secret_env} holds no secret to sign with"
        yield ValueProblem(("secretEnv",), reason, str(error))


def _wrong_url(variable: str, environ: Mapping[str, str]) -> list[ValueProblem]:
    """Return the problems of a variable's address: a secret must not be sent unencrypted."""
    value = environ.get(variable, "").strip()
    if not value:
        return []
    try:
        addresses.parse_secure_address(value)
    except addresses.AddressError:
        reason = f"the variable {variable} holds no address"
        return [ValueProblem(("urlEnv",), reason, "write https://… in it")]
    return []
