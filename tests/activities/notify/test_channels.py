"""§13: programs and Slack are notified over HTTP: signed, once, and where the operator chose."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from jsonschema import Draft202012Validator
from starlette.responses import Response, StreamingResponse
from temporalio.exceptions import ApplicationError

from holdfast.activities.notify.channels import NotificationChannels, load_notifiers
from holdfast.activities.notify.message_text import message_text
from holdfast.activities.notify.webhook import (
    MAX_SHOWN_ABSENCES,
    WebhookNotifier,
    signature,
    signing_secrets,
)
from holdfast.runtime import http_post as sending
from holdfast.runtime.absences import AbsenceReader
from holdfast.runtime.http_post import EnvironmentValue
from holdfast.runtime.secrets import REPLACED, Secrets
from holdfast.schemas.internal.absences import Absence
from tests.docs.page import File, steps
from tests.schemas.publish import FOLDER
from tests.support.news_receivers import DECIDED, SECRET, Listening, listening, news
from tests.support.process import ROOT
from tests.workflows.approvals.test_absences import absence_of

Make = Callable[..., NotificationChannels]
OLD_SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()


@pytest.fixture(scope="module")
async def server() -> AsyncIterator[Listening]:
    async with listening() as found:
        yield found


@pytest.fixture
def program(server: Listening) -> Listening:
    """A program that listens, has received nothing, and accepts everything."""
    server.heard, server.answer = [], Listening.answer
    return server


@pytest.fixture
def channels(tmp_path: Path, http: httpx.AsyncClient) -> Make:
    """Makes the channels of a worker whose file has this one, `desk`."""

    def make(
        channel: dict[str, Any], environ: dict[str, str], inbox: str = "https://inbox.x/"
    ) -> NotificationChannels:
        file = tmp_path / "notify.yaml"
        file.write_text(yaml.safe_dump({"inbox": inbox, "channels": {"desk": channel}}))
        return load_notifiers(file, environ, http)

    return make


def hook(program: Listening, **more: Any) -> dict[str, Any]:
    return {"webhook": {"url": program.url, "secretEnv": "SECRET"}, **more}


async def send(told: NotificationChannels, kind: str = "asked", **more: Any) -> None:
    await told.tell_people({"channel": "desk", "news": news(kind, **more).to_json()})


async def failure(told: NotificationChannels) -> ApplicationError:
    with pytest.raises(ApplicationError) as failed:
        await send(told)
    assert failed.value.type == "telling_failed"
    return failed.value


# A program.


def test_the_signature_is_that_of_the_standard() -> None:
    found = signature(
        signing_secrets(SECRET), "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'
    )
    assert found == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


async def test_the_receiver_of_the_docs_takes_what_is_signed_and_nothing_else(
    program: Listening, channels: Make
) -> None:
    page = steps(ROOT / "docs" / "operating" / "notifications.md")
    [text] = [step.text for step in page if isinstance(step, File) and step.name == "receive.py"]
    receiver: dict[str, Any] = {}
    exec(text, receiver)
    verified = receiver["verified"]
    await send(channels(hook(program), {"SECRET": f"{OLD_SECRET} {SECRET}"}))
    [heard] = program.heard
    assert heard.headers["content-type"] == "application/json"
    assert heard.headers["webhook-id"] == "question-asked"
    assert verified(heard.headers, heard.body, SECRET)
    assert verified(heard.headers, heard.body, OLD_SECRET)
    assert not verified(heard.headers, heard.body + b" ", SECRET)
    for header, value in (("webhook-id", "another"), ("webhook-timestamp", "1614265330")):
        assert not verified({**heard.headers, header: value}, heard.body, SECRET)


async def test_the_time_of_the_attempt_is_signed(
    program: Listening, http: httpx.AsyncClient
) -> None:
    hidden = EnvironmentValue("SECRET", {"SECRET": SECRET})
    await WebhookNotifier(program.url, hidden, http, clock=lambda: 1614265330.9).notify(news())
    assert program.heard[0].headers["webhook-timestamp"] == "1614265330"


async def test_where_a_program_listens_may_be_a_secret_too(
    program: Listening, channels: Make
) -> None:
    webhook = {"webhook": {"urlEnv": "URL", "secretEnv": "SECRET"}}
    told = channels(webhook, {"URL": program.url, "SECRET": SECRET})
    assert Secrets(told.secrets()).clean(program.url) == REPLACED
    await send(told)
    assert len(program.heard) == 1
    assert channels(webhook, {}).warnings() == [
        f"channel `desk`: the environment variable {name} is not set; no notifications are sent"
        for name in ("URL", "SECRET")
    ]


async def test_a_program_receives_the_published_news(program: Listening, channels: Make) -> None:
    told = channels(hook(program, content="full"), {"SECRET": SECRET})
    await send(told, "decided")
    said = program.heard[0].json
    assert said["type"] == "approval.decided"
    assert said["timestamp"] == "2026-01-02T03:04:05.678Z"
    schema = json.loads((FOLDER / "news.schema.json").read_text())
    Draft202012Validator(schema).validate(said["data"])
    assert said["data"]["waiting"]["arguments"] == {"order_id": "A-7", "amount": 120}
    assert said["data"]["decided"]["by"] == "bob"
    assert said["data"]["link"] == "https://inbox.x/run/order%2F7"


async def test_news_name_the_approvers_who_are_away_and_their_substitutes(
    program: Listening, channels: Make
) -> None:
    known = [absence_of("ada", "bob"), absence_of("eve", "bob", groups=["sales"])]

    class Known(AbsenceReader):
        async def read(self) -> list[Absence]:
            return known

    told = channels(hook(program), {"SECRET": SECRET}).with_absences(Known(None))  # type: ignore[arg-type]
    await send(told)
    await send(told, "decided")
    await send(told, waiting={"approvers": []})
    found, *others = [one.json["data"].get("absences") for one in program.heard]
    [shown] = found
    assert (shown["person"], shown["away"]["to"], "groups" in shown) == ("ada", "bob", False)
    assert others == [None, None]
    lines = dict(message_text(news(absences=known[:1])).lines)
    assert lines["Substitutes, if approvers"].startswith("bob for ada, who is away until ")

    known[1:] = [absence_of(f"p{n}", "bob") for n in range(MAX_SHOWN_ABSENCES)]
    await send(told)
    assert len(program.heard[-1].json["data"]["absences"]) == MAX_SHOWN_ABSENCES


async def test_a_link_leads_to_the_pending_approval_whatever_its_runs_id_holds(
    program: Listening, channels: Make
) -> None:
    told = channels(hook(program), {"SECRET": SECRET}, "https://acme.org/holdfast/")
    await send(told, workflow_id="a/b ?#%ä")
    link = program.heard[0].json["data"]["link"]
    assert link == "https://acme.org/holdfast/waiting/a%2Fb%20%3F%23%25%C3%A4/t2c1"


@pytest.mark.parametrize("kind", ["expired", "decided"])
async def test_once_it_is_over_a_link_leads_to_the_run(
    program: Listening, channels: Make, kind: str
) -> None:
    await send(channels(slack(), {"SLACK_URL": program.url}, "https://inbox.x/a&b"), kind)
    link = "<https://inbox.x/a&amp;b/run/order%2F7|Open the run>"
    said = program.heard[0].json
    assert said["blocks"][-1]["text"]["text"] == link
    assert (said["unfurl_links"], said["unfurl_media"]) == (False, False)


@pytest.mark.parametrize("content", ["brief", "none"])
async def test_a_channel_receives_no_more_than_its_settings_allow(
    program: Listening, channels: Make, content: str
) -> None:
    told = channels(hook(program, content=content), {"SECRET": SECRET})
    more = {"question": "Refund A-7?", "instance": "acme", "decisions": [DECIDED]}
    more |= {"effect": "refund of 120", "amount": "120.00 EUR"}
    away = [absence_of("zoe", "yan", groups=[])]
    await send(told, "decided", waiting=more, forwarded=["board"], absences=away)
    body = program.heard[0].body.decode()
    for hidden in ("A-7", "120", "broken", "too much"):
        assert hidden not in body
    people = ("ada", "bob", "zoe", "yan", "finance", "board")
    for shown in ("Refund an order", "refund", "desk", "acme", "d" * 64, *people):
        assert (shown in body) is (content == "brief")
    assert "order%2F7" in body


@pytest.mark.parametrize("status", [307, 400, 404, 409, 408, 425, 429, 500, 503])
async def test_a_busy_program_is_notified_again_and_one_that_refuses_is_not(
    program: Listening, channels: Make, status: int
) -> None:
    headers = {"location": "/elsewhere", "retry-after": "7"}
    program.answer = lambda _: Response(b"no such\nhook \xff", status, headers)
    failed = await failure(channels(hook(program), {"SECRET": SECRET}))
    assert failed.message.startswith(f"127.0.0.1 answered {status}: no such hook \ufffd")
    assert ("redirects are not followed" in failed.message) is (status == 307)
    assert failed.non_retryable is (status in (307, 400, 404, 409))
    if not failed.non_retryable:
        assert failed.next_retry_delay == timedelta(seconds=7)
    assert len(program.heard) == 1


async def test_a_program_that_cannot_be_reached_is_tried_again(channels: Make) -> None:
    unreachable = Listening(url="http://127.0.0.1:1/hook")
    failed = await failure(channels(hook(unreachable), {"SECRET": SECRET}))
    assert not failed.non_retryable
    assert failed.message == "127.0.0.1 cannot be reached: ConnectError"


async def test_a_program_that_never_answers_is_given_up_for_now(
    channels: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "ATTEMPT_SECONDS", 0.1)

    left = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        left.set()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        unreachable = Listening(url=f"http://127.0.0.1:{port}/")
        failed = await failure(channels(hook(unreachable), {"SECRET": SECRET}))
        await left.wait()
    assert failed.message == "127.0.0.1 did not answer within 0.1 s"
    assert not failed.non_retryable


async def test_of_an_answer_that_never_ends_only_the_beginning_is_read(
    program: Listening, channels: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "ATTEMPT_SECONDS", 120.0)
    heard = asyncio.Event()

    async def endless() -> AsyncIterator[str]:
        while not heard.is_set():
            yield "busy " * 100
            await asyncio.sleep(0.01)  # its pace

    program.answer = lambda _: StreamingResponse(endless(), status_code=503)
    failed = await failure(channels(hook(program), {"SECRET": SECRET}))
    heard.set()
    assert failed.message.startswith("127.0.0.1 answered 503: busy busy")
    assert len(failed.message) < 300


async def test_half_a_character_prevents_no_notification(
    program: Listening, channels: Make
) -> None:
    told = channels(hook(program, content="full"), {"SECRET": SECRET})
    await send(told, waiting={"arguments": {"text": "\ud800"}})
    assert program.heard[0].json["data"]["waiting"]["arguments"] == {"text": "\ud800"}


async def test_teams_gets_a_card_whose_button_opens_the_link(
    program: Listening, channels: Make
) -> None:
    teams = {"webhook": {"urlEnv": "URL", "format": "teams"}, "content": "full"}
    await send(channels(teams, {"URL": program.url}), waiting={"reasoning": "[a](https://e.vil)"})
    [heard] = program.heard
    assert "webhook-signature" not in heard.headers
    [attachment] = heard.json["attachments"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    title, facts = attachment["content"]["body"]
    assert title["text"] == "Approval needed: Refund an order"
    told = {fact["title"]: fact["value"] for fact in facts["facts"]}
    assert told["With amount"] == "120"
    assert "](" not in told["Why"]
    [action] = attachment["content"]["actions"]
    assert (action["type"], action["url"]) == (
        "Action.OpenUrl",
        "https://inbox.x/waiting/order%2F7/t2c1",
    )


# Slack.


def slack(**more: Any) -> dict[str, Any]:
    return {"slack": {"urlEnv": "SLACK_URL"}, **more}


async def test_slack_receives_what_would_happen_and_where_to_decide(
    program: Listening, channels: Make
) -> None:
    told = channels(slack(content="full"), {"SLACK_URL": program.url})
    await send(told)
    said = program.heard[0].json
    blocks = "\n".join(block["text"]["text"] for block in said["blocks"])
    for shown in (
        "*Approval needed: Refund an order*",
        "*Agent:* desk",
        "*With amount:* 120",
        "*Why:* It arrived broken.",
        "*Who decides:* members of finance, legal; 2 approvals needed",
        "*Until:* 2026-01-09 03:04 UTC; without a decision, it is denied",
        "<https://inbox.x/waiting/order%2F7/t2c1|Review and decide>",
    ):
        assert shown in blocks
        assert shown in f"*{said['text'].partition(chr(10))[0]}*\n{said['text']}"


async def test_a_models_words_make_no_link_no_mention_and_no_line_of_their_own(
    program: Listening, channels: Make
) -> None:
    told = channels(slack(content="full"), {"SLACK_URL": program.url})
    evil = "<!channel> <https://evil.example|Approve> @here https://evil.example `x` &lt; [a](b)\n*"
    values = {evil: evil, "*a:* ~b~": "*a:* ~b~"}
    await send(told, waiting={"label": evil, "reasoning": evil, "arguments": values})
    said = program.heard[0].json
    link = "<https://inbox.x/waiting/order%2F7/t2c1|Review and decide>"
    texts = [said["text"], *(block["text"]["text"] for block in said["blocks"])]
    assert "&lt;!channel&gt;" in texts[0]
    for text in (each.replace(link, "") for each in texts):
        assert not {"<", ">", "`", "~"} & set(text)
        for live in ("://", "@here", "evil.example", "](", "& ", "*a"):
            assert live not in text
        assert all(line.startswith(("Approval", "*")) or not line for line in text.split("\n"))
    assert all(block["text"]["verbatim"] for block in said["blocks"])


async def test_slack_takes_a_message_however_long_the_arguments_are(
    program: Listening, channels: Make
) -> None:
    told = channels(slack(content="full"), {"SLACK_URL": program.url})
    await send(told, waiting={"arguments": {f"a{n}": "&" * 10_000 for n in range(50)}})
    assert all(len(block["text"]["text"]) < 3_000 for block in program.heard[0].json["blocks"])


# What is secret.


async def test_what_the_environment_holds_is_kept_secret(channels: Make) -> None:
    url = "https://hooks.slack.com/services/T0/B0/Xy9zzzzzzzzzzzzzzz"
    found = Secrets(channels(slack(), {"SLACK_URL": url}).secrets())
    assert found.clean(f"POST {url}") == f"POST {REPLACED}"
    assert found.clean("/services/T0/B0/Xy9zzzzzzzzzzzzzzz") == f"/{REPLACED}"
    webhook = {"webhook": {"url": "https://x.example", "secretEnv": "SECRET"}}
    both = Secrets(channels(webhook, {"SECRET": f"{SECRET} {OLD_SECRET}"}).secrets())
    assert both.clean(f"{OLD_SECRET[6:]} {SECRET}") == f"{REPLACED} {REPLACED}"


def test_a_line_break_behind_a_secret_is_no_part_of_it() -> None:
    assert EnvironmentValue("SECRET", {"SECRET": f"{SECRET}\n"}).value() == SECRET


async def test_a_missing_secret_is_reported_at_start_and_when_it_is_needed(
    channels: Make,
) -> None:
    told = channels(slack(), {})
    assert told.warnings() == [
        "channel `desk`: the environment variable SLACK_URL is not set; no notifications are sent"
    ]
    failed = await failure(told)
    assert failed.non_retryable
    assert failed.message == "the environment variable SLACK_URL is not set"


async def test_another_worker_may_have_a_channel_that_this_one_has_not() -> None:
    failed = await failure(NotificationChannels())
    assert not failed.non_retryable
    assert "no channel `desk`" in failed.message
