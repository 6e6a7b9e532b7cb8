"""§13: people are notified by mail: a real server, STARTTLS and a login."""

import asyncio
import smtplib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session
from temporalio.exceptions import ApplicationError

from holdfast.activities.notify.channels import NotificationChannels
from holdfast.activities.notify.mail import MailNotifier, message
from holdfast.activities.notify.webhook import MAX_SHOWN_ABSENCES
from holdfast.runtime import http_post
from holdfast.runtime.absences import AbsenceReader
from holdfast.runtime.decision_links import KIND, LINK_SECRET, DecisionLinks
from holdfast.runtime.http_post import EnvironmentValue
from holdfast.runtime.text_sealer import TextSealer
from holdfast.schemas.internal.absences import Absence
from holdfast.schemas.internal.selected_call import SelectedCall
from holdfast.schemas.settings.notify import Channel, Mail
from tests.runtime.test_tls import certificate
from tests.support.news_receivers import news
from tests.workflows.approvals.test_absences import absence_of

# A fixture.
__all__ = ["certificate"]

LOGIN, PASSWORD = "holdfast", "correct horse 9"


@dataclass
class Post:
    """A mail server: what it took, and its reply to each command."""

    port: int = 0
    taken: list[tuple[list[str], EmailMessage, bool]] = field(default_factory=list)
    to_recipient: str = "250 OK"
    to_data: str = "250 OK"
    # The one recipient whose messages alone `to_data` is for; the one that it refuses.
    data_of: str = ""
    refuses: str = ""
    # Whether it hangs up in place of its last reply.
    hangs_up: bool = False

    async def handle_RCPT(  # noqa: N802
        self, _: SMTP, __: Session, envelope: Envelope, address: str, ___: list[str]
    ) -> str:
        if address == self.refuses:
            return "550 no one here"
        if self.to_recipient.startswith("250"):
            envelope.rcpt_tos.append(address)
        return self.to_recipient

    async def handle_DATA(  # noqa: N802
        self, _: SMTP, session: Session, envelope: Envelope
    ) -> str:
        assert isinstance(envelope.content, bytes)
        said = message_from_bytes(envelope.content, policy=default)
        assert isinstance(said, EmailMessage)
        reply = self.to_data if self.data_of in ("", *envelope.rcpt_tos) else "250 OK"
        if reply.startswith("250"):
            self.taken.append((list(envelope.rcpt_tos), said, session.ssl is not None))
        return reply

    async def handle_QUIT(self, server: SMTP, _: Session, __: Envelope) -> str:  # noqa: N802
        if self.hangs_up:
            assert isinstance(server.transport, asyncio.Transport)  # a client is connected
            server.transport.abort()
        return "221 Bye"


@dataclass
class SlowPost(Post):
    """A mail server that replies to no message before it may."""

    has_message: asyncio.Event = field(default_factory=asyncio.Event)
    may_reply: asyncio.Event = field(default_factory=asyncio.Event)
    was_left: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle_DATA(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        self.has_message.set()
        await self.may_reply.wait()
        return await super().handle_DATA(server, session, envelope)

    async def handle_QUIT(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        self.was_left.set()
        return await super().handle_QUIT(server, session, envelope)


def _known(_: Any, __: Any, ___: Any, ____: str, said: Any) -> AuthResult:
    good = isinstance(said, LoginPassword) and said.login == LOGIN.encode()
    return AuthResult(success=good and said.password == PASSWORD.encode(), handled=False)


@asynccontextmanager
async def serving(post: Post, **how: Any) -> AsyncIterator[Post]:
    """The server, on this machine; `over_tls` uses TLS from the first byte."""
    over_tls = how.pop("over_tls", None)
    server = await asyncio.get_running_loop().create_server(
        lambda: SMTP(post, hostname="mail.test", **how), "127.0.0.1", 0, ssl=over_tls
    )
    async with server:
        post.port = server.sockets[0].getsockname()[1]
        yield post


@pytest.fixture
def context(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """A server's side of a certificate that this process trusts."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    monkeypatch.setattr(http_post, "ATTEMPT_SECONDS", 10.0)
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(certificate)
    return made


def secured(post: Post, context: ssl.SSLContext) -> Any:
    return serving(post, tls_context=context, auth_required=True, authenticator=_known)


def mail(post: Post, **more: Any) -> Mail:
    said = {"host": "127.0.0.1", "port": post.port, "from": "holdfast@acme.org"}
    return Mail.model_validate({**said, "to": ["ada@acme.org"], **more})


def login(post: Post, **more: Any) -> Mail:
    return mail(post, username=LOGIN, passwordEnv="PASSWORD", **more)


async def send(settings: Mail, kind: str = "asked", password: str = PASSWORD, **more: Any) -> None:
    hidden = EnvironmentValue("PASSWORD", {"PASSWORD": password})
    notifier = MailNotifier(settings, hidden if settings.password_env else None)
    served = Channel(mail=settings, content="full"), notifier
    told = {"channel": "desk", "news": news(kind, **more).to_json()}
    await NotificationChannels("https://inbox.x", {"desk": served}).tell_people(told)


def parts(said: EmailMessage) -> list[str]:
    """A message as a text and as a page."""
    return [part.get_content().replace("\r\n", "\n") for part in said.iter_parts()]


def linked(post: Post, *to: str) -> tuple[MailNotifier, list[str]]:
    """A channel that sends a message of its own to each of these, and their addresses."""
    addresses = [f"{name}@acme.org" for name in to]
    links = DecisionLinks(LINK_SECRET, {LINK_SECRET: "s" * 32}, "https://inbox.x")
    return MailNotifier(mail(post, tls="none", to=addresses), None, links), addresses


def reached(post: Post) -> list[str]:
    """Who has received a message, in order."""
    return [to.partition("@")[0] for recipients, _, _ in post.taken for to in recipients]


async def failure(settings: Mail, **more: Any) -> ApplicationError:
    with pytest.raises(ApplicationError) as failed:
        await send(settings, **more)
    assert failed.value.type == "telling_failed"
    assert PASSWORD not in failed.value.message
    return failed.value


async def test_a_mail_goes_over_a_secured_connection_by_one_who_logged_in(
    context: ssl.SSLContext,
) -> None:
    async with secured(Post(), context) as post:
        await send(login(post))
        [(recipients, said, is_secured)] = post.taken
    assert (recipients, is_secured) == (["ada@acme.org"], True)
    assert said["subject"] == "Approval needed: Refund an order"
    assert (said["from"], said["to"]) == ("holdfast@acme.org", "ada@acme.org")
    assert said["message-id"] == "<question-asked@acme.org>"
    assert said["references"] == "<question@acme.org>"
    assert said["auto-submitted"] == "auto-generated"
    plain, page = parts(said)
    assert "With amount: 120\n" in plain
    assert "Until: 2026-01-09 03:04 UTC; without a decision, it is denied\n" in plain
    assert "https://inbox.x/waiting/order%2F7/t2c1\n" in plain
    assert '<a href="https://inbox.x/waiting/order%2F7/t2c1">Review and decide</a>' in page


@pytest.mark.parametrize("tls", ["tls", "none"])
async def test_tls_from_the_first_byte_or_on_this_machine_unencrypted(
    context: ssl.SSLContext, tls: str
) -> None:
    async with serving(Post(), over_tls=context if tls == "tls" else None) as post:
        await send(mail(post, tls=tls))
        assert len(post.taken) == 1


@pytest.mark.parametrize("tls", ["starttls", "tls"])
async def test_nothing_is_sent_to_a_server_with_another_certificate(
    context: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch, tls: str
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    secure = serving(Post(), over_tls=context) if tls == "tls" else secured(Post(), context)
    async with secure as post:
        failed = await failure(login(post, tls=tls))
        assert "the certificate of 127.0.0.1 is not valid" in failed.message
        assert post.taken == []


@pytest.mark.parametrize(("tls", "port"), [("starttls", 587), ("tls", 465), ("none", 25)])
async def test_a_server_is_asked_at_the_port_for_how_it_is_secured(
    monkeypatch: pytest.MonkeyPatch, tls: str, port: int
) -> None:
    def busy(_: str, asked: int, **__: Any) -> None:
        raise smtplib.SMTPConnectError(421, f"not now, {asked}".encode() + b"\xff")

    monkeypatch.setattr(smtplib, "SMTP", busy)
    monkeypatch.setattr(smtplib, "SMTP_SSL", busy)
    failed = await failure(mail(Post(port=1), port=None, tls=tls))
    assert failed.message == f"127.0.0.1 refused the message (421 not now, {port}\ufffd)"
    assert not failed.non_retryable


async def test_a_server_that_cannot_secure_the_connection_gets_no_mail() -> None:
    async with serving(Post()) as post:
        failed = await failure(mail(post))
        assert (failed.non_retryable, post.taken) == (True, [])
        assert "does not support what `tls` or `username` requires" in failed.message


async def test_a_wrong_password_is_not_tried_again(context: ssl.SSLContext) -> None:
    async with secured(Post(), context) as post:
        failed = await failure(login(post), password="wrong")
        assert failed.non_retryable
        assert "refused the login (535" in failed.message


@pytest.mark.parametrize(
    ("to_recipient", "to_data", "is_final"),
    [
        ("450 busy", "250 OK", False),
        ("550 no one here", "250 OK", True),
        ("250 OK", "451 later", False),
        ("250 OK", "554 spam", True),
    ],
)
async def test_what_may_pass_is_tried_again(
    to_recipient: str, to_data: str, is_final: bool
) -> None:
    async with serving(Post(to_recipient=to_recipient, to_data=to_data)) as post:
        failed = await failure(mail(post, tls="none", to=["ada@acme.org", "bob@acme.org"]))
        assert failed.non_retryable is is_final


async def test_a_refused_recipient_is_reported_and_no_mail_is_sent_twice(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(Post(refuses="bob@acme.org", hangs_up=True)) as post:
        await send(mail(post, tls="none", to=["ada@acme.org", "bob@acme.org"]))
        assert [recipients for recipients, _, _ in post.taken] == [["ada@acme.org"]]
    assert caplog.messages == ["127.0.0.1 refused 1 of the recipients"]


@pytest.mark.parametrize("is_final", [True, False])
async def test_a_refused_message_keeps_back_no_other_and_no_other_is_sent_twice(
    caplog: pytest.LogCaptureFixture, *, is_final: bool
) -> None:
    reply = "554 spam" if is_final else "451 later"
    async with serving(Post(to_data=reply, data_of="bob@acme.org")) as post:
        notifier, addresses = linked(post, "ada", "bob", "eve")
        if is_final:
            await notifier.notify(news(), addresses)
        else:
            with pytest.raises(ApplicationError, match=reply) as failed:
                await notifier.notify(news(), addresses)
            assert not failed.value.non_retryable
        assert reached(post) == ["ada", "eve"]
        post.to_data = "250 OK"
        await notifier.notify(news(), addresses)
        assert reached(post) == ["ada", "eve", "bob"]
    assert caplog.messages == ["127.0.0.1 refused 1 of the recipients"] * is_final


async def test_an_attempt_that_is_over_sends_nothing_more_and_the_next_one_only_the_rest() -> None:
    async with serving(SlowPost()) as post:
        assert isinstance(post, SlowPost)
        notifier, addresses = linked(post, "ada", "bob", "eve")
        attempt = asyncio.create_task(notifier.notify(news(), addresses))
        await post.has_message.wait()
        attempt.cancel()
        with pytest.raises(asyncio.CancelledError):
            await attempt
        post.may_reply.set()
        await post.was_left.wait()
        assert reached(post) == ["ada"]
        await notifier.notify(news(), addresses)
        assert reached(post) == ["ada", "bob", "eve"]


async def test_a_server_that_cannot_be_reached_is_tried_again() -> None:
    failed = await failure(mail(Post(port=1), tls="none"))
    assert not failed.non_retryable
    assert "127.0.0.1 could not be reached" in failed.message


async def test_a_slow_server_is_given_up_for_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_post, "ATTEMPT_SECONDS", 0.5)
    left = asyncio.Event()

    async def slow(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Greet, and never come to an end of it."""
        with suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(120):
                while not left.is_set():
                    writer.write(b"220-wait\r\n")
                    await writer.drain()
                    await asyncio.sleep(0.1)  # its pace
        writer.close()

    async with await asyncio.start_server(slow, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        failed = await failure(mail(Post(port=port), tls="none"))
        left.set()
    assert failed.message == "127.0.0.1 did not take the message within 0.5 s"
    assert not failed.non_retryable


@pytest.mark.parametrize(
    ("approvers", "recipients"),
    [
        (["finance"], ["ada@acme.org", "fin@acme.org"]),
        (["legal"], ["ada@acme.org", "law@acme.org"]),
        (["board"], ["ada@acme.org"]),
        ([], ["ada@acme.org", "fin@acme.org", "law@acme.org"]),
    ],
)
def test_a_group_receives_what_it_decides_on(approvers: list[str], recipients: list[str]) -> None:
    groups = {"finance": ["fin@acme.org", "ada@acme.org"], "legal": ["law@acme.org"]}
    notifier = MailNotifier(mail(Post(port=1), toGroups=groups), None)
    assert notifier.recipients(news(waiting={"approvers": approvers})) == recipients


def test_a_forward_is_mailed_to_its_groups_alone() -> None:
    groups = {"finance": ["fin@acme.org"], "legal": ["law@acme.org"]}
    notifier = MailNotifier(mail(Post(port=1), toGroups=groups), None)
    told = news(waiting={"approvers": ["finance", "legal"]}, forwarded=["legal"])
    assert notifier.recipients(told) == ["ada@acme.org", "law@acme.org"]


@pytest.mark.parametrize(
    ("forwarded", "recipients"), [([], ["fin", "dan"]), (["board"], ["dan", "fin"])]
)
async def test_without_content_it_is_mailed_to_the_same_people_and_names_no_group(
    forwarded: list[str], recipients: list[str]
) -> None:
    class Known(AbsenceReader):
        async def read(self) -> list[Absence]:
            return [absence_of("dan@acme.org", "fin@acme.org")]

    groups = {name: [f"{name[:3]}@acme.org"] for name in ("finance", "legal")}
    async with serving(Post()) as post:
        settings = mail(post, tls="none", to=[], toGroups={**groups, "board": ["dan@acme.org"]})
        served = Channel(mail=settings, content="none"), MailNotifier(settings, None)
        channels = NotificationChannels("https://inbox.x", {"desk": served}, Known(None))  # type: ignore[arg-type]
        told = news(waiting={"approvers": ["finance", "board"]}, forwarded=forwarded)
        await channels.tell_people({"channel": "desk", "news": told.to_json()})
    assert reached(post) == recipients
    plain, page = parts(post.taken[0][1])
    assert not [name for name in ("finance", "board", "away") if name in plain + page]


@pytest.mark.parametrize(
    ("person", "to", "added"),
    [
        ("law@acme.org", "FIN@acme.org", ["fin@acme.org"]),
        ("ada@acme.org", "fin@acme.org", ["fin@acme.org"]),
        ("law@acme.org", "eve@acme.org", []),
        ("law@acme.org", "hr@acme.org", []),
        ("eve@acme.org", "fin@acme.org", []),
    ],
    ids=["forwarded", "always told", "unlisted", "of another group", "for no recipient"],
)
def test_a_substitute_receives_it_if_listed_for_a_group_that_decides(
    person: str, to: str, added: list[str]
) -> None:
    groups = {"finance": ["fin@acme.org"], "legal": ["law@acme.org"], "hr": ["hr@acme.org"]}
    notifier = MailNotifier(mail(Post(port=1), toGroups=groups), None)
    waiting = {"approvers": ["finance", "legal"]}
    told = news(waiting=waiting, forwarded=["legal"], absences=[absence_of(person, to)])
    assert notifier.recipients(told) == ["ada@acme.org", "law@acme.org", *added]
    others = [absence_of(f"p{n}@acme.org", to) for n in range(MAX_SHOWN_ABSENCES)]
    told = told.model_copy(update={"absences": [*others, *told.absences]})
    assert notifier.recipients(told) == ["ada@acme.org", "law@acme.org", *added]


async def test_each_gets_a_link_of_their_own_that_decides_as_far_as_they_may() -> None:
    secret = {LINK_SECRET: "s" * 32}
    links = DecisionLinks(LINK_SECRET, secret, "https://inbox.x")
    asked = news(waiting={"nonce": "n" * 64, "expires_at": "2126-01-09T03:04:05.678Z"})
    async with serving(Post(refuses="eve@acme.org")) as post:
        groups = {"finance": ["fin@acme.org", "eve@acme.org"]}
        settings = mail(post, tls="none", toGroups=groups, links=True)
        told = asked.model_copy(update={"link": "https://inbox.x/waiting/order%2F7/t2c1"})
        notifier = MailNotifier(settings, None, links)
        await notifier.notify(told, notifier.recipients(told))
    found = {}
    for [recipient], said, _ in post.taken:
        plain = parts(said)[0]
        link = plain.partition("Review and decide:\n")[2].partition("\n")[0]
        found[recipient] = (link, "do not forward it" in plain)
    # This one is in no group that decides.
    assert found["ada@acme.org"] == (told.link, False)
    link, warns = found["fin@acme.org"]
    assert (link.startswith("https://inbox.x/decide/"), warns) == (True, True)
    opened = TextSealer("s" * 32).open(KIND, link.removeprefix("https://inbox.x/decide/"))
    assert opened is not None
    call = str(SelectedCall.of("order/7", asked.waiting))
    assert opened.values == {"call": call, "by": "fin@acme.org", "groups": ["finance"]}
    assert len({said["message-id"] for _, said, _ in post.taken}) == len(found) == 2


@pytest.mark.parametrize(
    "waiting",
    [{"kind": "plan"}, {"signed": True}, {"nonce": ""}, {"digest": ""}, {"approvers": ["legal"]}],
)
def test_what_a_link_cannot_decide_leads_to_the_inbox(waiting: dict[str, Any]) -> None:
    links = DecisionLinks(LINK_SECRET, {LINK_SECRET: "s" * 32}, "https://inbox.x")
    told = news(waiting={"nonce": "n" * 64, **waiting}, link="https://inbox.x/waiting/a/b")
    assert links.personal(told, "ada", ["finance"]) == told
    over = news("decided", {"nonce": "n" * 64}, link="https://inbox.x/run/a")
    assert links.personal(over, "ada", ["finance"]) == over


async def test_without_a_recipient_no_server_is_contacted() -> None:
    await send(mail(Post(port=1), to=[], toGroups={"board": ["b@acme.org"]}))


def test_a_models_words_make_no_header_no_link_and_no_markup() -> None:
    evil = "x\r\nBcc: eve@evil.example\r\n\r\n<a href='https://evil.example'>Approve</a>"
    told = news(waiting={"label": evil, "reasoning": evil, "arguments": {evil: evil}})
    linked = told.model_copy(update={"link": "https://inbox.x/a&b/waiting/order%2F7/t2c1"})
    said = message(linked, mail(Post(port=1)), ["ada@acme.org"])
    assert said["bcc"] is None
    plain, page = parts(said)
    assert "\nBcc" not in plain
    for text in (plain, page, str(said["subject"])):
        assert "https://evil" not in text
        assert "evil.example" not in text
    assert page.count("<a ") == 1
    assert '<a href="https://inbox.x/a&amp;b/waiting/order%2F7/t2c1">' in page
    assert "&lt;a href" in page
