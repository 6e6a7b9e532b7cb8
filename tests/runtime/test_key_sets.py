"""§13: key sets are checked at start, rotated without a restart, and never asked for in a hurry."""

import asyncio
import contextlib
import json
import logging
import textwrap
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from temporalio.exceptions import ApplicationError

from holdfast.activities.check_token import CheckTokenActivity
from holdfast.catalog.endpoints import http_client
from holdfast.runtime.identity import key_sets
from holdfast.runtime.identity.key_sets import (
    BETWEEN_FETCHES_SECONDS,
    MAX_SET_BYTES,
    FileKeySet,
    KeysUnavailableError,
    LiveKeySet,
    UrlKeySet,
    issuer_warnings,
    load_key_sets,
)
from holdfast.runtime.identity.public_keys import MAX_KEYS, PublicKey, parse_key_set
from holdfast.runtime.settings_files.file_problems import LoadError
from holdfast.runtime.settings_files.source import Source
from holdfast.schemas.settings.keys import KeySet
from tests.support.identity.signing import ADA, BOB, EVE, NONCE, Signer, jwks, rsa, rsa_key

# What is read when the worker starts.


def load(folder: Path, text: str, name: str = "keys.yaml") -> list[LiveKeySet]:
    """The sets of a file with this text, beside which there are some files with keys."""
    (folder / "ada.json").write_text(jwks(ADA))
    (folder / "bob.pem").write_text(BOB.pem())
    (folder / name).write_text(textwrap.dedent(text))
    return list(load_key_sets(str(folder / name), http_client()))


def refused(folder: Path, text: str, name: str = "keys.yaml") -> str:
    """Why such a file does not load."""
    with pytest.raises(LoadError) as error:
        load(folder, text, name)
    assert all(problem.fix for problem in error.value.problems)
    return str(error.value).replace(f"{folder}/", "")


async def signs(keys: LiveKeySet, signer: Signer) -> bool:
    """Whether a decision of theirs counts."""
    return await sign([keys], signer)


async def sign(sets: Sequence[LiveKeySet], signer: Signer) -> bool:
    """The same with several sets."""
    check = {"token": signer.token(), "purpose": "decision", "nonce": NONCE}
    try:
        await CheckTokenActivity(sets).check_token(check)
    except ApplicationError as error:
        if error.type == "invalid_token":
            return False
        raise
    return True


async def test_sets_are_in_a_file_by_name(tmp_path: Path) -> None:
    text = """
        $schema: schemas/keys.schema.json
        people: {file: ada.json, for: [decisions], leeway: 5s}
        others: {file: bob.pem, issuer: bob}
        provider: {url: "https://id.example/jwks.json", audience: us, for: [inbox], refresh: 1h}
        here: {url: "http://127.0.0.1:1/jwks.json"}
    """
    sets = load(tmp_path, text)
    assert [keys.name for keys in sets] == ["people", "others", "provider", "here"]
    assert await signs(sets[0], ADA)


@pytest.mark.parametrize(
    ("name", "text", "signer"),
    [
        ("set.json", jwks(ADA), ADA),
        ("set", jwks(ADA, rsa()), rsa()),
        ("set.yaml", jwks(ADA), ADA),
        ("set.pem", ADA.pem(), ADA),
        ("set.json", f"# Ada and Bob\n{ADA.pem()}\n{BOB.pem()}", BOB),
        ("set.pem", rsa().pem().replace("\n", "\r\n"), rsa()),
    ],
)
async def test_a_file_with_keys_is_one_set(
    tmp_path: Path, name: str, text: str, signer: Signer
) -> None:
    [keys] = load(tmp_path, text, name)
    assert await signs(keys, signer)
    assert not await signs(keys, EVE)


async def test_an_address_is_one_set() -> None:
    [keys] = load_key_sets("https://id.example/jwks.json", http_client())
    assert isinstance(keys, UrlKeySet)


TWO_ISSUERS = """
    service: {file: ada.json, for: [decisions]}
    staff: {file: ada.json, issuer: "https://login.example/"}
    also: {url: "https://login.example/keys", issuer: "https://login.example"}
    partner: {file: bob.pem, issuer: "https://partner.example"%s}
"""


def test_a_name_belongs_to_its_issuer_unless_its_set_has_a_subject(tmp_path: Path) -> None:
    named = [each.settings.subject for each in load(tmp_path, TWO_ISSUERS % "")]
    assert named == [None, None, None, "{sub} @ https://partner.example"]
    file, home = str(tmp_path / "keys.yaml"), "https://partner.example"
    sets = load_key_sets(file, http_client(), home=home)
    named = [each.settings.subject for each in sets]
    assert named == [None, *["{sub} @ https://login.example" + end for end in ("/", "")], None]
    for own in ("bob", "{sub}", "{sub}@partner"):
        told = load(tmp_path, TWO_ISSUERS % f', for: [inbox], subject: "{own}"')
        assert (told[-1].settings.subject, issuer_warnings(told)) == (own, [])


def test_equal_subjects_of_two_issuers_are_one_warning(tmp_path: Path) -> None:
    [warning] = issuer_warnings(load(tmp_path, TWO_ISSUERS % ""))
    assert str(warning).startswith("--keys: people of partner are named `SUB @ ISSUER`")
    assert 'write `subject: "{sub}@…"` there' in warning.fix


def jwk(signer: Signer = ADA, **more: Any) -> str:
    """Return a set of one key with these fields; None leaves a field out."""
    return json.dumps({"keys": [signer.jwk(**more)]})


OTHERS = """-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEEVs/o5+uQbTjL3chynL4wXgUg2R9
q9UU8I5mEovUf86QZ7kOBIjJwqnzD1omageEHWwHdBO6B+dFabmdT9POxg==
-----END PUBLIC KEY-----
"""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{}", "keys.yaml:1: key sets are listed by name"),
        ("$schema: keys.schema.json", "keys.yaml:1: key sets are listed by name"),
        ("- a", "key sets are listed by name; write each under a name of your own"),
        ("file: ada.json", "keys.yaml:1: key sets are listed by name"),
        (f"a: {{file: {json.dumps(ADA.private_pem())}}}", "`a.file`: this is a key; put it in a"),
        ("a:\n  file: ada.json\n  for: []", "keys.yaml:3: "),
        ("a: {file: ada.json, for: [decisions], may: [read]}", "`a`: `may` limits the tokens of"),
        ("a: {file: ada.json, subject: '{sub}@a'}", "`subject` with `{sub}` names principals and"),
        ("a: {file: ada.json, audience: us}", "`a`: tokens of one `audience` are for one use"),
        (
            "a: {file: ada.json, audience: holdfast:principal, for: [inbox]}",
            "`audience` holdfast:principal belongs to another use; write another",
        ),
        (
            "a: {file: ada.json, audience: us, for: [inbox]}\n"
            "b: {file: bob.pem, audience: us, for: [decisions]}",
            "`b` is for decisions, and its `audience` us belongs to another use",
        ),
        (
            "a:\n  url: http://127.0.0.1.nip.io/x",
            "can be changed in transit; write https",
        ),
        ("a:\n  url: file:///etc/keys", "is no web address"),
        ("a:\n  url: 'https://bob:secret@id.example/x'", "holds a user's name or password"),
        ("\n".join(f"a{n}: {{file: ada.json}}" for n in range(101)), "100 items"),
    ],
)
def test_settings_that_do_not_load_are_reported_with_their_line(
    tmp_path: Path, text: str, says: str
) -> None:
    told = refused(tmp_path, text)
    assert says in told
    assert "secret@" not in told
    assert "BEGIN" not in told


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{\n"keys": []}', "set.json:2: `keys`: there is no key in it; add one"),
        ('{"keys": [1]}', "`keys[0]`: a key is an object"),
        ('{"keys": [{}]}', "`keys[0]`: `kty` is missing; add it"),
        (jwk(d="AAAA"), "this is a private key; write its public key here"),
        (jwk(rsa(), p="AAAA"), "this is a private key"),
        (jwk(kty="EC"), "`kty` `EC` is not read; Ed25519 (kty `OKP`) and RSA are read"),
        (jwk(kty=7), "`kty` `7` is not read"),
        (jwk(crv="Ed448"), "`crv` `Ed448` is not read; write `Ed25519`"),
        (jwk(crv=None), "`crv` `null` is not read"),
        (jwk(use="enc"), "`use` `enc` is not read; only keys for signatures"),
        (jwk(alg="RS256"), "`alg` `RS256` is not read; a key of kty `OKP` is read for `EdDSA`"),
        (jwk(rsa(), alg="PS256"), "`alg` `PS256` is not read"),
        (jwk(key_ops=["sign"]), "a key is to be for `verify`"),
        (jwk(kid=7), "`kid` does not fit; write a text"),
        (jwk(kid="k" * 501), "`kid` does not fit"),
        (jwk(x="AAAA"), "this is no OKP key; copy it again, whole"),
        (jwk(x=7), "this is no OKP key"),
        (jwk(rsa(), n=None), "this is no RSA key"),
        (jwk(rsa(), e="AA"), "this is no RSA key"),
        (
            jwk(Signer(rsa_key(0, 1024))),
            "an RSA key of 1024 bits is not accepted; make one of 2048",
        ),
        (json.dumps({"keys": [ADA.jwk()] * (MAX_KEYS + 1)}), f"keep at most {MAX_KEYS}"),
        (f"{ADA.pem()}{ADA.private_pem()}", "set.json:4: this is a private key"),
        (OTHERS, "set.json:1: this is a key of another type; make one of Ed25519 or RSA"),
        (Signer(rsa_key(0, 1024)).pem(), "an RSA key of 1024 bits"),
        (ADA.pem().replace("PUBLIC KEY", "CERTIFICATE"), "is a `CERTIFICATE`, and no public key"),
        (ADA.pem().replace("MCow", "MCox"), "set.json:1: this is no public key"),
        (ADA.pem()[:-10], "this PEM is incomplete"),
        (ADA.pem() * (MAX_KEYS + 1), f"keep at most {MAX_KEYS}"),
    ],
)
def test_what_is_no_public_key_for_signatures_is_refused_with_its_line(
    tmp_path: Path, text: str, says: str
) -> None:
    told = refused(tmp_path, text, "set.json")
    assert says in told
    assert told.startswith("set.json:")
    assert "AAAA" not in told


def test_a_refused_key_is_reported_in_its_own_file(tmp_path: Path) -> None:
    (tmp_path / "eve.json").write_text('{"keys": [\n  {"kty": "oct", "k": "c2VjcmV0"}\n]}')
    told = refused(tmp_path, "a: {file: eve.json}\nb: {file: eve.json}")
    assert told.startswith("eve.json:2: `keys[0]`: this is a shared secret")
    assert told.count("shared secret") == 2
    assert "c2VjcmV0" not in told


def test_tokens_of_principals_need_keys_for_them(tmp_path: Path) -> None:
    (tmp_path / "ada.json").write_text(jwks(ADA))
    file = tmp_path / "keys.yaml"
    file.write_text("people: {file: ada.json, for: [decisions]}")
    for place in (None, str(file)):
        with pytest.raises(LoadError, match="no keys to check them with; name some"):
            load_key_sets(place, http_client(), for_principals=True)
    file.write_text("people: {file: ada.json}")
    assert load_key_sets(str(file), http_client(), for_principals=True)


@given(
    st.recursive(
        st.none() | st.integers() | st.text() | st.sampled_from(["OKP", "RSA", "sig", "AQAB"]),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(["keys", "kty", "crv", "x", "n", "e", "kid", "use", "key_ops"]),
                inner,
            )
        ),
    )
)
def test_no_set_is_too_strange(value: Any) -> None:
    for said in (value, {"keys": value}, {"keys": [value]}):
        with suppress(LoadError):
            assert parse_key_set(Source("set", said))


# While the worker runs.


class ManualClock:
    """A clock that is set by hand."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


def put(file: Path, text: str) -> None:
    """Put a file in the place of the old one, as a deployment does."""
    new = file.with_suffix(".new")
    new.write_text(text)
    new.replace(file)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with Ada's key."""
    path = tmp_path / "set.json"
    path.write_text(jwks(ADA))
    return path


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    clock = ManualClock()
    monkeypatch.setattr(key_sets, "monotonic", clock)
    return clock


def from_file(file: Path, **more: Any) -> LiveKeySet:
    return FileKeySet("people", KeySet.model_validate({"file": str(file), **more}), file)


async def test_keys_in_a_file_are_rotated_without_a_restart(file: Path) -> None:
    keys = from_file(file)
    assert [await signs(keys, each) for each in (ADA, BOB)] == [True, False]
    put(file, jwks(ADA, BOB))
    assert [await signs(keys, each) for each in (ADA, BOB)] == [True, True]
    put(file, jwks(BOB))
    assert [await signs(keys, each) for each in (ADA, BOB)] == [False, True]


async def test_sets_in_a_file_are_added_and_removed_without_a_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "ada.json").write_text(jwks(ADA))
    (tmp_path / "bob.pem").write_text(BOB.pem())
    file = tmp_path / "keys.yaml"
    ada, bob = "ada: {file: ada.json}", "bob: {file: bob.pem}"
    file.write_text(ada)
    sets = load_key_sets(str(file), http_client())
    assert [await sign(sets, each) for each in (ADA, BOB)] == [True, False]
    [kept] = sets
    put(file, f"{ada}\n{bob}")
    assert [await sign(sets, each) for each in (ADA, BOB)] == [True, True]
    assert sets[0] is kept
    put(file, "no: {file: of-none.json}")
    assert [await sign(sets, each) for each in (ADA, BOB)] == [True, True]
    assert "the key sets cannot be read again and stay as they are" in caplog.text
    put(file, bob.replace("}", ", for: [decisions]}"))
    assert [await sign(sets, each) for each in (ADA, BOB)] == [False, True]


async def test_a_file_is_read_once_for_each_change(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []
    real = key_sets.read_key_file

    def counted(path: Path) -> tuple[PublicKey, ...]:
        read.append(path)
        return real(path)

    monkeypatch.setattr(key_sets, "read_key_file", counted)
    keys = from_file(file)
    put(file, jwks(BOB))
    assert [await signs(keys, each) for each in (ADA, BOB, BOB)] == [False, True, True]
    assert len(read) == 2


async def test_a_file_that_became_invalid_leaves_the_previous_keys_for_a_time(
    file: Path, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    keys = from_file(file, keep="1h")
    clock.now += 7_200  # nothing was asked of it, and it has not changed
    assert await signs(keys, ADA)
    with caplog.at_level(logging.INFO, "holdfast"):
        put(file, "{")
        for _ in range(3):
            assert await signs(keys, ADA)
        clock.now += 3_601
        with pytest.raises(KeysUnavailableError, match="people"):
            await keys.current("k1")
        put(file, jwks(BOB))
        assert await signs(keys, BOB)
    assert [record.message.partition(": ")[0] for record in caplog.records] == [
        "keys `people` cannot be read",
        "keys `people` can be read again",
    ]


# From an address.


def response(body: bytes, status: int = 200, *headers: str, length: int | None = None) -> bytes:
    """Return an HTTP response, which may announce another length than it has."""
    announced = len(body) if length is None else length
    head = [f"HTTP/1.1 {status} X", f"content-length: {announced}", "connection: close", *headers]
    return "\r\n".join([*head, "", ""]).encode() + body


class KeySetServer:
    """A server of a key set on this machine, and a key set that is read from it."""

    def __init__(self) -> None:
        self.requests = self.sent_bytes = 0
        self.heads: list[str] = []
        self.answer = b""
        self.more: bytes | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.url = ""

    def serves(self, *signers: Signer) -> None:
        """Serve the keys of these signers."""
        self.answer = response(jwks(*signers).encode())

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Serve one connection."""
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
            self.requests += 1
            await self.gate.wait()
            writer.write(self.answer)
            while self.more is not None:
                writer.write(self.more)
                self.sent_bytes += len(self.more)
                await writer.drain()
        writer.close()


@pytest.fixture
async def provider() -> AsyncIterator[KeySetServer]:
    made = KeySetServer()
    serving = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{serving.sockets[0].getsockname()[1]}/jwks.json"
    yield made
    serving.close()


@pytest.fixture
async def keys(provider: KeySetServer, clock: ManualClock) -> AsyncIterator[UrlKeySet]:
    """A set at the provider's address, whose query is a secret."""
    url = f"{provider.url}?code=s3cret"
    settings = KeySet.model_validate({"url": url, "refresh": "10m", "keep": "1h"})
    async with http_client() as http:
        yield UrlKeySet("provider", settings, httpx.URL(url), http)


async def test_a_set_is_fetched_once_for_many_tokens(
    provider: KeySetServer, keys: UrlKeySet
) -> None:
    provider.serves(ADA, rsa())
    assert provider.requests == 0
    assert all(await asyncio.gather(*(signs(keys, signer) for signer in (ADA, rsa()) * 10)))
    assert provider.requests == 1
    assert "cookie" not in provider.heads[0].lower()


async def test_it_is_fetched_again_when_it_is_old(
    provider: KeySetServer, keys: UrlKeySet, clock: ManualClock
) -> None:
    provider.serves(ADA)
    assert await signs(keys, ADA)
    provider.serves(BOB)
    clock.now += 599
    assert await signs(keys, ADA)
    clock.now += 2
    assert not await signs(keys, ADA)
    assert await signs(keys, BOB)
    assert provider.requests == 2


async def test_a_new_key_counts_at_once_and_unknown_keys_cost_few_requests(
    provider: KeySetServer, keys: UrlKeySet, clock: ManualClock
) -> None:
    provider.serves(ADA)
    assert await signs(keys, ADA)
    provider.serves(ADA, BOB)
    clock.now += BETWEEN_FETCHES_SECONDS
    assert await signs(keys, BOB)
    strangers = [Signer(EVE.private, f"e{number}") for number in range(20)]
    for requests in (2, 3):
        assert not any(await asyncio.gather(*(signs(keys, each) for each in strangers)))
        assert provider.requests == requests
        clock.now += BETWEEN_FETCHES_SECONDS


@pytest.mark.parametrize("key_id", [None, "k1"])
async def test_a_rotated_key_counts_at_once_without_an_id_of_its_own(
    provider: KeySetServer, keys: UrlKeySet, clock: ManualClock, key_id: str | None
) -> None:
    before, after = Signer(ADA.private, key_id), Signer(BOB.private, key_id)
    provider.serves(before)
    assert await signs(keys, before)
    provider.serves(after)
    clock.now += BETWEEN_FETCHES_SECONDS
    assert await signs(keys, after)
    strangers = [Signer(EVE.private, key_id)] * 20
    clock.now += BETWEEN_FETCHES_SECONDS
    assert not any(await asyncio.gather(*(signs(keys, each) for each in strangers)))
    assert provider.requests == 3


async def test_a_token_whose_key_is_present_does_not_wait_for_another_token(
    provider: KeySetServer, keys: UrlKeySet, clock: ManualClock
) -> None:
    provider.serves(ADA)
    assert await signs(keys, ADA)
    clock.now += BETWEEN_FETCHES_SECONDS
    provider.gate.clear()
    stranger = asyncio.create_task(signs(keys, Signer(EVE.private, "e1")))
    while provider.requests < 2:
        await asyncio.sleep(0)
    assert await signs(keys, ADA)
    assert not stranger.done()
    provider.gate.set()
    assert not await stranger


async def test_while_it_is_down_the_last_good_keys_count_for_a_time(
    provider: KeySetServer, keys: UrlKeySet, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    provider.serves(ADA)
    assert await signs(keys, ADA)
    provider.answer = response(b"", 503)
    for _ in range(5):
        clock.now += 700
        assert await signs(keys, ADA)
    clock.now += 101
    with pytest.raises(ApplicationError, match="`provider` is not available now") as missing:
        await signs(keys, ADA)
    assert missing.value.type == "keys_unavailable"
    [warning] = caplog.messages
    assert warning.endswith(f"{provider.url}: it answered 503; check the `url`")
    provider.serves(ADA)
    clock.now += BETWEEN_FETCHES_SECONDS
    assert await signs(keys, ADA)


def key_set(*keys: Any) -> bytes:
    """Return a response with a set of these keys."""
    return response(json.dumps({"keys": keys}).encode())


BAD = {
    "down": (b"", "it cannot be reached"),
    "moved": (response(b"", 302, "location: /again"), "redirects"),
    "not there": (response(b"", 404), "it answered 404"),
    "no HTTP": (b"SSH-2.0-x\r\n\r\n", "it cannot be reached"),
    "half": (response(b'{"keys":', length=100), "it cannot be reached"),
    "garbage": (response(b"<html>"), "this is no JSON"),
    "no UTF-8": (response(b"\xff\xfe"), "is not UTF-8"),
    "compressed": (response(b"{}", 200, "content-encoding: gzip"), "is compressed"),
    "no set": (response(b'{"key":1}'), "this is no JWK set"),
    "an empty set": (key_set(), "no key in it"),
    "too deep": (response(b"[" * 9000), "too deep"),
    "a shared secret": (key_set(BOB.jwk(), {"kty": "oct", "k": "s3cret"}), "is a shared secret"),
    "a private key": (key_set(BOB.jwk(), ADA.jwk(d="s3cret")), "is a private key"),
}


@pytest.mark.parametrize("name", BAD)
async def test_an_unusable_answer_is_logged_without_secrets_and_requested_again_later(
    provider: KeySetServer,
    keys: UrlKeySet,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
    name: str,
) -> None:
    provider.answer, reason = BAD[name]
    for _ in range(3):
        with pytest.raises(ApplicationError, match="`provider` is not available now") as missing:
            await signs(keys, ADA)
        assert not missing.value.non_retryable
    assert provider.requests == 1
    [warning] = caplog.messages
    assert reason in warning
    assert "s3cret" not in warning
    provider.serves(ADA)
    clock.now += BETWEEN_FETCHES_SECONDS
    assert await signs(keys, ADA)


async def test_an_endless_answer_is_left(
    provider: KeySetServer, keys: UrlKeySet, caplog: pytest.LogCaptureFixture
) -> None:
    provider.answer, provider.more = b"HTTP/1.1 200 X\r\n\r\n", b" " * 65_536
    with pytest.raises(KeysUnavailableError):
        await keys.current("k1")
    assert f"more than {MAX_SET_BYTES} bytes" in caplog.text
    assert provider.sent_bytes < 2**24


async def test_a_slow_answer_is_left(
    provider: KeySetServer,
    keys: UrlKeySet,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(key_sets, "MAX_FETCH_SECONDS", 0.05)
    provider.gate.clear()
    with pytest.raises(KeysUnavailableError):
        await keys.current("k1")
    assert "it took more than 0.05 s" in caplog.text
    provider.gate.set()


async def test_other_keys_in_a_provider_s_set_are_ignored(
    provider: KeySetServer, keys: UrlKeySet
) -> None:
    encryption = rsa("enc", 1)
    others = [{"kty": "EC", "crv": "P-256", "kid": "e"}, encryption.jwk(use="enc")]
    provider.answer = key_set(*others, ADA.jwk())
    assert await signs(keys, ADA)
    assert not await signs(keys, encryption)
