"""`holdfast mcp` over HTTP: tokens, trusted clients, and processes side by side."""

import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client as McpClient
from mcp.client.streamable_http import streamable_http_client
from mcp_types import InputRequiredResult
from temporalio.client import Client

from holdfast.schemas import names
from tests.cli.program import Program
from tests.encryption.keys import OLD, key_file
from tests.support import tools
from tests.support.backend import TOOLS, Backend
from tests.support.command import Holdfast
from tests.support.identity.signing import Approver, write_keys
from tests.web.mcp.conftest import run_id, run_of, text
from tests.web.mcp.test_approvals import APPROVE, Screen, ask

ISSUER = "https://login.example"
SIGNER = Approver()
PARTNER, PARTNER_ISSUER = Approver("partner-1"), "https://partner.example"
Start = Callable[[], Program]
Connect = Callable[..., AbstractAsyncContextManager[McpClient]]


@pytest.fixture
def start(
    client: Client, desk: Backend, folder: Path, tmp_path: Path, quick_starts: None
) -> Iterator[Start]:
    """Return a function that starts a server; all of them have the same keys."""
    write_keys(tmp_path / "keys.json", SIGNER)
    write_keys(tmp_path / "partner.json", PARTNER)
    sets = {"idp": ("keys.json", ISSUER), "partner": ("partner.json", PARTNER_ISSUER)}
    text = [f"{name}: {{file: {file}, issuer: '{iss}'}}\n" for name, (file, iss) in sets.items()]
    text.append(f"reports: {{file: keys.json, issuer: '{ISSUER}/r', may: [read], subject: r}}\n")
    (tmp_path / "keys.yaml").write_text("".join(text))
    words: tuple[str, ...] = (
        "mcp",
        "--listen",
        "0",
        "--catalog",
        str(folder),
        "--tools",
        str(TOOLS),
    )
    words += ("--task-queue", desk.task_queue, "--keys", str(tmp_path / "keys.yaml"))
    words += ("--state-keys", str(key_file(tmp_path, [OLD])), "--trusted-client", "assistant")
    env: dict[str, Any] = {
        "TEMPORAL_ADDRESS": client.service_client.config.target_host,
        "TEMPORAL_NAMESPACE": client.namespace,
        "TEMPORAL_CONFIG_FILE": os.devnull,
    }
    programs: list[Program] = []

    def start_() -> Program:
        programs.append(Program(words, **env))
        return programs[-1]

    yield start_
    for each in programs:
        each.close()


async def address(program: Program) -> str:
    return (await program.until("/mcp\n")).rpartition("mcp ready: ")[2].strip()


def token(url: str, **claims: Any) -> str:
    said = {"sub": "ann", "aud": url, "iss": ISSUER, "client_id": "assistant", "scopes": ["pay"]}
    return SIGNER.token(**{**said, **claims})


@asynccontextmanager
async def connect(url: str, sent: str, **options: Any) -> AsyncIterator[McpClient]:
    headers = {"authorization": f"Bearer {sent}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        transport = streamable_http_client(url, http_client=http)
        async with McpClient(transport, **options) as made:
            yield made


async def test_an_approval_survives_the_process_that_asked_for_it(
    start: Start, desk: Backend
) -> None:
    one, two = start(), start()
    first, second = await address(one), await address(two)
    async with connect(first, token(first), elicitation_callback=Screen()) as mcp:
        asked = await ask(mcp)
    assert isinstance(asked, InputRequiredResult)
    assert asked.input_requests is not None
    one.process.kill()
    answer: Any = {"input_responses": dict.fromkeys(asked.input_requests, APPROVE)}
    answer["request_state"] = asked.request_state
    # Of another client, of a program that has a token of its own, of another person.
    for claims in ({"client_id": "other"}, {"sub": "assistant"}, {"sub": "bob"}):
        async with connect(second, token(second, **claims)) as mcp:
            with pytest.raises(Exception, match="Invalid or expired requestState"):
                await ask(mcp, **answer)
    async with connect(second, token(second)) as mcp:
        paid = await ask(mcp, **answer)
        assert paid.structured_content == {"paid": 3}
    assert tools.read().count(f"pay 3 {run_id(asked)}/t1c1") == 1
    start_ = (await run_of(desk, asked).history())[0].workflow_execution_started_event_attributes
    assert b'"principal":{"id":"ann","scopes":["pay"]}' in start_.input.payloads[0].data


async def test_tokens_of_this_server_alone_and_trust_of_clients_alone(start: Start) -> None:
    url = await address(start())
    origin = url.removesuffix("/mcp")
    for claims, mode in (({"client_id": "other"}, "auto"), ({"sub": "assistant"}, "legacy")):
        sent = token(url, **claims)
        async with connect(url, sent, elicitation_callback=Screen(), mode=mode) as mcp:
            result = await mcp.call_tool("pay", {"amount": 3})
            assert "Only a person can decide" in text(result)
    async with httpx.AsyncClient() as http:
        for sent in (
            *("", "no token", SIGNER.token(sub="ann", aud=url), token("https://other.example/mcp")),
            *(SIGNER.program(iss=ISSUER), token(url, exp=1), Approver().token(sub="a", aud=url)),
        ):
            headers = {"authorization": f"Bearer {sent}"} if sent else {}
            refused = await http.post(url, headers=headers, json={})
            assert refused.status_code == 401
            found = f'resource_metadata="{origin}/.well-known/oauth-protected-resource/mcp"'
            assert found in refused.headers["www-authenticate"]
        about = (await http.get(f"{origin}/.well-known/oauth-protected-resource/mcp")).json()
        assert about["resource"] == url
        assert [each.rstrip("/") for each in about["authorization_servers"]] == [ISSUER]
        for headers in ({"host": "evil.example"}, {"origin": "https://evil.example"}):
            headers |= {"authorization": f"Bearer {token(url)}", "content-type": "application/json"}
            refused = await http.post(url, headers=headers, json={})
            assert refused.status_code in (403, 421)


async def test_a_token_is_not_refused_while_its_keys_cannot_be_read(
    start: Start, tmp_path: Path
) -> None:
    away = "https://away.example"
    with (tmp_path / "keys.yaml").open("a") as file:
        file.write(f"away: {{url: 'http://127.0.0.1:1', issuer: '{away}'}}\n")
    url = await address(start())
    async with httpx.AsyncClient() as http:
        sent = Approver("away-1").token(sub="ann", aud=url, iss=away)
        headers = {"authorization": f"Bearer {sent}"}
        answer = await http.post(url, headers=headers, json={})
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "10")
    assert "The key set `away` is not available now; try again." in answer.text


async def test_the_same_subject_of_another_issuer_is_another_person(
    start: Start, desk: Backend
) -> None:
    printed = await start().until("/mcp\n")
    url = printed.rpartition("mcp ready: ")[2].strip()
    assert "people of partner are named `SUB @ ISSUER`" in printed
    assert "write what makes a person, `person: {claim: …}`, in idp, partner\n" in printed
    key: Any = {"meta": {names.MCP_IDEMPOTENCY_KEY: "once"}}
    claims: Any = {"aud": url, "client_id": "assistant", "iss": PARTNER_ISSUER}
    async with connect(url, token(url), elicitation_callback=Screen()) as mcp:
        own = await ask(mcp, **key)
        assert isinstance(own, InputRequiredResult)
    sent = PARTNER.token(sub="ann", **claims)
    async with connect(url, sent, elicitation_callback=Screen()) as mcp:
        for tool in ("wait_run", "show_run"):
            found = await mcp.call_tool(tool, {"run": run_id(own)})
            assert f"there is no run {run_id(own)}" in text(found)
        answers: Any = dict.fromkeys(own.input_requests or (), APPROVE)
        with pytest.raises(Exception, match="Invalid or expired requestState"):
            await ask(mcp, input_responses=answers, request_state=own.request_state)
        other = await ask(mcp, **key)
        assert run_id(other) != run_id(own)
    begun = (await run_of(desk, other).history())[0].workflow_execution_started_event_attributes
    assert b'"principal":{"id":"ann @ https://partner.example"' in begun.input.payloads[0].data


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--listen", "0.0.0.0:0"], "would be sent unencrypted; put a proxy with https in front"),
        (["--listen", "0", "--url", "https://a.example"], "anyone could start runs; name the keys"),
        (["--listen", "0", "--approver", "ann"], "are for standard input; name clients"),
        (["--listen", "0", "--trusted-client", "a"], "only tokens name clients; name the keys"),
        (["--keys", "keys.yaml"], "are for HTTP; add --listen PORT"),
        (["--state-keys", "none.yaml"], "`--state-keys`: none.yaml: there is no such file"),
        (["--listen", "0", "--keys", "keys.json"], "no set has the `issuer` of its tokens"),
    ],
)
async def test_what_is_wrong_is_one_line(
    words: list[str],
    line: str,
    holdfast: Holdfast,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    write_keys(tmp_path / "keys.json", SIGNER)
    (tmp_path / "agents").mkdir()
    answer = await holdfast("mcp", "--catalog", ".", *words)
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
    assert line in answer.err


async def test_without_a_catalog_there_is_nothing_to_offer(
    holdfast: Holdfast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "there are no agents and no tools; name them" in (await holdfast("mcp")).err
