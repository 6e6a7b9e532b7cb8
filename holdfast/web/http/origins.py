"""Origins: the pages that may send requests to an endpoint, and the endpoint's own names.

A browser sends the page of origin of a request (`Origin`), and the name by which it resolved the
endpoint (`Host`). A page can forge neither, so both are compared with the operator's settings: an
unknown page is refused, and so is an unknown name that resolves to this machine.
"""

import re
from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

_DEFAULT_PORTS = {"http": 80, "https": 443}
_LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
_HOST = re.compile(r"[a-z0-9.-]+|\[[0-9a-f:.]+\]")
_PATH = re.compile(r"(/(?!\.{1,2}(/|$))[A-Za-z0-9._~-]+)*")
_WANTED_FORM = "write https://HOST, or on this machine http://127.0.0.1:PORT"


def read_origin(text: str) -> str:
    """Return an origin in the form of browsers, from the text of a person.

    Raises:
        ValueError: the text is no origin, or its pages could be changed in transit.
    """
    found = read_address(text)
    if urlsplit(found).path:
        raise ValueError(f"an origin has no path: {_WANTED_FORM}")
    return found


def read_address(text: str) -> str:
    """Return an origin and the path of an endpoint there, without a slash at its end.

    Raises:
        ValueError: as `read_origin`, or a browser would read the path as another one.
    """
    # Imported late: it loads httpx, and every command imports this module.
    from holdfast.runtime.addresses import is_loopback

    try:
        parts = urlsplit(text.strip())
        port = parts.port
    except ValueError:
        raise ValueError(_WANTED_FORM) from None
    scheme, netloc, path = parts.scheme, parts.netloc.lower(), parts.path.removesuffix("/")
    host = netloc.rpartition(":")[0] if port else netloc
    if scheme not in _DEFAULT_PORTS or not _HOST.fullmatch(host):
        raise ValueError(_WANTED_FORM)
    if not _PATH.fullmatch(path) or parts.query or parts.fragment:
        raise ValueError(f"a path has letters, digits and `-._~`: {_WANTED_FORM}")
    if scheme == "http" and not is_loopback(parts.hostname or ""):
        raise ValueError(f"http can be changed in transit: {_WANTED_FORM}")
    shown = "" if port in (None, _DEFAULT_PORTS[scheme]) else f":{port}"
    return f"{scheme}://{host}{shown}{path}"


def path_of(url: str | None) -> str:
    """Return the path of an address that `read_address` returned; empty without one."""
    return urlsplit(url or "").path


def own_origins(host: str, port: int, url: str | None) -> frozenset[str]:
    """Return the origins of the endpoint's own page: of `url`, and its names on this machine."""
    origin = (url or "").removesuffix(path_of(url))
    local = _LOOPBACK_NAMES if ip_address(host).is_loopback else ()
    return frozenset([*(f"http://{name}:{port}" for name in local), *([origin] if origin else [])])


def hosts_of(origins: frozenset[str]) -> Mapping[str, str]:
    """Return the allowed `Host` headers of these origins, each with its origin."""
    found = {}
    for origin in origins:
        parts = urlsplit(origin)
        found[parts.netloc] = origin
        if parts.port is None:
            found[f"{parts.netloc}:{_DEFAULT_PORTS[parts.scheme]}"] = origin
    return found
