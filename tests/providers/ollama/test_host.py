"""Where an Ollama server is: by its variable as Ollama itself reads it, or by its usual port."""

import socket
import threading
from collections.abc import Iterator

import pytest
from ollama._client import _parse_host

from holdfast.catalog.endpoints import http_client, load_models
from holdfast.providers.ollama.host import VARIABLE, ollama_url, with_local_ollama
from holdfast.runtime.settings_files.file_problems import LoadError


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
        ({VARIABLE: "gpu:1234"}, "http://gpu:1234/api/chat", None),
        (
            {VARIABLE: "ollama.com", "OLLAMA_API_KEY": "k"},
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
        load_models(None, {VARIABLE: host}, http_client())


def test_an_ollama_that_listens_on_its_port_is_found(listening: int) -> None:
    found = with_local_ollama({"A": "b"}, listening)
    assert found == {"A": "b", VARIABLE: f"127.0.0.1:{listening}"}


def test_the_address_of_the_variable_is_not_looked_for(listening: int) -> None:
    environ = {VARIABLE: "gpu"}
    assert with_local_ollama(environ, listening) == environ


def test_where_nothing_listens_nothing_is_found() -> None:
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
