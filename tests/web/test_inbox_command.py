"""`holdfast inbox` as a program: its line, its signals, and what it does not start with."""

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from temporalio.client import Client

import holdfast as holdfast_package
from holdfast.hosting.dev_server import free_port
from holdfast.runtime.text_sealer import TextSealer
from holdfast.web.auth.sign_in import LinkSignIn
from tests.cli.program import Program
from tests.support.command import holdfast
from tests.support.inbox import PAGE

SECRET = "the-secret-of-all-instances"
OIDC = "oidc: {issuer: 'https://login.example', clientId: inbox}\n"


@pytest.fixture(autouse=True)
def where(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Temporal is, in the environment; and nothing else that is meant for it."""
    for name in [name for name in os.environ if name.startswith("HOLDFAST_INBOX")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TEMPORAL_ADDRESS", client.service_client.config.target_host)
    monkeypatch.setenv("TEMPORAL_NAMESPACE", client.namespace)
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", os.devnull)


@pytest.fixture
def program(quick_starts: None, tmp_path: Path) -> Iterator[Program]:
    """An inbox at a free port, whose secret outlives it."""
    (tmp_path / "agents").mkdir()
    agent = "instructions: Hi.\nmodel: {endpoint: fake, name: fake}\n"
    (tmp_path / "agents" / "clerk.yaml").write_text(agent)
    (tmp_path / "tools").mkdir()
    tool = "_activity: {type: ask, taskQueue: other}\n_label: Ask\n_sideEffects: true\n"
    (tmp_path / "tools" / "ask.yaml").write_text(tool)
    (tmp_path / "inbox.yaml").write_text("openapi: public\n")
    who = ("inbox", "--port", "0", "--by", "ann", "--groups", "finance,legal")
    words = (*who, "--catalog", str(tmp_path), "--settings", str(tmp_path / "inbox.yaml"))
    program = Program(words, HOLDFAST_INBOX_SECRET=SECRET)
    yield program
    program.close()


async def test_its_link_signs_in_and_a_signal_ends_it_with_all_its_streams(
    program: Program,
) -> None:
    link = (await link_of(program)).strip()
    assert link.startswith("http://127.0.0.1:")
    known = LinkSignIn(TextSealer(SECRET), "ann", ("finance", "legal")).address("")
    assert link.endswith(known), "it outlives the process, and so do the sessions"
    async with httpx.AsyncClient(follow_redirects=True, headers=PAGE) as browser:
        page = await browser.get(link)
        assert page.status_code == 200
        assert "key=" not in str(page.url)
        assert "<strong>ann</strong> <span" in page.text
        assert "(finance, legal)" in page.text
        address = link.partition("/sign-in")[0]
        assert (await browser.get(f"{address}/health")).json() == {"status": "ok"}
        assert (await browser.get(f"{address}/agents")).json() == {"agents": [{"name": "clerk"}]}
        [tool] = (await browser.get(f"{address}/tools?name=a&limit=1")).json()["tools"]
        assert (tool["label"], tool["sideEffects"]) == ("Ask", True)
        browser.cookies.clear()
        described = (await browser.get(f"{address}/openapi.json")).json()
        assert described["info"]["version"] == holdfast_package.__version__
        assert (await browser.post(f"{address}/openapi.json")).status_code in (401, 403)
    program.process.terminate()
    assert await program.ended() == 0
    assert "key=" not in program.text, "its key is in no log"
    assert program.text.strip() == ""


async def test_it_is_served_under_the_path_of_its_url(quick_starts: None, tmp_path: Path) -> None:
    file, port = tmp_path / "inbox.yaml", free_port()
    file.write_text(f"url: https://intranet.example/holdfast/\n{OIDC}")
    program = Program(("inbox", "--port", str(port), "--settings", str(file)))
    try:
        assert await program.until("\n") == "inbox ready: https://intranet.example/holdfast\n"
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=PAGE) as browser:
            for path in ("/run/7", "/holdfast/run/7"):
                answer = await browser.get(path)
                assert answer.headers["location"] == "/holdfast/sign-in?next=%2Frun%2F7"
            assert (await browser.get("/holdfast/static/inbox.css")).status_code == 200
    finally:
        program.close()


async def link_of(program: Program) -> str:
    return (await program.until("\n")).rpartition("inbox ready: ")[2]


@pytest.mark.parametrize(
    ("words", "settings", "told"),
    [
        (["--host", "0.0.0.0"], "", "would decide in your name, from anywhere; have people sign"),
        ([], "url: https://inbox.example", "would decide in your name, from anywhere; have"),
        (["--host", "0.0.0.0"], OIDC, "would be sent unencrypted; put a proxy with https in front"),
        (["--by", "ann"], OIDC, "the settings define who decides; leave out --by and --groups"),
        (["--groups", "a"], OIDC, "the settings define who decides; leave out --by and --groups"),
        (["--by", "an\tn"], "", "cannot be shown in a record of decisions; change it"),
        (["--kid", "a"], "", "--kid names a key, and no key is given; name its file with --key"),
        (["--port", "x"], "", "a port is a number up to 65535"),
        ([], "oidc: {}\n", "inbox.yaml:1: `oidc`: `issuer` is missing; add it (and 1 more)"),
        (["--settings", "none.yaml"], "", "`--settings`: none.yaml: there is no such file; check"),
    ],
)
async def test_what_is_wrong_is_one_line(
    words: list[str],
    settings: str,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if settings:
        (tmp_path / "inbox.yaml").write_text(settings)
        monkeypatch.setenv("HOLDFAST_INBOX", str(tmp_path / "inbox.yaml"))
    answer = await holdfast("inbox", "--port", "0", *words)
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
    assert told in answer.err


async def test_only_an_inbox_of_one_person_needs_the_name_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("getpass.getuser", {}.popitem)  # fails as it does in a container
    answer = await holdfast("inbox", "--port", "0")
    assert (
        "the operating system does not report your name; name yourself with --by NAME" in answer.err
    )
    (tmp_path / "inbox.yaml").write_text(OIDC)
    words = ("--settings", str(tmp_path / "inbox.yaml"), "--host", "0.0.0.0")
    assert "would be sent unencrypted" in (await holdfast("inbox", "--port", "0", *words)).err


async def test_a_limit_of_files_that_is_no_number_is_reported_at_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOLDFAST_MAX_MESSAGE_BYTES", "50MB")
    answer = await holdfast("inbox", "--port", "0")
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
    assert "HOLDFAST_MAX_MESSAGE_BYTES: `50MB` is no number of bytes" in answer.err


async def test_an_invalid_secret_is_reported_and_not_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOLDFAST_INBOX_SECRET", "s3cr3t")
    answer = await holdfast("inbox", "--port", "0")
    assert answer.code == 2
    assert "HOLDFAST_INBOX_SECRET does not fit: it has fewer than 16 characters" in answer.err
    assert "s3cr3t" not in answer.err


async def test_it_needs_temporal_and_a_port(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        answer = await holdfast("inbox", "--port", str(port))
    assert (answer.code, "Address already in use; stop what listens" in answer.err) == (2, True)
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    assert (await asyncio.wait_for(holdfast("inbox", "--port", "0"), 120)).code == 3
