"""§13: `notify.yaml` is checked when the worker starts, and no secret in it is shown."""

import base64
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast.activities.notify.channels import load_notifiers
from holdfast.runtime.settings_files.file_problems import LoadError
from tests.support.news_receivers import SECRET


def refused(folder: Path, http: httpx.AsyncClient, text: str, environ: dict[str, str]) -> str:
    file = folder / "notify.yaml"
    file.write_text(text)
    with pytest.raises(LoadError) as error:
        load_notifiers(file, environ, http)
    assert all(problem.fix for problem in error.value.problems)
    return str(error.value).replace(f"{folder}/", "")


HOOK = "webhook: {url: 'https://x', secretEnv: S}"
LONG_SECRET = "whsec_" + base64.b64encode(bytes(65)).decode()


@pytest.mark.parametrize(
    ("said", "environ", "says"),
    [
        ("slack: {tokenEnv: U}", {}, "`tokenEnv` and `channel` go together; write both"),
        ("slack: {tokenEnv: U, channel: C024BE91L, api: 'http://x.y'}", {}, "slack.api`: "),
        (
            "mail: {host: h, from: a@b.org, to: [a@b.org], links: true}",
            {"HOLDFAST_LINK_SECRET": "hush hush"},
            "the variable HOLDFAST_LINK_SECRET is too short; write at least 32 characters",
        ),
        ("webhook: {url: 'https://x'}", {}, "`secretEnv` is missing; add it"),
        ("slack: {urlEnv: U}", {"U": "hooks"}, "6: `channels.desk.slack.urlEnv`: the variable U"),
        ("slack: {urlEnv: U}", {"U": "http://slack.com/x"}, "the variable U holds no address"),
        ("slack: {urlEnv: 'https://x.y'}", {}, "this names no environment variable; write the"),
        (HOOK, {"S": "hush"}, "it begins with `whsec_`"),
        (HOOK, {"S": "whsec_YQ=="}, "it holds 1 bytes; make"),
        (HOOK, {"S": "whsec_?"}, "is no base64"),
        (HOOK, {"S": LONG_SECRET}, "it holds 65 bytes; make"),
        (HOOK, {"S": " ".join([SECRET] * 5)}, "write one `whsec_…`, or up to 4"),
        ("webhook: {url: 'ftp://x', secretEnv: S}", {}, "`ftp://x` is no web address"),
        ("webhook: {secretEnv: S}", {}, "`url` or `urlEnv` is missing; add one of them"),
        ("webhook: {urlEnv: U, secretEnv: S}", {"U": "hooks"}, "the variable U holds no address"),
        ("mail: {host: h, port: '25', from: a@b.org, to: [a@b.org]}", {}, "`25` does not fit"),
        ("webhook: {urlEnv: 'x y', secretEnv: S}", {}, "this names no environment variable"),
        ("mail: {host: h, from: ada, to: [a@b.org]}", {}, "mail.from`: `ada` is no mail address"),
        ("mail: {host: h, from: a@b.org, to: [a@ä.org]}", {}, "`a@ä.org` is no mail address"),
        ("mail: {host: h, from: a@b.org, toGroups: {x: [ada]}}", {}, "mail.toGroups.x[0]`: `ada`"),
        (
            "mail: {host: h, from: a@b.org, to: [a@b.org], username: u, passwordEnv: 'hush 1'}",
            {},
            "mail.passwordEnv`: this names no environment variable",
        ),
    ],
)
def test_what_does_not_load_is_reported_with_its_line(
    tmp_path: Path, http: httpx.AsyncClient, said: str, environ: dict[str, str], says: str
) -> None:
    text = (
        f"inbox: https://inbox.x\nchannels:\n  desk:\n    on: [asked]\n    groups: []\n    {said}\n"
    )
    told = refused(tmp_path, http, text, environ)
    assert told.startswith("notify.yaml:6: ")
    assert says in told
    assert "\n" not in told
    for value in environ.values():
        assert value not in told


def test_what_links_begin_with_and_what_channels_are_called_is_checked(
    tmp_path: Path, http: httpx.AsyncClient
) -> None:
    text = "inbox: https://inbox.x/?a=1\nchannels: {desk: {slack: {urlEnv: U}}}\n"
    links = refused(tmp_path, http, text, {})
    assert links == "notify.yaml:1: `inbox`: links are appended to it; leave out `?` and `#`"
    name = refused(tmp_path, http, text.replace("desk", "a b"), {})
    assert name.startswith("notify.yaml:2: `a b` does not fit; write at most 128 letters")


def test_a_file_may_name_its_schema_for_an_editor(tmp_path: Path, http: httpx.AsyncClient) -> None:
    file = tmp_path / "notify.yaml"
    file.write_text(
        "$schema: notify.schema.json\ninbox: https://x\nchannels: {desk: {slack: {urlEnv: U}}}\n"
    )
    assert [each.name for each in load_notifiers(file, {}, http).listeners()] == ["desk"]


@pytest.mark.parametrize("secret", ["https://hooks.x/" + "x" * 100, ["hush hush 1"]])
def test_a_value_in_place_of_a_variables_name_is_not_shown(
    tmp_path: Path, http: httpx.AsyncClient, secret: Any
) -> None:
    channels = {"desk": {"slack": {"urlEnv": secret}}}
    text = json.dumps({"inbox": "https://inbox.x", "channels": channels})
    told = refused(tmp_path, http, text, {})
    assert "`channels.desk.slack.urlEnv`: this names no environment variable; " in told
    assert "hooks" not in told
    assert "hush" not in told


def test_without_a_file_there_are_no_channels(http: httpx.AsyncClient) -> None:
    assert load_notifiers(None, {}, http).listeners() == []
