"""The address of an Ollama server, from the variable that it and its clients read, or its port.

Source: Ollama's `envconfig` (`Host`, `ConnectableHost`) and the FAQ on `OLLAMA_HOST`.
"""

import contextlib
import ipaddress
import socket
from collections.abc import Mapping

VARIABLE = "OLLAMA_HOST"
KEY_VARIABLE = "OLLAMA_API_KEY"
PORT = 11434
MAX_PROBE_SECONDS = 0.25

_LOOPBACK = {4: "127.0.0.1", 6: "::1"}
_CLOUD = "ollama.com"


def with_local_ollama(environ: Mapping[str, str], port: int = PORT) -> Mapping[str, str]:
    """Return the environment, with `OLLAMA_HOST` set if a server listens on `port` here.

    The worker looks once, when it starts. It never fails.
    """
    if environ.get(VARIABLE):
        return environ
    try:
        with socket.create_connection((_LOOPBACK[4], port), MAX_PROBE_SECONDS):
            return {**environ, VARIABLE: f"127.0.0.1:{port}"}
    except OSError:
        return environ


def ollama_endpoint(environ: Mapping[str, str]) -> dict[str, object] | None:
    """Return the endpoint of the environment, in the form of `endpoints.yaml`, if there is one."""
    host = environ.get(VARIABLE)
    if not host:
        return None
    endpoint: dict[str, object] = {"provider": "ollama", "baseUrl": ollama_url(host)}
    return {**endpoint, "apiKeyEnv": KEY_VARIABLE} if environ.get(KEY_VARIABLE) else endpoint


def ollama_url(host: str) -> str:
    """Return the address of an `OLLAMA_HOST`, such as `host`, `:11434` or `http://host`.

    The variable is also where a server listens: 0.0.0.0 is reached at 127.0.0.1.
    """
    scheme, _, place = host.strip().strip("\"'").rpartition("://")
    place, _, path = place.partition("/")
    name, colon, port = place.rpartition(":")
    name, port = (name.strip("[]"), port) if colon else (place, "")
    with contextlib.suppress(ValueError):
        name, port = str(ipaddress.ip_address(place.strip("[]"))), ""
    if not scheme:
        scheme, port = ("https", port) if name == _CLOUD else ("http", port or str(PORT))
    with contextlib.suppress(ValueError):
        address = ipaddress.ip_address(name or _LOOPBACK[4])
        name = _LOOPBACK[address.version] if address.is_unspecified else str(address)
        name = f"[{name}]" if address.version == 6 else name
    return f"{scheme}://{name}{f':{port}' if port else ''}/{path}".rstrip("/")
