"""The addresses that the operator allows the worker to fetch knowledge from.

An address is parsed and compared in the form in which it is requested: scheme, host and port as a
whole, the path segment by segment. An address that a server could read differently is rejected.
"""

import ipaddress
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Self

import httpx

from holdfast.schemas.phrases import quote_value
from holdfast.validation.problems import FixableError

MAX_ADDRESS_CHARACTERS = 2_000
_PORTS = {"http": 80, "https": 443}
# A backslash, or a segment `.` or `..`; some servers read `..;x` as `..`.
_AMBIGUOUS = re.compile(r"\\|(?:\A|/)\.\.?(?:[;/]|\Z)")


class AddressError(FixableError):
    """An address that is invalid or not allowed."""


@dataclass(frozen=True)
class AddressPrefix:
    """The allowed addresses of one scheme, host and port, at a path and below it."""

    origin: tuple[str, str, int]
    steps: tuple[str, ...]

    @classmethod
    def read(cls, text: str) -> Self:
        """Read a prefix as an operator writes it.

        Raises:
            AddressError: the text is not the beginning of an address.
        """
        url = parse_address(text)
        if url.query or url.fragment:
            raise AddressError(f"{quote_value(text)} is more than a path", "leave out `?` and `#`")
        steps = _steps(url)
        return cls(_origin(url), steps if steps[-1] else steps[:-1])

    def covers(self, url: httpx.URL) -> bool:
        """Return whether the address begins with this prefix."""
        return _origin(url) == self.origin and _steps(url)[: len(self.steps)] == self.steps


def allowed_address(text: str, prefixes: Collection[AddressPrefix]) -> httpx.URL:
    """Return the address if a prefix allows it.

    Raises:
        AddressError: the text is not an address, or no prefix allows it.
    """
    url = parse_address(text)
    if any(prefix.covers(url) for prefix in prefixes):
        return url
    fix = "have the worker started with a `--knowledge-url` that it begins with"
    raise AddressError(f"the worker does not allow {quote_value(display_address(url))}", fix)


def parse_address(text: str) -> httpx.URL:
    """Parse an address that can be compared with prefixes.

    Raises:
        AddressError: the text is not such an address.
    """
    if len(text) > MAX_ADDRESS_CHARACTERS:
        reason = f"the address has {len(text)} characters"
        raise AddressError(reason, f"at most {MAX_ADDRESS_CHARACTERS} are allowed")
    try:
        url = httpx.URL(text)
    except (httpx.InvalidURL, UnicodeError) as error:
        raise AddressError(f"{quote_value(text)} is no address", "write https://…") from error
    if url.scheme not in _PORTS or not url.host:
        raise AddressError(f"{quote_value(text)} is no web address", "write https://…")
    if url.userinfo:
        # Not shown: it may hold a password.
        fix = "remove the part before the `@`"
        raise AddressError("the address holds a user's name or password", fix)
    if _AMBIGUOUS.search(url.path):
        reason = f"{quote_value(text)} has `.` or `..` as a part of its path"
        raise AddressError(reason, "write its path plainly")
    return url


def parse_secure_address(text: str) -> httpx.URL:
    """Parse an address whose content no one can change or read on the way.

    Raises:
        AddressError: the text is no address, or one with `http` of another machine.
    """
    url = parse_address(text)
    if url.scheme == "http" and not is_loopback(url.host):
        raise AddressError("data sent by `http` can be changed in transit", "write https://…")
    return url


def is_loopback(host: str) -> bool:
    """Return whether the host of an address is certainly this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def display_address(url: httpx.URL) -> str:
    """Return the address without credentials, query and fragment."""
    return str(url.copy_with(userinfo=b"", query=None, fragment=None))


def _origin(url: httpx.URL) -> tuple[str, str, int]:
    return url.scheme, url.host, url.port or _PORTS[url.scheme]


def _steps(url: httpx.URL) -> tuple[str, ...]:
    """Return the path's segments as they are requested: for `/docs/`, `docs` and an empty one."""
    return tuple(url.raw_path.partition(b"?")[0].decode("ascii").split("/")[1:])
