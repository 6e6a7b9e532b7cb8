"""The notifiers of a worker from the file of `--notifiers`: `notify.yaml`.

Everything is checked when the worker starts, and reported with file, line and fix. Only a variable
that is not set is reported when it is needed; the values of others are checked, and never shown.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx

from holdfast.activities.notify.base import EnvironmentValue, Notifier
from holdfast.activities.notify.channels import NotificationChannels, ServedChannel
from holdfast.activities.notify.mail import MailNotifier
from holdfast.activities.notify.slack import SlackNotifier
from holdfast.activities.notify.slack_app import SlackAppNotifier
from holdfast.activities.notify.webhook import BadSecret, WebhookNotifier, signing_secrets
from holdfast.runtime.addresses import (
    AddressError,
    is_loopback,
    parse_address,
    parse_secure_address,
)
from holdfast.runtime.settings_files.file_problems import LoadError
from holdfast.runtime.settings_files.source import read_source
from holdfast.schemas.settings.notify import Notifiers, Webhook
from holdfast.validation.problems import ValueProblem


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
    faults: list[ValueProblem] = []
    try:
        inbox = parse_address(settings.inbox)
        if inbox.query or inbox.fragment:
            raise AddressError("links are built behind it", "leave out `?` and `#`")
    except AddressError as error:
        faults.append(ValueProblem(("inbox",), error.reason, error.fix))
    served = {}
    for name, channel in settings.channels.items():
        notifier: Notifier
        if (webhook := channel.webhook) is not None:
            kind, wrong = "webhook", list(_wrong_webhook(webhook, environ))
            url = webhook.url or EnvironmentValue(webhook.url_env or "", environ)
            secret = EnvironmentValue(webhook.secret_env, environ)
            notifier = WebhookNotifier(url, secret, http)
        elif (slack := channel.slack) is not None and slack.channel is not None:
            kind, wrong, token = "slack", [], EnvironmentValue(slack.token_env or "", environ)
            notifier = SlackAppNotifier(token, slack, channel.content == "full", http)
        elif slack is not None:
            kind, wrong = "slack", _wrong_url(slack.url_env or "", environ)
            notifier = SlackNotifier(EnvironmentValue(slack.url_env or "", environ), http)
        else:
            assert channel.mail is not None  # Channel demands one of them
            kind, wrong = "mail", []
            if channel.mail.tls == "none" and not is_loopback(channel.mail.host):
                fix = "write `tls: starttls` or `tls: tls`; `none` is for a server on this machine"
                wrong = [ValueProblem(("tls",), "mail would go in the open", fix)]
            variable = channel.mail.password_env
            password = None if variable is None else EnvironmentValue(variable, environ)
            notifier = MailNotifier(channel.mail, password)
        faults += [fault.under("channels", name, kind) for fault in wrong]
        served[name] = ServedChannel(channel, notifier)
    if faults:
        raise LoadError(source.problems(faults))
    return NotificationChannels(settings.inbox, served)


def _wrong_webhook(webhook: Webhook, environ: Mapping[str, str]) -> Iterator[ValueProblem]:
    if webhook.url is not None:
        try:
            parse_address(webhook.url)
        except AddressError as error:
            yield ValueProblem(("url",), error.reason, error.fix)
    if webhook.url_env is not None:
        yield from _wrong_url(webhook.url_env, environ)
    value = environ.get(webhook.secret_env, "")
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
        parse_secure_address(value)
    except AddressError:
        reason = f"the variable {variable} holds no address"
        return [ValueProblem(("urlEnv",), reason, "write https://… in it")]
    return []
