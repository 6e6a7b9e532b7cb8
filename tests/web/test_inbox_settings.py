"""`inbox.yaml`: a problem is reported before anything is served, with line and fix."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from holdfast.runtime.settings_files.file_problems import LoadError
from holdfast.web.inbox_settings import LoadedInboxSettings, load_inbox_settings
from holdfast.web.pages import ink_on
from tests.support.identity.signing import Approver, write_keys

OIDC = {"issuer": "https://login.example", "clientId": "inbox"}
PROXY = {"userHeader": "X-User", "networks": ["10.0.0.0/8"]}

Load = Callable[..., LoadedInboxSettings]


@pytest.fixture
def read(tmp_path: Path) -> Load:
    def read_(said: Any, **environ: str) -> LoadedInboxSettings:
        file = tmp_path / "inbox.yaml"
        file.write_text(said if isinstance(said, str) else yaml.safe_dump(said))
        return load_inbox_settings(file, environ, httpx.AsyncClient())

    return read_


def test_settings_have_its_address_and_its_people(read: Load, tmp_path: Path) -> None:
    write_keys(tmp_path / "programs.json", Approver())
    said = {
        "url": "https://Intranet.example:443/Inbox/",
        "oidc": {**OIDC, "clientSecretEnv": "SECRET"},
        "tokens": "programs.json",
    }
    settings = read(said, SECRET=" of the inbox\n")
    assert settings.settings.url == "https://intranet.example/Inbox"
    assert settings.secret == "of the inbox"
    assert "of the inbox" not in repr(settings)
    assert [keys.name for keys in settings.keys] == ["keys"]
    assert settings.settings.oidc is not None
    assert settings.settings.oidc.name_claim == "sub", "no one chooses it for themselves"


def test_the_issuer_of_the_sign_in_is_the_one_whose_names_are_plain(
    read: Load, tmp_path: Path
) -> None:
    keys = write_keys(tmp_path / "programs.json", Approver())
    sets = {"partner": {"file": keys.name, "issuer": "https://partner.example"}}
    sets |= {"idp": {"file": keys.name, "issuer": OIDC["issuer"]}}
    (tmp_path / "keys.yaml").write_text(yaml.safe_dump(sets, sort_keys=False))
    named = [each.settings.subject for each in read({"oidc": OIDC, "tokens": "keys.yaml"}).keys]
    assert named == ["{sub} @ https://partner.example", None]


def test_programs_may_be_named_by_an_address(read: Load) -> None:
    settings = read({"proxy": PROXY, "tokens": "https://login.example/jwks"})
    assert [keys.settings.url for keys in settings.keys] == ["https://login.example/jwks"]


def test_a_logo_is_read_with_the_settings_and_a_color_has_ink_that_can_be_read(
    read: Load, tmp_path: Path
) -> None:
    (tmp_path / "logo.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    said = {"name": "Acme", "logo": "logo.svg", "color": "#FFD400"}
    brand = read({"organization": said}).brand
    assert (brand.name, brand.logo_type, brand.logo[:4]) == ("Acme", "image/svg+xml", b"<svg")
    logo, style = brand.response(brand.logo_path), brand.response("/static/organization.css")
    assert logo is not None
    assert "sandbox" in logo.headers["content-security-policy"]
    assert style is not None
    assert style.body == b":root { --brand: #FFD400; --on-brand: #000000; }\n"
    assert brand.response("/static/inbox.css") is None
    assert [ink_on(color) for color in ("#1d5bd8", "#767676", "#777777")] == [
        *("#ffffff", "#ffffff", "#000000")
    ]


WRONG: dict[str, tuple[Any, str]] = {
    "nothing": ("", "inbox.yaml:1: the file is empty; write something in it"),
    "no object": ("- a", "inbox.yaml:1: "),
    "an unknown field": ("url: https://a.b\nuri: x", "inbox.yaml:2: unknown field `uri`; did"),
    "two ways": ({"oidc": OIDC, "proxy": PROXY}, "`oidc` and `proxy` exclude each other"),
    "no path": ({"url": "https://a.example/inbox?x"}, "inbox.yaml:1: `url`: "),
    "another path to a browser": ({"url": "https://a.b/x/../y"}, "a path has letters, digits and"),
    "an open one": ({"url": "http://a.example"}, "http can be changed in transit"),
    "an open issuer": ({"oidc": {**OIDC, "issuer": "http://a.b"}}, "changed in transit; write"),
    "no issuer": ({"oidc": {"clientId": "x"}}, "`oidc`: `issuer` is missing; add it"),
    "no variable": (
        {"oidc": {**OIDC, "clientSecretEnv": "NOT_SET"}},
        "`oidc.clientSecretEnv`: the variable NOT_SET is not set; set it to the inbox's secret",
    ),
    "a secret": (
        {"oidc": {**OIDC, "clientSecretEnv": "s3cr3t-value"}},
        "`oidc.clientSecretEnv`: this names no environment variable; write the name",
    ),
    "no network": ({"proxy": {**PROXY, "networks": ["10.0.0.1/8"]}}, "that is no network; write"),
    "no networks": ({"proxy": {**PROXY, "networks": []}}, "`proxy.networks`"),
    "no header": ({"proxy": {**PROXY, "userHeader": "X User"}}, "`proxy.userHeader`"),
    "no logo": (
        {"organization": {"name": "Acme", "logo": "inbox.yaml"}},
        "inbox.yaml:2: `organization.logo`: `inbox.yaml` is no logo; name a PNG, SVG or WebP file",
    ),
    "a long claim": (
        {"claimFor": "9h"},
        "`claimFor`: `9h` does not fit; write a time from 1s to 8h",
    ),
    "no color": ({"organization": {"name": "A", "color": "red"}}, "`organization.color`: "),
    "no file": ({"tokens": "none.json"}, "none.json: there is no such file; check the path"),
    "an id token as a principal's": (
        {"oidc": {**OIDC, "clientId": "holdfast:principal"}},
        "`oidc.clientId`: is an `audience` of tokens; write",
    ),
    "open keys": (
        {"tokens": "http://a.example/jwks"},
        "inbox.yaml:1: `tokens`: data sent by `http`",
    ),
}


@pytest.mark.parametrize(("said", "told"), WRONG.values(), ids=list(WRONG))
def test_a_problem_is_reported_with_its_line_and_fix(read: Load, said: Any, told: str) -> None:
    with pytest.raises(LoadError) as caught:
        read(said)
    [problem] = caught.value.problems
    assert told in str(problem)
    assert problem.fix
    assert "s3cr3t" not in str(problem)


def test_an_id_token_is_no_token_of_a_program(read: Load, tmp_path: Path) -> None:
    write_keys(tmp_path / "login.json", Approver())
    keys = {"login": {"file": "login.json", "audience": "inbox", "for": ["inbox"]}}
    (tmp_path / "keys.json").write_text(json.dumps(keys))
    with pytest.raises(LoadError, match=r"`oidc\.clientId`: is an `audience` of tokens"):
        read({"tokens": "keys.json", "oidc": OIDC})


def test_keys_for_decisions_alone_know_no_programs(read: Load, tmp_path: Path) -> None:
    write_keys(tmp_path / "people.json", Approver())
    keys = {"people": {"file": "people.json", "for": ["decisions"]}}
    (tmp_path / "keys.json").write_text(json.dumps(keys))
    with pytest.raises(LoadError, match="no key set is for the tokens of programs"):
        read({"tokens": "keys.json"})


def test_all_problems_are_reported_at_once(read: Load) -> None:
    with pytest.raises(LoadError) as caught:
        read("tokens: none.json\noidc:\n  issuer: ftp://x.y\n  clientId: a\nurl: http://a.b\n")
    assert len(caught.value.problems) == 1, "first its form"
    with pytest.raises(LoadError) as caught:
        read("tokens: none.json\noidc:\n  issuer: http://x.y\n  clientId: a\nurl: http://a.b\n")
    lines = [problem.line for problem in caught.value.problems]
    assert lines == [3, 5, None]


def test_a_slack_app_has_its_secrets_in_the_environment(read: Load) -> None:
    slack = {"signingSecretEnv": "A", "tokenEnv": "B", "team": "T024BE7LD", "app": "A024BE7LH"}
    settings = {"slack": {**slack, "users": {"U024BE7LH": {"name": "grace"}}}}
    secret = "8f742231b10e8888abcd99yyyzzz85a5"
    assert read(settings, A=secret, B="y").settings.slack is not None
    with pytest.raises(LoadError, match=r"slack\.tokenEnv`: the variable B is not set; set it to"):
        read(settings, A=secret)
    with pytest.raises(LoadError, match="signingSecretEnv`: its secret has fewer than 16"):
        read(settings, A=" x ", B="y")
