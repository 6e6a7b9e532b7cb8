"""Notifications by mail: SMTP of the standard library, in a thread.

A message has the id of its notification, so that mail programs show one that is sent twice once. It
refers to its question, so that they show all messages of a question together.
"""

import asyncio
import html
import logging
import smtplib
import ssl
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from functools import partial
from threading import Event

from temporalio.exceptions import ApplicationError

from holdfast.activities.notify.message_text import Notifier, message_text
from holdfast.runtime import http_post
from holdfast.runtime.decision_links import PATH, DecisionLinks
from holdfast.runtime.text_safety import defuse_links, one_line
from holdfast.schemas.base import sha256
from holdfast.schemas.settings.notify import Mail, News, Tls
from holdfast.validation.text_safety import normalized_person

_PORTS: dict[Tls, int] = {"starttls": 587, "tls": 465, "none": 25}
ANSWER_CHARACTERS = 200
MAX_SENT_MESSAGES = 10_000
_ID_CHARACTERS = 12
_FOOT = "A reply to this message decides nothing: decide in the inbox, where you sign in."
_LINK_FOOT = "The link shows the call, and decides in your name: do not forward it."
_HTML = """\
<!doctype html>
<html lang="en"><body>
<h1 style="font-size:1.2em">{title}</h1>
<table style="border-spacing:0 .3em">{rows}</table>
<p><a href="{link}">{action}</a></p>
<p><small>{foot}</small></p>
</body></html>
"""
_ROW = '<tr><th align="left" valign="top" style="padding-right:1em">{}</th><td>{}</td></tr>'

logger = logging.getLogger("holdfast")


def message(news: News, mail: Mail, recipients: Iterable[str]) -> EmailMessage:
    """Return the message as it is sent."""
    text, foot = message_text(news), _LINK_FOOT if PATH in (news.link or "") else _FOOT
    domain = Address(addr_spec=mail.from_).domain
    made = EmailMessage(policy=SMTP)
    made["Subject"] = defuse_links(text.title)
    made["From"] = mail.from_
    made["To"] = ", ".join(recipients)
    made["Date"] = format_datetime(datetime.fromisoformat(news.at))
    made["Message-ID"] = f"<{news.id}@{domain}>"
    made["References"] = f"<{news.about}@{domain}>"
    # No out-of-office answer is wanted.
    made["Auto-Submitted"] = "auto-generated"
    lines = [f"{defuse_links(name)}: {defuse_links(value)}" for name, value in text.lines]
    parts = [defuse_links(text.title), "\n".join(lines), f"{text.action}:\n{text.link}", foot]
    made.set_content("\n\n".join(parts) + "\n")
    rows = [_ROW.format(_escaped(name), _escaped(value)) for name, value in text.lines]
    page = _HTML.format(
        title=_escaped(text.title),
        rows="\n".join(rows),
        link=html.escape(text.link),
        action=text.action,
        foot=foot,
    )
    made.add_alternative(page, subtype="html")
    return made


@dataclass(frozen=True)
class MailNotifier(Notifier):
    """A channel of mail: the recipients, and the server."""

    mail: Mail
    password: http_post.EnvironmentValue | None
    links: DecisionLinks | None = None
    # The ids of messages that the server took: a further attempt leaves them out.
    _sent: deque[str] = field(default_factory=lambda: deque(maxlen=MAX_SENT_MESSAGES), init=False)

    def recipients(self, news: News) -> list[str]:
        """Return the recipients: of the groups that decide, or of all groups where anyone may.

        A substitute of one of them receives it too, if listed for a group that decides: of a
        forward, also one that could decide before.
        """
        deciding = news.forwarded or news.waiting.approvers
        chosen, entitled = [*self.mail.to], list[str]()
        for group, addresses in self.mail.to_groups.items():
            chosen += addresses if not deciding or group in deciding else ()
            entitled += addresses if group in news.waiting.approvers else ()
        absences = [(one.person, one.away.to) for one in news.absences if one.away]
        away = {*map(normalized_person, chosen)} if absences else set()
        to = {normalized_person(each) for one, each in absences if normalized_person(one) in away}
        substitutes = [one for one in entitled if to and normalized_person(one) in to]
        return list(dict.fromkeys([*chosen, *substitutes]))

    async def notify(self, news: News, recipients: Sequence[str] = ()) -> None:
        """Send the notification, if it has recipients, as `Notifier` requires."""
        made = [message(news, self.mail, recipients)] if recipients else []
        if self.links is not None:
            made = []
            for one in recipients:
                groups = [name for name, listed in self.mail.to_groups.items() if one in listed]
                id = f"{news.id}-{sha256(one.encode())[:_ID_CHARACTERS]}"
                own = self.links.personal(news.model_copy(update={"id": id}), one, groups)
                made.append(message(own, self.mail, [one]))
        sent, stop = {*self._sent}, Event()
        made = [each for each in made if each["Message-ID"] not in sent]
        if not made:
            return
        try:
            # The timeout of each step is also that of all steps together.
            async with asyncio.timeout(http_post.ATTEMPT_SECONDS):
                await asyncio.to_thread(self._send, made, stop)
        except TimeoutError as error:
            raise self._error(error) from None
        finally:
            stop.set()  # after a timeout or a cancellation, before the next message

    def _send(self, made: list[EmailMessage], stop: Event) -> None:
        refused, failed = 0, list[ApplicationError]()
        try:
            server = self._connected()
            try:
                for each in made:
                    if stop.is_set():
                        return
                    try:
                        refused += len(server.send_message(each))
                        self._sent.append(str(each["Message-ID"]))
                    except (smtplib.SMTPRecipientsRefused, smtplib.SMTPDataError) as error:
                        if server.sock is None:
                            raise  # it has hung up
                        server.rset()
                        failed.append(self._error(error))
            finally:
                # It has accepted the message, or reported why not: an error of `QUIT` has no
                # effect.
                with suppress(smtplib.SMTPException, OSError):
                    server.quit()
        except (smtplib.SMTPException, OSError) as error:
            raise self._error(error) from None
        again = [each for each in failed if not each.non_retryable]
        if again or len(failed) == len(made):
            raise [*again, *failed][0]
        if refused := refused + len(failed):
            logger.warning("%s refused %d of the recipients", self.mail.host, refused)

    def _connected(self) -> smtplib.SMTP:
        mail = self.mail
        port = mail.port or _PORTS[mail.tls]
        context = ssl.create_default_context()
        open_ = partial(smtplib.SMTP_SSL, context=context) if mail.tls == "tls" else smtplib.SMTP
        server = open_(mail.host, port, timeout=http_post.ATTEMPT_SECONDS)
        try:
            if mail.tls == "starttls":
                server.starttls(context=context)
            if mail.username is not None and self.password is not None:
                server.login(mail.username, self.password.value())
        except (smtplib.SMTPException, OSError, ApplicationError):
            server.close()
            raise
        return server

    def _error(self, error: smtplib.SMTPException | OSError) -> ApplicationError:
        host, retried = self.mail.host, True
        match error:
            case smtplib.SMTPAuthenticationError():
                reason = f"refused the login ({_answer(error)}). Check `username` and password"
                retried = error.smtp_code < 500
            case smtplib.SMTPRecipientsRefused():
                codes = sorted({code for code, _ in error.recipients.values()})
                listed = ", ".join(map(str, codes))
                reason = f"accepts a message for none of its recipients ({listed})"
                retried = min(codes, default=500) < 500
            case smtplib.SMTPResponseException():
                reason = f"refused the message ({_answer(error)})"
                retried = error.smtp_code < 500
            case smtplib.SMTPNotSupportedError():
                reason = f"does not support what `tls` or `username` requires: {error}"
                retried = False
            case ssl.SSLCertVerificationError():
                message = f"the certificate of {host} is not valid: {error.verify_message}"
                return http_post.notification_error(message, retried=True)
            case TimeoutError():
                reason = f"did not take the message within {http_post.ATTEMPT_SECONDS:g} s"
            case _:
                reason = f"could not be reached: {one_line(str(error), ANSWER_CHARACTERS)}"
        return http_post.notification_error(f"{host} {reason}", retried=retried)


def _escaped(value: str) -> str:
    return html.escape(defuse_links(value))


def _answer(error: smtplib.SMTPResponseException) -> str:
    message = error.smtp_error
    text = message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message)
    return f"{error.smtp_code} {one_line(text, ANSWER_CHARACTERS)}"
