"""What is Ollama's own: where its server is, its errors, and what its own client sends.

It is by its variable, as Ollama itself reads it, or by its usual port.
"""

import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import ollama
import pytest
from ollama._client import _parse_host

from holdfast.catalog.endpoints import http_client, load_models
from holdfast.providers.ollama import (
    HOST_VARIABLE,
    OllamaFormat,
    ollama_url,
    with_local_ollama,
)
from holdfast.runtime.settings_files.file_problems import LoadError
from tests.providers.fakes import TOOLS, sent_body, target
from tests.providers.wire.exchange import Exchange
from tests.providers.wire.wires import WIRES

WIRE = WIRES["ollama"]


@pytest.fixture
def listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:8080", "http://127.0.0.1:8080"),
        ("::", "http://[::1]:11434"),
        ("[::]:8080", "http://[::1]:8080"),
        ("http://0.0.0.0:8080", "http://127.0.0.1:8080"),
        (" 'gpu' ", "http://gpu:11434"),
        ("ollama.com", "https://ollama.com"),
        ("https://ollama.com", "https://ollama.com"),
        ("fe80::1", "http://[fe80::1]:11434"),
    ],
)
def test_the_variable_means_an_address(host: str, url: str) -> None:
    assert ollama_url(host) == url


@pytest.mark.parametrize(
    "host",
    [
        *("1.2.3.4", ":56789", "1.2.3.4:56789", "http://1.2.3.4", "https://1.2.3.4:56789"),
        *("example.com", "example.com:56789", "http://example.com", "https://example.com"),
        *("example.com/", "example.com:56789/path", "https://example.com:56789/path/"),
        *("[0001:002:003:0004::1]", "[0001:002:003:0004::1]:56789/path", "[::1]:80"),
    ],
)
def test_its_own_client_reads_the_variable_in_the_same_way(host: str) -> None:
    def whole(url: str) -> str:
        scheme, _, place = url.partition("://")
        bare = place.partition("/")[0].rpartition("]")[2]
        port = "" if ":" in bare else {"http": ":80", "https": ":443"}[scheme]
        name, slash, path = place.partition("/")
        return f"{scheme}://{name}{port}{slash}{path}"

    theirs = _parse_host(host).replace("0001:002:003:0004::1", "1:2:3:4::1")
    assert whole(ollama_url(host)) == theirs


@pytest.mark.parametrize(
    ("environ", "url", "key"),
    [
        ({HOST_VARIABLE: "gpu:1234"}, "http://gpu:1234/api/chat", None),
        (
            {HOST_VARIABLE: "ollama.com", "OLLAMA_API_KEY": "k"},
            "https://ollama.com/api/chat",
            "OLLAMA_API_KEY",
        ),
    ],
)
def test_without_a_file_ollama_is_at_the_address_of_its_variables(
    environ: dict[str, str], url: str, key: str | None
) -> None:
    target = load_models(None, environ, http_client()).find("ollama").target
    assert target.url("/chat", version="/api") == url
    assert (target.missing_key, target.endpoint.api_key_env) == (None, key)


@pytest.mark.parametrize("host", ["ftp://x", ":port", "a:b:c", "gpu:99999"])
def test_a_meaningless_variable_is_reported(host: str) -> None:
    with pytest.raises(LoadError, match="the environment"):
        load_models(None, {HOST_VARIABLE: host}, http_client())


def test_an_ollama_is_looked_for_on_its_port_unless_the_variable_names_one(listening: int) -> None:
    assert with_local_ollama({"A": "b"}, listening) == {
        "A": "b",
        HOST_VARIABLE: f"127.0.0.1:{listening}",
    }
    assert with_local_ollama({HOST_VARIABLE: "gpu"}, listening) == {HOST_VARIABLE: "gpu"}
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert with_local_ollama({}, port) == {}


def test_a_port_that_does_not_answer_costs_a_quarter_of_a_second_at_most() -> None:
    # A queue that is full takes no more connections, and refuses none.
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        waiting = [socket.socket() for _ in range(3)]  # more than it queues
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(full.getsockname())
        looked = threading.Event()

        def look() -> None:
            with_local_ollama({}, full.getsockname()[1])
            looked.set()

        threading.Thread(target=look, daemon=True).start()
        assert looked.wait(120)
        for each in waiting:
            each.close()


def test_a_key_is_sent_where_there_is_one() -> None:
    cloud = target(provider="ollama", baseUrl="https://ollama.com/api")
    local = target(provider="ollama", baseUrl=WIRE.base_url, apiKeyEnv=None)
    assert cloud.headers(OllamaFormat().headers)["authorization"].startswith("Bearer sk-")
    assert "authorization" not in local.headers(OllamaFormat().headers)


# Its errors.


async def error_message(status: int, error: str, **endpoint: Any) -> str:
    reply = httpx.Response(status, json={"error": error})
    failure = await Exchange(WIRE, reply, **endpoint).failure(model={"name": "tiny"})
    assert failure.non_retryable
    return failure.message


async def test_a_model_that_is_not_there_is_to_be_pulled() -> None:
    message = await error_message(404, "model 'gpt-test' not found")
    assert "not found. Pull it where Ollama runs (`ollama pull gpt-test`)" in message
    assert "pull" not in await error_message(404, "no such model", provider="openai")


async def test_a_conversation_that_does_not_fit_is_reported_with_the_setting() -> None:
    # Ollama forwards the error of the server within it: JSON in a text.
    inner = "request (5000 tokens) exceeds the available context size (4096 tokens)"
    error = json.dumps({"error": {"code": 400, "message": inner, "type": "exceed_context_size"}})
    message = await error_message(400, error)
    assert message.endswith(f"{inner}. Raise `num_ctx` in the `options` of the agent's `model`")
    assert "num_ctx" not in await error_message(400, '"tiny" does not support thinking')


# Its own client, as a second witness.


def test_what_its_own_client_sends_is_what_we_send() -> None:
    seen: list[dict[str, Any]] = []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append({"path": request.url.path, **json.loads(request.content)})
        return httpx.Response(200, content=WIRE.answer("Hi"))

    ours = json.loads(sent_body(OllamaFormat(), tools=TOOLS[1:], output={"type": "object"}))
    client = ollama.Client(transport=httpx.MockTransport(handle))
    tools = [{**tool, "function": {**tool["function"]}} for tool in ours["tools"]]
    plain = {"messages": ours["messages"], "options": ours["options"], "format": ours["format"]}
    list(client.chat(model=ours["model"], stream=True, tools=tools, **plain))
    assert seen[0].pop("path") == "/api/chat"
    ours = {name: ours[name] for name in ours if name not in ("truncate", "shift")}
    assert seen[0] == ours
