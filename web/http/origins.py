"""Origins: which pages may ask an endpoint, and by which names it is reached itself.

A browser says from which page a request comes (`Origin`), and under which name it looked the
endpoint up (`Host`). Neither can be made up by a page, so both are compared with what the operator
has named: an unknown page gets nothing, and neither does an unknown name that resolves to this
machine.
"""

import re
from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

_DEFAULT_PORTS = {"http": 80, "https": 443}
_LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
_HOST = re.compile(r"[a-z0-9.-]+|\[[0-9a-f:.]+\]")
_TODO = "write https://HOST, or on this machine http://127.0.0.1:PORT"


def read_origin(text: str) -> str:
    """An origin as browsers write it, by what a person wrote.

    Raises:
        ValueError: it is none, or one whose pages anybody on the way could change.
    """
    try:
        parts = urlsplit(text.strip().lower())
        port = parts.port
    except ValueError:
        raise ValueError(_TODO) from None
    scheme, host = parts.scheme, parts.netloc.rpartition(":")[0] if port else parts.netloc
    if scheme not in _DEFAULT_PORTS or not _HOST.fullmatch(host):
        raise ValueError(_TODO)
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ValueError(f"an origin has no path: {_TODO}")
    if scheme == "http" and not is_loopback(host):
        raise ValueError(f"http can be changed on the way: {_TODO}")
    shown = "" if port in (None, _DEFAULT_PORTS[scheme]) else f":{port}"
    return f"{scheme}://{host}{shown}"


def is_loopback(host: str) -> bool:
    """Check whether a host of an address is certainly this machine."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def own_origins(host: str, port: int, url: str | None) -> frozenset[str]:
    """The origins of the endpoint's own page: `url`, and its names on this machine."""
    local = _LOOPBACK_NAMES if is_loopback(host) else ()
    return frozenset([*(f"http://{name}:{port}" for name in local), *([url] if url else [])])


def hosts_of(origins: frozenset[str]) -> Mapping[str, str]:
    """What a request to one of these origins may have as its `Host`, and which of them that is."""
    return {host: origin for origin in origins for host in _hosts(origin)}


def _hosts(origin: str) -> Iterator[str]:
    parts = urlsplit(origin)
    yield parts.netloc
    if parts.port is None:
        yield f"{parts.netloc}:{_DEFAULT_PORTS[parts.scheme]}"
