"""Endpoints are checked at start, reported with file, line and fix, and keep their keys."""

import sys
import textwrap
from pathlib import Path

import httpx
import pytest
from temporalio.exceptions import ApplicationError

from holdfast.catalog.endpoints import FORMATS, ModelEndpoints, http_client, load_models
from holdfast.providers.base import UnanswerableRequest
from holdfast.providers.openai.format import OpenAIFormat
from holdfast.providers.script import ScriptProvider
from holdfast.runtime.settings_files.file_problems import LoadError
from holdfast.schemas.settings.endpoints import ProviderName
from tests.providers.fakes import KEY, ask

OPENAI = "a:\n  provider: openai\n  baseUrl: http://x\n"


def load(folder: Path, text: str, **environ: str) -> ModelEndpoints:
    """The endpoints of a file with this text."""
    file = folder / "endpoints.yaml"
    file.write_text(textwrap.dedent(text))
    return load_models(file, environ, http_client())


def refused(folder: Path, text: str) -> str:
    """Why a file with this text does not load."""
    with pytest.raises(LoadError) as error:
        load(folder, text)
    return str(error.value).replace(str(folder), "")


def test_a_file_s_endpoints_are_found_by_name(tmp_path: Path) -> None:
    (tmp_path / "script.yaml").write_text("- text: Hello")
    text = """
        $schema: schemas/endpoints.schema.json
        local: {provider: openai, baseUrl: "http://x/v1", timeout: 90s, maxRequestsPerMinute: 60}
        demo: {provider: script, file: script.yaml}
    """
    models = load(tmp_path, text)
    assert models.names == ["demo", "local"]
    assert models.find("local").provider.kind == "openai at local"
    assert isinstance(models.find("demo").provider, ScriptProvider)
    assert models.find("local").target.timeout == httpx.Timeout(90, connect=10)
    assert models.request_limits() == {"local": 60, "demo": None}
    assert models.warnings() == []


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("a: {provider: script, file: a.yaml, contextWindow: 9000}\n", 1, "has no window"),
        (OPENAI + "  price: {input: 1}\n", 4, "output"),
        (OPENAI + '  headers: {"x": "a\\nb"}\n', 4, "one line"),
        (OPENAI + "  maxRequestsPerMinute: 0\n", 4, "1 or m"),
        (OPENAI + "  auth: {type: gcp}\n", 4, "one of `aws`, `google`, `azure`"),
        (OPENAI + "  auth: {type: google, region: eu}\n", 4, "region"),
        (OPENAI + "  auth: {type: azure}\n  apiKeyEnv: K\n", 1, "`apiKeyEnv` exclude each other"),
        (OPENAI + "  headersEnv: {x: 'a b'}\n", 4, "variable"),
        (OPENAI + "  headersEnv: {'x y': A}\n", 4, "no header"),
    ],
)
def test_what_does_not_load_is_reported_with_its_line(
    tmp_path: Path, text: str, line: int, reason: str
) -> None:
    told = refused(tmp_path, text)
    assert told.startswith(f"/endpoints.yaml:{line}: ")
    assert reason in told


@pytest.mark.parametrize(
    "field", ["apiKeyEnv", "apiKey", "headers", "headersEnv", "baseUrl", "provider"]
)
def test_a_key_in_the_file_is_refused_and_not_repeated(tmp_path: Path, field: str) -> None:
    told = refused(tmp_path, f"{OPENAI}  {field}: {KEY}\n")
    assert told.startswith("/endpoints.yaml:4: ")
    assert KEY not in told


BEARER = {"authorization": f"Bearer {KEY}"}
CLAUDE, X_API_KEY = {"ANTHROPIC_API_KEY": KEY}, {"x-api-key": KEY}
GEMINI = "https://generativelanguage.googleapis.com/v1beta/models/gpt-test:"
HERE = "http://localhost:9"


@pytest.mark.parametrize(
    ("name", "environ", "url", "sent"),
    [
        ("openai", {"OPENAI_API_KEY": KEY}, "https://api.openai.com/v1/chat", BEARER),
        ("openai", {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{HERE}/x/"}, f"{HERE}/x/", BEARER),
        ("anthropic", CLAUDE, "https://api.anthropic.com/v1/messages", X_API_KEY),
        (
            "anthropic",
            {**CLAUDE, "ANTHROPIC_BASE_URL": f"{HERE}/v1/"},
            f"{HERE}/v1/messages",
            X_API_KEY,
        ),
        ("gemini", {"GEMINI_API_KEY": KEY}, GEMINI, {"x-goog-api-key": KEY}),
        (
            "gemini",
            {"GEMINI_API_KEY": KEY, "GOOGLE_API_KEY": "wins", "GOOGLE_GEMINI_BASE_URL": HERE},
            f"{HERE}/v1beta/models/gpt-test:",
            {"x-goog-api-key": "wins"},
        ),
        ("gemini", {"GEMINI_API_KEY": KEY, "GOOGLE_API_KEY": ""}, GEMINI, {"x-goog-api-key": KEY}),
    ],
)
def test_without_a_file_a_provider_is_there_by_the_variables_of_its_own_client(
    name: ProviderName, environ: dict[str, str], url: str, sent: dict[str, str]
) -> None:
    models = load_models(None, environ, http_client())
    assert models.names == [name]
    target = models.find(name).target
    assert str(FORMATS[name].url(target, ask())).startswith(url)
    assert target.headers(FORMATS[name].headers).items() >= sent.items()


def test_without_a_file_and_without_a_key_there_is_none() -> None:
    assert load_models(None, {}, http_client()).names == []
    with pytest.raises(LoadError, match="the environment"):
        load_models(None, {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "localhost"}, http_client())


def test_what_an_address_asks_for_stays_behind_its_path(tmp_path: Path) -> None:
    models = load(tmp_path, "a: {provider: openai, baseUrl: 'http://x/v1?api-version=3'}")
    address = models.find("a").target.url("/chat/completions")
    assert address == "http://x/v1/chat/completions?api-version=3"


@pytest.mark.parametrize(
    ("text", "library", "extra"),
    [
        ("a: {provider: bedrock, baseUrl: http://x}", "botocore", "bedrock"),
        ("a: {provider: openai, baseUrl: http://x, auth: {type: aws}}", "botocore", "bedrock"),
        ("a: {provider: openai, baseUrl: http://x, auth: {type: google}}", "google.auth", "vertex"),
        ("a: {provider: openai, baseUrl: http://x, auth: {type: azure}}", "azure", "azure"),
    ],
)
def test_what_only_an_extra_installs_is_named_where_it_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, library: str, extra: str
) -> None:
    for name in [each for each in sys.modules if f"{each}.".startswith(f"{library}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    told = refused(tmp_path, text)
    assert told.startswith("/endpoints.yaml:1: ")
    assert "which is not installed" in told
    assert told.endswith(f"pip install 'holdfast-agents[{extra}]'")


def test_a_missing_key_is_a_warning_at_start(tmp_path: Path) -> None:
    text = "a: {provider: openai, baseUrl: http://x, apiKeyEnv: MY_KEY}"
    assert "MY_KEY is not set" in load(tmp_path, text).warnings()[0]
    assert load(tmp_path, text, MY_KEY=KEY).warnings() == []


def test_a_header_may_come_from_the_environment(tmp_path: Path) -> None:
    text = """
        a: {provider: openai, baseUrl: "http://x?key=in-the-address", apiKeyEnv: K,
            headers: {Authorization: none}, headersEnv: {authorization: GATEWAY, X-Team: TEAM}}
    """
    target = load(tmp_path, text, K=KEY, GATEWAY="Basic YTpi", TEAM=" blue-1234\n").find("a").target
    sent = {"authorization": "Basic YTpi", "x-team": "blue-1234"}
    assert target.headers(OpenAIFormat().headers) == sent
    assert {KEY, "Basic YTpi", "blue-1234", "in-the-address"} <= set(target.secrets())
    assert target.redact("blue-1234 YTpi") == "[secret] [secret]"
    models = load(tmp_path, text, K=KEY, TEAM="blue-1234")
    assert "the environment variable GATEWAY is not set" in models.warnings()[0]
    with pytest.raises(UnanswerableRequest, match="set the environment variable GATEWAY"):
        models.find("a").target.headers(OpenAIFormat().headers)


def test_a_header_of_the_environment_is_one(tmp_path: Path) -> None:
    text = "a: {provider: openai, baseUrl: 'http://x', headersEnv: {x: TEAM}}"
    target = load(tmp_path, text, TEAM="a\r\nhost: evil").find("a").target
    with pytest.raises(
        UnanswerableRequest, match="TEAM contains characters that a key cannot have"
    ):
        target.headers(OpenAIFormat().headers)


def test_an_unknown_endpoint_is_reported_with_those_there_are() -> None:
    models = load_models(None, {"OPENAI_API_KEY": KEY}, http_client())
    with pytest.raises(ApplicationError, match="`nowhere`; it has `openai`") as error:
        models.find("nowhere")
    assert error.value.non_retryable
    with pytest.raises(ApplicationError, match="it has none at all"):
        ModelEndpoints({}).find("nowhere")


def test_nothing_that_is_printed_shows_a_key(tmp_path: Path) -> None:
    text = """
        a: {provider: openai, baseUrl: "http://x/v1?t=abcdef", apiKeyEnv: MY_KEY,
            headers: {X-Secret: team-secret}}
    """
    served = load(tmp_path, text, MY_KEY=KEY).find("a")
    shown = f"{served!r} {served} {served.target!r} {served.target.label} {vars(served.provider)}"
    for secret in (KEY, "abcdef", "team-secret"):
        assert secret not in shown
