"""What a worker keeps to itself is known by where it stands, and found however it is written."""

import base64
import json
from pathlib import Path
from urllib.parse import quote

import pytest

from holdfast.runtime.secrets import (
    MAX_SECRETS,
    MIN_SECRET_CHARACTERS,
    REPLACED,
    Secrets,
    StreamRedactor,
    address_secrets,
    environment_secrets,
    header_secrets,
)

SECRET = 'sk-4f"/+ü9\\k??>>'
PEM = (
    "-----BEGIN ENCRYPTED PRIVATE KEY-----\n"
    + "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n"
    + "/IIEvQIBADANBgkqhkiG9w0BAQEFAASC\n"
    + "-----END"
)


def as_basic(pair: str) -> str:
    return base64.b64encode(pair.encode()).decode()


@pytest.mark.parametrize(
    "written",
    [
        SECRET,
        repr(SECRET),
        json.dumps({"key": SECRET}),
        json.dumps({"key": SECRET}, ensure_ascii=False),
        quote(SECRET),
        quote(SECRET, safe=""),
        as_basic(SECRET),
        as_basic(f"ann:{SECRET}"),
        as_basic(f"me:{SECRET}:x"),
        as_basic(f"you:{SECRET}:y"),
        base64.urlsafe_b64encode(f"ÿÿ?{SECRET}".encode()).decode(),
    ],
)
def test_a_secret_is_found_however_it_is_written(written: str) -> None:
    secrets = Secrets([SECRET])
    text = f"before {written} after"
    cleaned = secrets.clean(text)
    assert REPLACED in cleaned
    assert cleaned.startswith("before ")
    assert cleaned.endswith(" after")
    assert secrets.clean(cleaned) == cleaned
    assert secrets.occur_in(text.encode())
    assert secrets.occur_in(json.dumps([text]).encode())
    assert not secrets.occur_in(cleaned.encode())
    assert REPLACED.encode() in secrets.clean_bytes(text.encode())


def test_keys_and_values_of_json_are_cleaned_and_all_else_is_as_it_was() -> None:
    value = {"a": [f"x {SECRET}", 1, None, True, 1.5], SECRET: {"b": "plain"}}
    assert Secrets([SECRET]).clean_value(value) == {
        "a": [f"x {REPLACED}", 1, None, True, 1.5],
        REPLACED: {"b": "plain"},
    }


@pytest.mark.parametrize(
    "plain",
    [
        "",
        "ollama",
        "password",
        "CHANGEME",
        "not-needed",
        "a1" * 3,
        "12345678901",
        "-1.5e+300000",
        "/run/secrets/key-1",
        "~/keys/key-1",
        "~ann/keys/key-1",
        "../keys/key-1",
        "/Users/AnnLee88/.ssh/id_ed25519",
        "/tmp/tmp.Ab1Cd2Ef3G/key.pem",
        "/srv/a+b/day=1/Keys (2), old:~/key.pem",
        "x1" * 5_001,
    ],
)
def test_what_is_short_or_plain_garbles_no_text(plain: str) -> None:
    secrets = Secrets([plain, f" {plain}\n"])
    assert secrets.clean(f"the word {plain} stays") == f"the word {plain} stays"
    assert not secrets.occur_in(plain.encode())


@pytest.mark.parametrize(
    "telling",
    [
        "a1" * (MIN_SECRET_CHARACTERS // 2),
        "correct horse battery",
        "AbCdEfGh",
        "/Jm3K0qXv9bTzR8uW2sYd4fG6hN1pLcE5aViOwQ7xMk=",
        "/K7MDENGbPxRfi/CYEXAMPLEKEYwJalrXUtnFEMI",
        "~Ab1!cdef",
        "./+ab1cd/EF=",
        "/tmp/tmpAb3dEf9GhIjK/key",
        "/tmpAb3dEf9GhIjK" * 300,
    ],
)
def test_what_is_neither_is_looked_for(telling: str) -> None:
    assert Secrets([f" {telling}\n"]).clean(f"x{telling}x") == f"x{REPLACED}x"


def test_a_random_name_is_no_secret_in_a_path_that_exists(tmp_path: Path) -> None:
    (key := tmp_path / "tmpAb3dEf9GhIjK").touch()
    assert Secrets([str(key)]).clean(f"{key} is empty") == f"{key} is empty"


def test_of_a_key_with_several_lines_each_long_one_counts() -> None:
    secrets = Secrets([PEM])
    for line in PEM.splitlines()[1:3]:
        assert secrets.clean(f"it holds {line}") == f"it holds {REPLACED}"
    assert secrets.clean(repr({"k": PEM})) == repr({"k": REPLACED})
    assert secrets.clean(PEM.splitlines()[0]) == PEM.splitlines()[0]


def test_there_are_only_so_many(caplog: pytest.LogCaptureFixture) -> None:
    secrets = Secrets(f"{n:04}-secret" for n in range(MAX_SECRETS + 1))
    assert secrets.clean(f"{MAX_SECRETS - 1:04}-secret") == REPLACED
    assert secrets.clean(f"{MAX_SECRETS:04}-secret") == f"{MAX_SECRETS:04}-secret"
    secrets.learn(["9999-secret"])
    assert secrets.clean("9999-secret") == REPLACED, "the newest count first"
    assert f"{MAX_SECRETS + 1} secrets are known, and {MAX_SECRETS} removed" in caplog.text


SECRET_NAMES = (
    *("OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "TEMPORAL_API_KEY"),
    *("TEMPORAL_TLS_CLIENT_KEY_DATA", "HOLDFAST_CODEC_TOKEN", "DBPASSWORD", "db_password"),
    *("PROXY_AUTH", "API_KEY_2", "GITHUB_PAT", "GOOGLE_CREDENTIALS", "SESSION_COOKIE"),
)
PUBLIC_NAMES = (
    *("PATH", "HOME", "AWS_ACCESS_KEY_ID", "SSH_AUTH_SOCK", "KEY_FILE", "TOKENIZERS_PARALLEL"),
    *("GOOGLE_CREDENTIALS_PATH", "AUTH_MODE", "HOLDFAST_KEYS", "HOLDFAST_PRINCIPAL_TOKENS"),
    *("KEYBOARD", "PASSAGE", "TOKEN_URL", "PUBLIC_KEY_ID", "SIGNAL"),
)


def test_a_variable_is_secret_by_its_name() -> None:
    environ = {name: f"value-of-{name}" for name in (*SECRET_NAMES, *PUBLIC_NAMES)}
    assert list(environment_secrets(environ)) == [environ[name] for name in SECRET_NAMES]


@pytest.mark.parametrize(
    ("name", "is_whole"),
    [
        ("CHAT_WEBHOOK_SECRET", True),
        ("hook_token_2", True),
        ("OIDC_AUTH", False),
        ("TOKEN_ENDPOINT", False),
    ],
)
def test_an_address_is_a_secret_by_a_name_that_ends_so(name: str, is_whole: bool) -> None:
    address = "https://hooks.example/T0/B0/XXyy"
    assert (address in environment_secrets({name: address})) is is_whole
    in_it = f"{address}?token=abc"
    assert "abc" in environment_secrets({name: in_it})


@pytest.mark.parametrize("key", ["0a" * 32, "A" * 43, "B" * 43 + "="])
def test_what_looks_like_a_key_for_encryption_is_one_by_any_name(key: str) -> None:
    assert list(environment_secrets({"RING": key})) == [key]


@pytest.mark.parametrize(
    ("address", "secrets"),
    [
        ("http://proxy:3128", set()),
        (
            "http://ann:p%40ss-w0rd@proxy:3128",
            {"p%40ss-w0rd", "p@ss-w0rd", "ann:p@ss-w0rd", as_basic("ann:p@ss-w0rd")},
        ),
        ("https://glpat-1234@git.example/x", {"glpat-1234"}),
        ("https://x/v1?api-version=3&api-key=k%2Fy", {"k%2Fy", "k/y"}),
        ("https://x/?X-Amz-Signature=abc&X-Amz-Expires=9", {"abc"}),
        ("http://[x", set()),
    ],
)
def test_of_an_address_its_password_and_its_keys_are_secret(
    address: str, secrets: set[str]
) -> None:
    assert set(address_secrets(address)) - {""} == secrets
    assert set(environment_secrets({"DATABASE_URL": address})) - {""} == secrets


@pytest.mark.parametrize(
    ("name", "value", "secrets"),
    [
        ("X-Title", "Support desk 1", set()),
        ("x-api-key", "key-1234", {"key-1234"}),
        ("Authorization", "Bearer key-1234", {"Bearer key-1234", "key-1234"}),
        (
            "authorization",
            f"Basic {as_basic('ann:pass-1')}",
            {f"Basic {as_basic('ann:pass-1')}", as_basic("ann:pass-1"), "ann:pass-1", "pass-1"},
        ),
        ("Authorization", "Basic ???", {"Basic ???", "???"}),
    ],
)
def test_a_header_is_secret_by_its_name(name: str, value: str, secrets: set[str]) -> None:
    assert set(header_secrets(name, value)) == secrets


def test_an_operator_is_shown_no_password_in_an_address() -> None:
    shown = Secrets().clean_for_operator(
        "https://ann:pw@host/x, ann@example.org, postgres://u:p@db"
    )
    assert shown == f"https://{REPLACED}@host/x, ann@example.org, postgres://{REPLACED}@db"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_a_secret_that_comes_in_pieces_is_never_shown(size: int) -> None:
    text = f"The key is {SECRET}, not sk-4f; {SECRET}{SECRET} ends it"
    flow = StreamRedactor(Secrets([SECRET]))
    shown = [flow.redact_next(text[at : at + size]) for at in range(0, len(text), size)]
    assert "".join(shown) == f"The key is {REPLACED}, not sk-4f; {REPLACED}{REPLACED} ends it"


def test_what_may_become_a_secret_is_held_back_and_nothing_else() -> None:
    flow = StreamRedactor(Secrets([SECRET]))
    assert flow.redact_next("it is s") == "it is "
    assert flow.redact_next("k-4") == ""
    assert flow.redact_next(" o'clock") == "sk-4 o'clock"
    assert StreamRedactor(Secrets()).redact_next("it is s") == "it is s"
