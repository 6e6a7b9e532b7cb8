"""The gate of the inbox: nothing is shown to strangers, and nothing is done without a sender.

Every attack is tried against a real server: what a browser would send for another site, what
a program without a browser writes, and what is left of a session that is over.
"""

import asyncio
import json
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.responses import Response
from temporalio.client import Client

from holdfast.client.holdfast_client import HoldfastClient
from holdfast.runtime.text_sealer import TextSealer
from holdfast.web.auth import sessions, sign_in
from holdfast.web.auth.sessions import BearerTokens, Person
from holdfast.web.auth.sign_in import LinkSignIn, local_path
from holdfast.web.http import requests
from holdfast.web.http.streaming import RETRY_MILLISECONDS
from holdfast.web.pages import HEADERS
from holdfast.web.services import Services
from tests.support.inbox import PAGE, Stage, opened
from tests.web.auth.pages_of_test import pages
from tests.web.conftest import Clock

SECRET = "the-secret-of-all-instances"
STARTED = [f"retry: {RETRY_MILLISECONDS}", "", "event: started", "data: ", ""]
STILL_THERE = ": still there"
NOT_SENT = "the request does not come from a page of this inbox"


class Inboxes:
    """Opens inboxes, and signs people in."""

    def __init__(self, client: Client, stack: AsyncExitStack) -> None:
        self._client, self._stack = client, stack

    async def open(
        self, secret: str | None = SECRET, by: str = "ann", url: str | None = None
    ) -> Stage:
        sealed = TextSealer(secret)
        link = LinkSignIn(sealed, by, ("finance",))
        made = opened(
            Services(HoldfastClient(self._client)),
            link,
            BearerTokens(sealed, []),
            url=url,
            app=pages(),
        )
        stage = await self._stack.enter_async_context(made)
        stage.link = link.address(stage.address)
        return stage

    async def signed_in(self, **settings: Any) -> Stage:
        stage = await self.open(**settings)
        assert (await stage.http.get(stage.link)).status_code == 303
        stage.form_token = (await stage.get("/")).json()["form_token"]
        return stage


@pytest.fixture
def inboxes(nowhere: Client, clock: Clock, stack: AsyncExitStack) -> Inboxes:
    return Inboxes(nowhere, stack)


# --- signing in by the link -------------------------------------------------------------


async def test_the_link_signs_in_and_its_key_is_removed_from_the_address(inboxes: Inboxes) -> None:
    at = await inboxes.open()
    answer = await at.http.get(at.link)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"].lower()
    for part in ("httponly", "samesite=strict", "path=/", f"max-age={sessions.SESSION_SECONDS}"):
        assert part in cookie
    assert "secure" not in cookie, "over http, a browser would not keep it"
    shown = await at.get("/")
    assert shown.json()["name"] == "ann"
    assert shown.json()["groups"] == ["finance"]


async def test_the_key_can_be_entered_alone_or_as_the_link(inboxes: Inboxes) -> None:
    at = await inboxes.open()
    page = await at.get("/sign-in?next=/run/a")
    assert 'name="next" value="/run/a"' in page.text
    for key in (at.link, at.link.partition("key=")[2]):
        at.http.cookies.clear()
        answer = await at.post("/sign-in", {"key": f" {key} ", "next": "/run/a"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/run/a")
        assert (await at.get("/")).status_code == 200
    crowded = await at.post("/sign-in", {"key": at.link.replace("?", f"?{'x=1&' * 10}")})
    assert crowded.status_code == 401, "a text of any number of parts is not parsed"


async def test_who_guesses_has_to_wait(inboxes: Inboxes, clock: Clock) -> None:
    at = await inboxes.open()
    for _ in range(10):
        wrong = await at.get("/sign-in?key=guess")
        assert wrong.status_code == 401
        assert "That is not the key of this inbox" in wrong.text
    assert at.cookie not in at.http.cookies
    waiting = await at.http.get(at.link, headers=PAGE)
    assert (waiting.status_code, waiting.headers["retry-after"]) == (429, "60")
    there = httpx.AsyncHTTPTransport(local_address="127.0.0.2")
    async with httpx.AsyncClient(base_url=at.address, transport=there) as elsewhere:
        assert (await elsewhere.get(at.link)).status_code == 303, "no one keeps another out"
    clock.seconds += 61
    assert (await at.http.get(at.link)).status_code == 303


async def test_signing_in_returns_to_the_requested_page(inboxes: Inboxes) -> None:
    at = await inboxes.open()
    answer = await at.get("/run/order%2F7?x=%C3%A4")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/sign-in?next=%2Frun%2Forder%252F7%3Fx%3D%25C3%25A4"
    page = await at.get(answer.headers["location"])
    assert 'value="/run/order%2F7?x=%C3%A4"' in page.text


ELSEWHERE = (
    *("//evil.example", "/\\evil.example", "\\\\evil.example", "https://evil.example"),
    *("javascript:alert(1)", "/\t/evil.example", "/a\r\nSet-Cookie: x=1", " //evil.example"),
    *("", "evil", "/sign-out", "/sign-in?key=x", "/x" * 2_000, "/\u2028"),
)


async def test_no_sign_in_redirects_to_another_site(inboxes: Inboxes) -> None:
    assert {path: local_path(path) for path in ELSEWHERE} == dict.fromkeys(ELSEWHERE, "/")
    at = await inboxes.open()
    answer = await at.post("/sign-in", {"key": at.link, "next": ELSEWHERE[0]})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")


@given(st.text(alphabet="/\\.:@?#%\t\r\n ;evil", max_size=30))
def test_every_page_to_return_to_is_of_this_site(path: str) -> None:
    there = httpx.URL("http://127.0.0.1:1/sign-in").join(local_path(path))
    assert (there.scheme, there.host, there.port) == ("http", "127.0.0.1", 1)


# --- sessions ------------------------------------------------------------------------------


async def test_a_session_is_over_after_eight_hours(inboxes: Inboxes, clock: Clock) -> None:
    at = await inboxes.signed_in()
    clock.seconds += sessions.SESSION_SECONDS - 1
    assert (await at.get("/")).status_code == 200
    clock.seconds += 2
    assert (await at.get("/")).headers["location"] == "/sign-in"


async def test_any_instance_with_the_secret_knows_the_session(inboxes: Inboxes) -> None:
    one, same, other, own = [
        await inboxes.signed_in(),
        await inboxes.open(),
        await inboxes.open(secret="another-secret-than-theirs"),
        await inboxes.open(secret=None),
    ]
    value = one.http.cookies[one.cookie]
    kept = {"cookie": f"{same.cookie}={value}"}
    assert (await same.get("/", **kept)).json()["name"] == "ann"
    sent = await same.post("/decide", {"form_token": one.form_token, "a": "b"}, **kept)
    assert sent.json() == {"by": "ann", "fields": [["form_token", one.form_token], ["a", "b"]]}
    for stranger in (other, own):
        kept = {"cookie": f"{stranger.cookie}={value}"}
        assert (await stranger.get("/", **kept)).status_code == 303


def forged(cookie: str) -> dict[str, str]:
    half = len(cookie) // 2
    changed = "A" if cookie[half] != "A" else "B"
    person = json.dumps([10**12, {"name": "eve", "groups": []}])
    return {
        "one letter changed": cookie[:half] + changed + cookie[half + 1 :],
        "cut": cookie[:-4],
        "nothing": "",
        "no base64": "ä!§$%",
        "not sealed": urlsafe_b64encode(person.encode()).decode(),
        "very long": "A" * 20_000,
        "of another kind": TextSealer(SECRET).seal("going", {"name": "eve", "groups": []}, 600),
        "of another way": TextSealer(SECRET).seal(
            "session oidc", {"name": "eve", "groups": []}, 600
        ),
    }


async def test_a_forged_cookie_signs_no_one_in(inboxes: Inboxes) -> None:
    at = await inboxes.signed_in()
    cookie = at.http.cookies[at.cookie]
    at.http.cookies.clear()
    for why, each in forged(cookie).items():
        answer = await at.http.get("/", headers={b"cookie": f"{at.cookie}={each}".encode()})
        assert answer.status_code == 401, why


async def test_signing_out_is_for_this_browser(inboxes: Inboxes) -> None:
    at = await inboxes.signed_in()
    assert (await at.post("/sign-out", origin="https://evil.example")).status_code == 403
    own = at.http.headers.pop("origin")
    assert (await at.post("/sign-out", sec_fetch_site="cross-site")).status_code == 403
    at.http.headers["origin"] = own
    assert (await at.get("/")).status_code == 200
    answer = await at.post("/sign-out")
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-out")
    assert "You are signed out" in (await at.get("/sign-out")).text
    assert (await at.get("/")).status_code == 303


async def test_over_https_the_cookie_is_for_that_and_for_this_host_alone(inboxes: Inboxes) -> None:
    at = await inboxes.open(url="https://inbox.example")
    there = {"host": "inbox.example", "origin": "https://inbox.example"}
    path = at.link.removeprefix(at.address)
    cookie = (await at.http.get(path, headers=there)).headers["set-cookie"]
    assert cookie.startswith("__Host-holdfast_session=")
    assert "; Secure" in cookie
    value = cookie.partition(";")[0]
    assert (await at.get("/", **there, cookie=value)).status_code == 200
    in_the_open = value.removeprefix("__Host-")
    assert (await at.get("/", **there, cookie=in_the_open)).status_code == 303
    gone = (await at.post("/sign-out", **there)).headers["set-cookie"]
    assert gone.startswith('__Host-holdfast_session=""; ')
    assert "; Secure" in gone, "or a browser would keep the one that it has"


# --- forgery -------------------------------------------------------------------------------


async def test_another_name_is_refused(inboxes: Inboxes) -> None:
    at = await inboxes.signed_in()
    for host in ("evil.example", "127.0.0.1", "127.0.0.1:1", "localhost", ""):
        for path in ("/", "/sign-in", "/static/inbox.css"):
            answer = await at.http.get(path, headers={"host": host})
            assert answer.status_code == 421
            assert "name this one as `url` in its settings" in answer.text


async def test_of_what_another_page_sends_nothing_is_offered_again(inboxes: Inboxes) -> None:
    at = await inboxes.signed_in()
    at.http.headers["origin"] = "https://evil.example"
    for _ in ("signed in", "signed out"):
        answer = await at.post("/decide", {"decision": "approve"})
        assert (answer.status_code, NOT_SENT in answer.text) == (403, True)
        assert "approve" not in answer.text
        at.http.cookies.clear()


async def test_a_page_may_prove_its_origin_in_either_way(inboxes: Inboxes) -> None:
    at = await inboxes.signed_in()
    assert (await at.post("/decide", sec_fetch_site="same-origin")).status_code == 200
    del at.http.headers["origin"]
    assert (await at.post("/decide", sec_fetch_site="same-origin")).status_code == 200


async def test_a_form_needs_the_token_of_its_own_person(inboxes: Inboxes) -> None:
    at, hers = await inboxes.signed_in(), await inboxes.signed_in(by="eve")
    assert at.form_token != hers.form_token
    for token in ("", "x", hers.form_token, at.form_token + "A", "ä" * 43):
        answer = await at.post("/decide", {"form_token": token, "reason": "as <b>agreed</b>"})
        assert answer.status_code == 403
        assert "Nothing was decided or changed" in answer.text
        assert "You are signed in as <strong>ann</strong>" in answer.text
        assert 'name="reason" value="as &lt;b&gt;agreed&lt;/b&gt;"' in answer.text
        again = answer.text.partition('action="/decide"')[2]
        assert f'name="form_token" value="{at.form_token}"' in again, "hers to send again"
    assert (await at.http.post("/decide", headers=PAGE)).status_code == 403
    assert (await at.post("/decide")).json()["by"] == "ann"


async def test_what_is_no_form_needs_the_token_as_a_header(inboxes: Inboxes) -> None:
    at = await inboxes.signed_in()
    assert (await at.send("/runs", {"a": 1})).json() == {"by": "ann", "body": {"a": 1}}
    for headers in ({}, {"x-form-token": "x"}, {"x-form-token": ""}):
        answer = await at.http.post("/runs", json={"a": 1}, headers=headers)
        assert answer.status_code == 403
        assert answer.headers["content-type"] == "application/problem+json"
        assert NOT_SENT in answer.json()["detail"]
    in_body = {"form_token": at.form_token}
    plain = {"content-type": "text/plain"}
    for sent in ({"json": in_body}, {"content": json.dumps(in_body), "headers": plain}):
        assert (await at.http.post("/runs", **sent)).status_code == 403


async def test_a_caller_without_forms_has_no_form_token() -> None:
    sent = Request({"type": "http", "method": "POST", "headers": [(b"x-form-token", b"")]})
    assert not await requests.carries_token(sent, Person("till", via="token"))


async def test_what_was_written_is_kept_when_the_session_is_over(inboxes: Inboxes) -> None:
    at = await inboxes.signed_in()
    link, token = at.link, at.form_token
    at.http.cookies.clear()
    fields = {"reason": 'He said "no"', "digest": "abc", "empty": ""}
    answer = await at.post("/decide?order=a%26b", fields)
    assert answer.status_code == 401
    assert "You are no longer signed in. Nothing was decided" in answer.text
    assert 'href="/sign-in?next=%2Fdecide%3Forder%3Da%2526b" target="_blank"' in answer.text
    assert 'action="/decide?order=a%26b"' in answer.text
    assert 'name="reason" value="He said &#34;no&#34;"' in answer.text
    assert f'name="form_token" value="{token}"' in answer.text
    await at.http.get(link)
    again = await at.post("/decide", fields)
    assert again.json()["fields"][1:] == [list(each) for each in fields.items()]


@pytest.mark.timeout(30)
async def test_a_stranger_costs_the_inbox_linear_time(inboxes: Inboxes) -> None:
    at = await inboxes.open()
    openers = "\x90" * (requests.MAX_BODY_BYTES // 2 - 500)
    headers, files = {**PAGE, "origin": at.address}, {"a": (None, openers)}
    answer = await at.http.post("/decide", files=files, headers=headers)
    assert (answer.status_code, openers in answer.text) == (401, True)


async def test_of_a_form_with_large_files_the_text_is_kept_when_the_session_is_over(
    inboxes: Inboxes, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = await inboxes.signed_in()
    at.http.cookies.clear()
    file = b"x" * (2 * requests.MAX_BODY_BYTES)
    parts = {"form_token": (None, at.form_token), "text": (None, "Look at it.")}
    form = httpx.Request("POST", at.address, files={**parts, "files": ("a.pdf", file)})
    sent = form.read()
    answered, make = asyncio.Event(), sign_in.resubmission_page

    def answer_page(*given: Any) -> Response:
        answered.set()
        return make(*given)

    monkeypatch.setattr(sign_in, "resubmission_page", answer_page)

    async def slowly() -> AsyncIterator[bytes]:
        for n in range(0, 500_000, 100_000):
            yield sent[n : n + 100_000]
        await answered.wait()

    for body in (sent, slowly()):
        headers = {**PAGE, "content-type": form.headers["content-type"]}
        answer = await at.http.post("/run/order-7/message", content=body, headers=headers)
        assert answer.status_code == 401
        assert "You are no longer signed in." in answer.text
        assert "Not kept: the files." in answer.text
        assert "Look at it." in answer.text
        assert "Send again" not in answer.text, "it would be sent without its files"
        assert 'href="/sign-in?next=%2Frun%2Forder-7"' in answer.text
        assert 'href="/run/order-7">Reload' in answer.text, "a page, not the address of the form"
        monkeypatch.setattr(requests, "BODY_TIMEOUT_SECONDS", 0.2)
        answered.clear()
    assert (await at.http.post("/decide", content=sent, headers=headers)).status_code == 413


async def test_a_program_without_a_session_receives_that_in_json(inboxes: Inboxes) -> None:
    at = await inboxes.open()
    for method, path in (("GET", "/"), ("GET", "/events"), ("POST", "/runs"), ("GET", "/nothing")):
        answer = await at.http.request(method, path)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert answer.json()["detail"].startswith("Sign in on the page of this inbox")


async def test_every_response_has_the_security_headers(inboxes: Inboxes) -> None:
    at = await inboxes.signed_in()
    answers = [
        await at.get("/"),
        await at.get("/nothing"),
        await at.get("/health"),
        await at.get("/sign-in"),
        await at.get("/static/inbox.css"),
        await at.post("/decide", {"form_token": ""}),
        await at.http.get("/", headers={"host": "evil.example"}),
        await at.http.get("/", headers={"cookie": "x=y"}),
    ]
    for answer in answers:
        for name, value in HEADERS.items():
            assert answer.headers[name] == value
        is_static = answer.url.path.startswith("/static/")
        assert answer.headers["cache-control"] == ("no-cache" if is_static else "no-store")
        assert "server" not in answer.headers
        assert not [name for name in answer.headers if name.startswith("access-control")]
    policy = dict(each.split(" ", 1) for each in HEADERS["Content-Security-Policy"].split("; "))
    own = ("script-src", "style-src", "img-src", "connect-src", "form-action")
    nothing = ("default-src", "base-uri", "frame-ancestors")
    assert policy == dict.fromkeys(own, "'self'") | dict.fromkeys(nothing, "'none'")
    assert HEADERS["X-Frame-Options"] == "DENY"
    assert HEADERS["X-Content-Type-Options"] == "nosniff"
    assert HEADERS["Referrer-Policy"] == "same-origin"


# --- sizes ---------------------------------------------------------------------------------


async def test_a_form_is_read_within_bounds(inboxes: Inboxes) -> None:
    at = await inboxes.signed_in()
    largest = "x" * (requests.MAX_BODY_BYTES - len(f"form_token={at.form_token}&a="))
    assert (await at.post("/decide", {"a": largest})).status_code == 200
    assert (await at.post("/decide", {"a": largest + "x"})).status_code == 413
    assert (await at.post("/decide", {"a": "x" * 10_000_000})).status_code in (413, 400)
    many = {f"f{n}": "x" for n in range(requests.MAX_FIELDS - 1)}
    assert (await at.post("/decide", many)).status_code == 200
    told = await at.post("/decide", {**many, "one": "more"})
    assert (told.status_code, "Too many fields" in told.text) == (400, True)


async def test_a_form_may_come_in_parts_with_some_files_which_are_no_fields(
    inboxes: Inboxes,
) -> None:
    at = await inboxes.signed_in()
    parts = {"form_token": (None, at.form_token), "reason": (None, "zu spät")}
    answer = await at.http.post("/decide", files=parts)
    assert answer.json()["fields"][1] == ["reason", "zu spät"]
    file = ("reason", ("a.txt", b"x"))
    answer = await at.http.post("/decide", files=[*parts.items(), file])
    assert answer.json()["fields"][1:] == [["reason", "zu spät"]]
    many = [file] * (requests.MAX_FILES + 1)
    refused = await at.http.post("/decide", files=[*parts.items(), *many])
    assert (refused.status_code, "Too many files" in refused.text) == (400, True)
    for broken in ("multipart/form-data", "multipart/form-data; boundary=x"):
        sent = {"content-type": broken, "x-form-token": at.form_token}
        answer = await at.http.post("/decide", content=b"--y\r\nnothing", headers=sent)
        assert answer.status_code == 400


# --- streams, and the end ------------------------------------------------------------------


async def event_lines(at: Stage) -> AsyncIterator[str]:
    """The lines of a stream of events, from its first event to its end."""
    async with at.http.stream("GET", "/events") as answer:
        assert answer.status_code == 200
        async for line in answer.aiter_lines():
            yield line


async def test_streams_end_when_the_inbox_stops(inboxes: Inboxes) -> None:
    at = await inboxes.signed_in()
    seen = []
    async with asyncio.timeout(120):
        async for line in event_lines(at):
            seen.append(line)
            if line == "event: started":
                at.access.stopping.set()
    assert seen == STARTED


async def test_streams_end_with_their_session(inboxes: Inboxes, clock: Clock) -> None:
    at = await inboxes.signed_in()
    clock.seconds += sessions.SESSION_SECONDS - 0.2
    async with asyncio.timeout(120):
        assert [line async for line in event_lines(at)] == [*STARTED, STILL_THERE, ""]


def test_a_link_is_as_long_as_a_guess_would_take_for_ever() -> None:
    keys = {LinkSignIn(TextSealer(), "ann").address("") for _ in range(3)}
    assert len(keys) == 3
    assert all(len(key.partition("key=")[2]) >= 43 for key in keys)
    same = {LinkSignIn(TextSealer(SECRET), "ann").address("") for _ in range(3)}
    assert len(same) == 1, "of one secret, one link"


async def test_two_inboxes_on_one_machine_do_not_sign_each_other_out(inboxes: Inboxes) -> None:
    one, other = await inboxes.signed_in(), await inboxes.signed_in(secret=None, by="bob")
    both = f"{one.cookie}={one.http.cookies[one.cookie]}; "
    both += f"{other.cookie}={other.http.cookies[other.cookie]}"
    for at, name in ((one, "ann"), (other, "bob")):
        at.http.cookies.clear()
        assert (await at.get("/", cookie=both)).json()["name"] == name
