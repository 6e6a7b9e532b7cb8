"""No secret of a worker that an MCP server receives leaves the worker, whatever the server does.

Each server repeats every secret that it can know: in results, in errors and on standard error.
Then all that can be read afterwards is searched for each of them.
"""

import json
import logging
import sys
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio.client import Client

from holdfast.activities.mcp import servers as mcp_servers
from holdfast.runtime.secrets import Secrets
from holdfast.runtime.telemetry.telemetry import Telemetry
from tests.activities.mcp.conftest import serving
from tests.activities.mcp.servers import teller
from tests.activities.mcp.servers.guard import CLIENT, SECRET, Guard
from tests.support.backend import backend
from tests.support.eventually import eventually
from tests.support.model_server import Answer, call
from tests.workflows.test_secrets import forms

HEADER, TOKEN = "hd-planted-17c0e6b2f4", "ev-planted-5f2d90a7c1"
PRINCIPAL = "pt-planted-8e61d3b09a"


def leaking(found: str, planted: Iterable[str]) -> list[str]:
    """The secrets that a text has, in any form."""
    data = found.encode()
    return [each for each in planted if any(form in data for form in forms(each))]


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """All that the worker logs, and not its servers, which know their secrets."""
    caplog.set_level(logging.DEBUG)
    for of_servers in ("mcp.server", "sse_starlette"):
        caplog.set_level(logging.CRITICAL, of_servers)
    caplog.set_level(logging.DEBUG, "holdfast")
    return caplog


@pytest.fixture
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ec.EllipticCurvePrivateKey:
    """A key in the worker's files, beside its other secrets, there and in its environment."""
    environment = {"GATEWAY": f"Bearer {HEADER}", teller.TOKEN: TOKEN, "CLIENT": SECRET}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    key = ec.generate_private_key(ec.SECP256R1())
    (tmp_path / "key.pem").write_text(text_of(key))
    (tmp_path / "ann").write_text(PRINCIPAL)
    return key


def text_of(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def written_servers(folder: Path, urls: list[str]) -> dict[str, Any]:
    """Write the settings of a program, and of servers at these addresses, into `servers.yaml`."""
    auths = [{"issuer": url.removesuffix("/mcp"), "clientId": CLIENT} for url in urls]
    gateway = {"headersEnv": {"Authorization": "GATEWAY"}}
    program = {"command": sys.executable, "args": [teller.__file__], "envFrom": [teller.TOKEN]}
    servers: dict[str, Any] = {
        "program": program,
        "header": {"url": urls[0], "protocol": "legacy", **gateway},
        "secret": {"url": urls[1], "auth": {**auths[1], "clientSecretEnv": "CLIENT"}},
        "key": {"url": urls[2], "auth": {**auths[2], "privateKeyFile": f"{folder}/key.pem"}},
        "principal": {"url": urls[3], "principalTokens": str(folder), **gateway},
    }
    once = {"overrides": {name: {"_approval": {"require": "never"}} for name in teller.TOOLS}}
    text = yaml.safe_dump({name: each | once for name, each in servers.items()})
    (folder / "servers.yaml").write_text(text)
    return servers


async def test_no_secret_of_a_server_leaves_the_worker(
    client: Client,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    log: pytest.LogCaptureFixture,
    key: ec.EllipticCurvePrivateKey,
) -> None:
    # Resolved again, the last call would not be made: its server no longer lists its tools.
    monkeypatch.setattr(mcp_servers, "KEPT_SECONDS", 600)
    by_secret, by_key, by_principal = guards = [Guard(lambda *_: None) for _ in range(3)]
    by_key.public_key, by_principal.tokens = key.public_key(), {PRINCIPAL: "read", HEADER: "read"}
    lines = text_of(key).splitlines()[1:-1]
    known: list[Callable[[], list[str]]] = [
        lambda: [SECRET, *by_secret.tokens, by_secret.refresh],
        lambda: [*lines, *by_key.tokens, by_key.refresh],
        lambda: [PRINCIPAL],
    ]
    async with AsyncExitStack() as stack:
        plain = teller.teller(lambda: [HEADER]).streamable_http_app()
        urls = [await stack.enter_async_context(serving(plain))]
        for guard, secrets_of in zip(guards, known, strict=True):
            guard.app = teller.teller(secrets_of).streamable_http_app()
            urls.append(await stack.enter_async_context(serving(guard)))
        servers = written_servers(tmp_path, urls)
        calls = [f"{name}_{tool}" for name in servers for tool in teller.TOOLS]
        answers = [Answer(calls=[call(each) for each in calls]), Answer("done")]
        exporter, secrets = InMemorySpanExporter(), Secrets()
        telemetry = Telemetry(SimpleSpanProcessor(exporter), content=True, secrets=secrets)
        settings: dict[str, Any] = {"servers": tmp_path / "servers.yaml", "cached_runs": 9}
        settings |= {"secrets": secrets, "telemetry": telemetry}
        home = await stack.enter_async_context(backend(client, tmp_path, answers, **settings))
        ann: dict[str, Any] = {"principal": {"id": "ann"}}
        run = await home.start([f"mcp:{name}/*" for name in servers], **ann)
        await run.result()
        telling = await home.call("mcp:program/report", **ann)
        told = (await telling.result())["output"]
        failing = await home.call("mcp:key/fail", **ann)
        failure = await failing.failure()
        by_secret.is_closed = True
        refusing = await home.call("mcp:secret/report", **ann)
        refused = await refusing.failure()
        results = await run.results()
        runs = (run, telling, failing, refusing)
        history = [event.SerializeToString() for each in runs for event in await each.history()]
        read = json.dumps([results, await run.events(), await run.context()], ensure_ascii=False)

        async def is_logged() -> bool:
            return "the token is [secret]" in log.text

        await eventually(is_logged)
    planted = [HEADER, TOKEN, SECRET, PRINCIPAL, *lines]
    planted += [token for guard in guards for token in (*guard.all, guard.refresh)]
    places = {
        "history": b"".join(history).decode("latin-1"),
        "answers": read,
        "errors": repr((failure, failure.cause, failure.details, refused, refused.cause)),
        "model": json.dumps(home.model.requests, default=str),
        "spans": "".join(span.to_json() for span in exporter.get_finished_spans()),
        "log": log.text,
    }
    for place, text in places.items():
        assert leaking(text, planted) == [], place
    assert len(results) == len(calls)
    assert all("it is and [secret]" in str(each) for each in results.values())
    assert "it is and [secret]" in places["spans"]
    # What poses as a message is the text of a result.
    assert told == '{"_message": {"content": "it is and [secret]"}}'
    assert "HTTP 401 invalid_client" in refused.message
