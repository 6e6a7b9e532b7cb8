"""The formats of texts that are checked; every other `format` is a note for the reader.

JSON Schema leaves it to a validator which formats it checks. These are quick to check, and the same
everywhere. Where its standard refuses what is in wide use, the check accepts it: a `date-time` or a
`time` may lack its offset, an `email` and a `uri` may have letters of any script.
"""

import re
from collections.abc import Callable
from datetime import date
from ipaddress import IPv4Address, IPv6Address
from uuid import UUID

MAX_FORMAT_CHARACTERS = 10_000

_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = (
    r"([01][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)(\.[0-9]+)?"
    r"([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])?"
)
_URI = r"""[A-Za-z][A-Za-z0-9+.-]*:([^\s<>"{}|\\^`%\x00-\x20]|%[0-9A-Fa-f]{2})*"""
# By its name: the whole of the text, and what raises `ValueError` where it does not fit.
_FORMATS: dict[str, tuple[str, Callable[[str], object]]] = {
    "date": (_DATE, date.fromisoformat),
    "date-time": (f"{_DATE}[Tt ]{_TIME}", lambda text: date.fromisoformat(text[:10])),
    "time": (_TIME, str),
    "email": (r'("[^"]+"|[^\s@."]+(\.[^\s@."]+)*)@[^\s@.]+(\.[^\s@.]+)*', str),
    "ipv4": ("[0-9.]*", IPv4Address),
    "ipv6": ("[^%]*", IPv6Address),
    "uri": (_URI, str),
    "uuid": (".{8}-.{4}-.{4}-.{4}-.*", UUID),
}
FORMATS = frozenset(_FORMATS)


def fits_format(name: str, text: str) -> bool:
    """Return whether a text is of a format, which is one of `FORMATS`."""
    written, parse = _FORMATS[name]
    try:
        parse(text[:MAX_FORMAT_CHARACTERS])
    except ValueError:
        return False
    return len(text) <= MAX_FORMAT_CHARACTERS and re.fullmatch(written, text) is not None
