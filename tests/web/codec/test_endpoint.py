"""The codec endpoint (§13), over real HTTP: what it shows, to which people, and its refusals."""

import asyncio
import base64
import hashlib
import json
import logging
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from starlette.requests import HTTPConnection
from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    ExternalStorage,
    StorageDriverStoreContext,
)

from holdfast.runtime.encryption.codec import EncryptionCodec
from holdfast.runtime.storage.folder import FolderStore
from holdfast.schemas import names
from holdfast.web import codec
from holdfast.web.codec import StoredReferences
from holdfast.web.http import requests, shared_secret
from holdfast.web.http.origins import read_origin
from holdfast.web.http.problems import RefusedRequest
from tests.encryption.keys import NEW, OLD, ring
from tests.web.codec.serving import SECRET, UI, Served, in_base64, read, served, written

PLAIN = Payload(metadata={"encoding": b"json/plain"}, data=b'{"note": "meet me at the boathouse"}')
OTHERS = "https://temporal.example.com"
FORM = "application/x-www-form-urlencoded"


async def encrypted(payload: Payload = PLAIN, id: str = NEW) -> Payload:
    [made] = await EncryptionCodec(ring(id)).encode([payload])
    return made


@pytest.fixture(scope="module")
async def one_for_all() -> AsyncIterator[Served]:
    """An endpoint with the new key, for the UI of this machine."""
    async with served(EncryptionCodec(ring(NEW))) as at:
        yield at


@pytest.fixture
def at(one_for_all: Served) -> Served:
    """The endpoint, once all that was before is forgotten."""
    one_for_all.clock.seconds += codec.SESSION_SECONDS
    one_for_all.http.cookies.clear()
    return one_for_all


@pytest.fixture
async def fresh() -> AsyncIterator[Served]:
    async with served(EncryptionCodec(ring(NEW))) as at:
        yield at


async def signed_in(at: Served) -> str:
    """Sign in; the cookie that a browser sends from then on."""
    answer = await at.sign_in()
    assert answer.status_code == 303
    at.http.cookies.clear()
    return str(answer.headers["set-cookie"].partition(";")[0])


# --- the protocol ----------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["", "/default", "/a/deep/path"])
async def test_it_decodes_and_encodes_payloads_under_any_path(at: Served, prefix: str) -> None:
    secret = await encrypted()
    assert read(await at.ask(f"{prefix}/decode", secret, PLAIN)) == [PLAIN, PLAIN]
    [encoded] = read(await at.ask(f"{prefix}/encode", PLAIN))
    assert encoded.metadata["encoding"] == b"binary/encrypted"
    assert read(await at.ask(f"{prefix}/decode", encoded)) == [PLAIN]


async def test_what_it_cannot_decrypt_is_returned_and_the_reason_logged(
    fresh: Served, caplog: pytest.LogCaptureFixture
) -> None:
    foreign, good = await encrypted(id=OLD), await encrypted()
    broken = Payload(metadata=good.metadata, data=good.data[:-1])
    for _ in range(2):
        answer = await fresh.ask("/decode", foreign, good, broken)
        assert read(answer) == [foreign, PLAIN, broken]
    told = [record.getMessage() for record in caplog.records if record.name == "holdfast"]
    assert len(told) == 2
    assert f"`{OLD}`" in told[0]
    assert not any("boathouse" in line for line in told)


async def test_a_reference_resolves_to_what_is_in_the_store(tmp_path: Path) -> None:
    store, codec = FolderStore(tmp_path), EncryptionCodec(ring(NEW))
    store.open()
    reference = await kept(store, await encrypted())
    async with served(codec, StoredReferences(store)) as at:
        assert read(await at.ask("/decode", reference)) == [PLAIN]
        assert read(await at.ask("/download", reference)) == [PLAIN]
        as_it_is = await at.ask("/decode?preserveStorageRefs=true", reference)
        assert read(as_it_is) == [reference]
        lost = await kept(FolderStore(tmp_path / "elsewhere"), await encrypted())
        assert read(await at.ask("/decode", lost)) == [lost]
        elsewhere = Payload(metadata=reference.metadata, data=renamed(reference.data))
        assert read(await at.ask("/decode", elsewhere)) == [elsewhere], "of another store"
        refused = await at.ask("/download", lost)
        assert refused.status_code == 502
        assert refused.json() == {"error": "that cannot be read; see the log of this endpoint"}


def renamed(reference: bytes) -> bytes:
    return reference.replace(names.STORE.encode(), b"others-own")


async def kept(store: FolderStore, payload: Payload) -> Payload:
    """Have the payload kept in the store, as Temporal's SDK does it; the reference to it."""
    store.open()
    storage = ExternalStorage(drivers=[store], payload_size_threshold=0)._with_store_context(
        StorageDriverStoreContext(target=None)
    )
    reference = await storage._store_payload(payload)
    assert names.STORE.encode() in reference.data
    return reference


async def test_without_a_store_there_is_nothing_to_download(at: Served) -> None:
    answer = await at.ask("/download", PLAIN)
    assert answer.status_code == 404  # what the UI takes for: this endpoint has no store
    assert "--store" in answer.json()["error"]


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{",
        "[]",
        "null",
        "7",
        '{"payloads": {}}',
        '{"payloads": [7]}',
        '{"payloads": [{"data": 7}]}',
        '{"payloads": [{"metadata": []}]}',
        "[" * 100_000,
        '{"payloads":' * 50_000,
        b"\xff\xfe",
    ],
)
async def test_what_is_no_json_of_payloads_is_refused(at: Served, body: str | bytes) -> None:
    headers = {"authorization": f"Bearer {SECRET}", "content-type": "application/json"}
    answer = await at.http.post("/decode", content=body, headers=headers)
    assert answer.status_code == 400
    assert answer.json() == {"error": 'write {"payloads": […]}, as JSON of Protobuf'}


async def test_what_a_newer_ui_adds_is_ignored(at: Served) -> None:
    sent = written([await encrypted()])
    body = json.dumps(sent | {"hint": 1})
    headers = {"authorization": f"bearer  {SECRET}", "content-type": "application/json"}
    assert read(await at.http.post("/decode", content=body, headers=headers)) == [PLAIN]


async def test_there_is_nothing_else_at_other_addresses(at: Served) -> None:
    for address in ("/", "/decoder", "/decode/"):
        assert (await at.ask(address)).status_code == 404
    answer = await at.http.get("/decode")
    assert answer.status_code == 405
    assert "POST" in answer.json()["error"]


# --- who may ask: programs -------------------------------------------------------------


@pytest.mark.parametrize(
    "sent",
    [
        {},
        {"authorization": SECRET},
        {"authorization": f"Basic {SECRET}"},
        {"authorization": f"Bearer {SECRET[:-1]}"},
        {"authorization": f"Bearer {SECRET}x"},
        {"authorization": "Bearer \xe9"},
        {"cookie": f"COOKIE={SECRET}", "origin": UI},
        {"cookie": "COOKIE=", "origin": UI},
    ],
)
async def test_nothing_is_shown_without_the_secret(at: Served, sent: dict[str, str]) -> None:
    headers = [
        (name.encode(), value.replace("COOKIE", at.cookie).encode("latin-1"))
        for name, value in sent.items()
    ]
    for verb in ("/decode", "/encode", "/download", "/nothing"):
        answer = await at.http.post(verb, json=written([PLAIN]), headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert list(answer.json()) == ["error"]
        assert SECRET not in answer.text


async def test_after_ten_wrong_secrets_an_address_has_to_wait(at: Served) -> None:
    cookie = await signed_in(at)
    for _ in range(shared_secret.MAX_FAILURES):
        assert (await at.ask("/decode", PLAIN, secret="x" * 20)).status_code == 401
    waiting = await at.ask("/decode", PLAIN)
    assert waiting.status_code == 429
    assert waiting.headers["retry-after"] == "60"
    refused = await at.sign_in()
    assert refused.status_code == 429
    assert "wait a minute" in refused.text
    # A person who had signed in before is not held up by one who guesses.
    shown = await at.http.post(
        "/decode", json=written([PLAIN]), headers={"cookie": cookie, "origin": UI}
    )
    assert read(shown) == [PLAIN]
    at.clock.seconds += shared_secret.FAILURES_SECONDS + 1
    assert read(await at.ask("/decode", PLAIN)) == [PLAIN]


async def test_a_form_of_many_fields_is_one_without_the_secret(at: Served) -> None:
    sent = {"origin": at.address}
    many = {str(n): "" for n in range(50)}
    assert (await at.http.post("/sign-in", data=many, headers=sent)).status_code == 401


def test_who_fails_is_remembered_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_secret, "MAX_ADDRESSES", 3)
    secret = shared_secret.Secret(SECRET, "the secret")
    for n in range(shared_secret.MAX_FAILURES):
        for address in ("10.0.0.1", f"10.0.1.{n}"):
            with pytest.raises(RefusedRequest, match="that is not the secret"):
                secret.check("wrong", sender(address))
    assert len(secret._failures) == 3
    with pytest.raises(RefusedRequest, match="wait a minute"):
        secret.check(SECRET, sender("10.0.0.1"))


def sender(address: str) -> HTTPConnection:
    return HTTPConnection({"type": "http", "client": (address, 1)})


# --- who may ask: browsers -------------------------------------------------------------


async def test_a_browser_signs_in_once_and_then_the_ui_is_served(at: Served) -> None:
    page = await at.http.get("/")
    assert '<form method="post" action="/sign-in">' in page.text
    signed = await at.sign_in()
    assert (signed.status_code, signed.headers["location"]) == (303, "/")
    cookie, *how = signed.headers["set-cookie"].split("; ")
    assert {one.lower() for one in how} == {
        *("httponly", "samesite=strict", "path=/", f"max-age={codec.SESSION_SECONDS}")
    }
    assert SECRET not in cookie
    assert "You are signed in" in (await at.http.get("/")).text
    at.http.cookies.clear()
    headers = {"cookie": cookie, "origin": UI}
    answer = await at.http.post("/decode", json=written([await encrypted()]), headers=headers)
    assert read(answer) == [PLAIN]


async def test_the_page_shows_the_setting_of_the_ui_and_how_long_it_is_valid(at: Served) -> None:
    await at.sign_in()
    at.clock.seconds += 3601
    text = (await at.http.get("/")).text
    assert f"<code>{at.address}</code>" in text
    assert UI in text
    assert "For another 7 h 00 min" in text
    at.clock.seconds += codec.SESSION_SECONDS - 3601
    assert "sign-in" in (await at.http.get("/")).text


async def test_a_session_ends_by_itself_and_by_signing_out(at: Served) -> None:
    for ends in ("time", "sign-out"):
        headers = {"cookie": await signed_in(at), "origin": UI}
        assert (await at.http.post("/decode", json={}, headers=headers)).status_code == 200
        if ends == "time":
            at.clock.seconds += codec.SESSION_SECONDS
        else:
            out = await at.http.post("/sign-out", headers=headers | {"origin": at.address})
            assert out.status_code == 303
            assert f'{at.cookie}=""' in out.headers["set-cookie"]
        assert (await at.http.post("/decode", json={}, headers=headers)).status_code == 401


def test_there_is_a_bound_to_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "MAX_SESSIONS", 3)
    sessions = codec.CodecSessions()
    opened = [sessions.open() for _ in range(5)]
    assert [sessions.left_seconds(one) > 0 for one in opened] == [False, False, True, True, True]


async def test_a_cookie_is_accepted_from_an_allowed_page_alone(at: Served) -> None:
    cookie = await signed_in(at)
    for origin, status in ((None, 401), (at.address, 401), ("https://evil.example", 403)):
        headers = {"cookie": cookie, **({} if origin is None else {"origin": origin})}
        answer = await at.http.post("/decode", json=written([PLAIN]), headers=headers)
        assert answer.status_code == status
        assert "access-control-allow-origin" not in answer.headers


async def test_only_its_own_page_signs_in_or_out(at: Served) -> None:
    for origin in (UI, "https://evil.example", "null", ""):
        assert (await at.sign_in(origin=origin)).status_code == 403
        assert (await at.http.post("/sign-out", headers={"origin": origin})).status_code == 403
    without = await at.http.post("/sign-in", data={"secret": SECRET})
    assert without.status_code == 403
    assert "set-cookie" not in without.headers
    wrong = await at.sign_in("not the secret")
    assert wrong.status_code == 401
    assert "that is not the secret" in wrong.text
    assert "set-cookie" not in wrong.headers


async def test_behind_https_the_cookie_is_secure() -> None:
    url = "https://codec.example.com"
    async with served(EncryptionCodec(ring(NEW)), origins=[OTHERS], url=url) as at:
        signed = await at.sign_in(origin=url, host="codec.example.com")
        cookie, *how = signed.headers["set-cookie"].split("; ")
        assert cookie.startswith("__Host-holdfast_codec=")
        assert "secure" in {one.lower() for one in how}
        headers = {"cookie": cookie, "origin": OTHERS, "host": "codec.example.com:443"}
        answer = await at.http.post("/decode", json=written([PLAIN]), headers=headers)
        assert read(answer) == [PLAIN]
        page = await at.http.get("/", headers=headers | {"origin": url})
        assert f"<code>{url}</code>" in page.text


# --- pages, names, sizes ---------------------------------------------------------------


async def test_only_named_pages_may_read_an_answer(at: Served) -> None:
    asked = {"access-control-request-method": "POST", "access-control-request-private-network": "x"}
    allowed = await at.http.options("/decode", headers={"origin": UI, **asked})
    assert allowed.status_code == 204
    assert allowed.headers["access-control-allow-origin"] == UI
    assert allowed.headers["access-control-allow-credentials"] == "true"
    assert "x-namespace" in allowed.headers["access-control-allow-headers"]
    assert allowed.headers["vary"] == "Origin"
    for origin in ("https://evil.example", "null", UI + "0", UI.replace("http", "https"), "*"):
        for answer in (
            await at.http.options("/decode", headers={"origin": origin, **asked}),
            await at.ask("/decode", PLAIN, origin=origin),
        ):
            assert answer.status_code == 403
            assert not [name for name in answer.headers if name.startswith("access-control")]
            assert "--origin" in answer.json()["error"]
    refused = await at.ask("/decode", PLAIN, secret="x" * 20, origin=UI)
    assert refused.headers["access-control-allow-origin"] == UI  # so the UI can show why


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8234", "127.0.0.1", ""])
async def test_a_foreign_host_name_that_points_here_is_refused(at: Served, host: str) -> None:
    assert (await at.ask("/decode", PLAIN, host=host)).status_code == 421
    assert (await at.http.get("/", headers={"host": host})).status_code == 421


async def test_its_names_on_this_machine_are_known(at: Served) -> None:
    port = at.address.rpartition(":")[2]
    for host in ("localhost", "127.0.0.1", "[::1]", "LOCALHOST"):
        assert read(await at.ask("/decode", PLAIN, host=f"{host}:{port}")) == [PLAIN]


@pytest.mark.parametrize("kind", ["text/plain", FORM, "multipart/form-data", "", "json"])
async def test_what_a_form_can_send_is_refused(at: Served, kind: str) -> None:
    headers = {"authorization": f"Bearer {SECRET}", "content-type": kind}
    body = json.dumps(written([PLAIN]))
    answer = await at.http.post("/decode", content=body, headers=headers)
    assert answer.status_code == 415


async def test_what_is_too_large_is_refused(at: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "MAX_PAYLOADS", 3)
    assert (await at.ask("/decode", *[PLAIN] * 3)).status_code == 200
    assert (await at.ask("/decode", *[PLAIN] * 4)).status_code == 413
    monkeypatch.setattr(codec, "MAX_BODY_BYTES", 1_000)
    assert (await at.ask("/decode", Payload(data=bytes(1_000)))).status_code == 413
    monkeypatch.setattr(codec, "MAX_FORM_BYTES", 100)
    assert (await at.sign_in("x" * 100)).status_code == 413


async def test_who_sends_nothing_does_not_stay(at: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "BODY_TIMEOUT_SECONDS", 0.05)
    host, _, port = at.address.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"POST /decode HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {SECRET}\r\n"
    head += "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    writer.write(head.encode())
    assert b" 408 " in await reader.readline()
    writer.close()


async def test_no_answer_is_kept_and_the_page_runs_nothing(at: Served) -> None:
    await at.sign_in()
    page = await at.http.get("/")
    policy = page.headers["content-security-policy"]
    style = page.text.partition("<style>")[2].partition("</style>")[0]
    allowed = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{allowed}'; ")
    assert "form-action 'self'; frame-ancestors 'none'; base-uri 'none'" in policy
    assert not re.search(r"<script|javascript:|\son\w+=|src=|href=", page.text)
    for answer in (page, await at.ask("/decode", PLAIN), await at.http.get("/decode")):
        assert answer.headers["cache-control"] == "no-store"
    assert page.headers["x-content-type-options"] == "nosniff"
    assert "server" not in page.headers


async def test_nothing_of_the_secret_or_the_content_is_logged(
    fresh: Served, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.INFO):
        await fresh.ask("/decode", await encrypted(), await encrypted(id=OLD))
        await fresh.ask("/decode", PLAIN, secret="another-secret-by-mistake")
        await fresh.sign_in("a third one by mistake")
    out, err = capfd.readouterr()
    said = "\n".join([caplog.text, out, err])
    assert OLD in said
    for planted in (SECRET, "boathouse", in_base64(PLAIN), "by-mistake", "by mistake"):
        assert planted not in said


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("http://127.0.0.1:8233", "http://127.0.0.1:8233"),
        ("http://localhost:8233/", "http://localhost:8233"),
        ("http://[::1]:8233", "http://[::1]:8233"),
        ("HTTPS://Temporal.Example.com:443", "https://temporal.example.com"),
        ("https://temporal.example.com:8443", "https://temporal.example.com:8443"),
    ],
)
def test_an_origin_is_read_as_browsers_write_it(written: str, read: str) -> None:
    assert read_origin(written) == read


@pytest.mark.parametrize(
    "written",
    [
        *("*", "null", "", "temporal.example.com", "https://*.example.com", "https://"),
        *("http://temporal.example.com", "http://127.0.0.1.evil.example", "http://localhost.evil"),
        *("https://a.example/path", "https://a.example?x", "https://a@b.example", "ftp://a.b"),
        *("https://a.example:99999", "https://a.example:x", "https://a b", "https://[::1"),
    ],
)
def test_what_is_no_origin_is_refused_with_what_to_write(written: str) -> None:
    with pytest.raises(ValueError, match="write https://HOST"):
        read_origin(written)
