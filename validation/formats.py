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

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(
    r"([01][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)(\.[0-9]+)?"
    r"([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])?"
)
_EMAIL = re.compile(r'("[^"]+"|[^\s@."]+(\.[^\s@."]+)*)@[^\s@.]+(\.[^\s@.]+)*')
_URI = re.compile(r"""[A-Za-z][A-Za-z0-9+.-]*:([^\s<>"{}|\\^`%\x00-\x20]|%[0-9A-Fa-f]{2})*""")


def _is_date(text: str) -> bool:
    return _DATE.fullmatch(text) is not None and date.fromisoformat(text) is not None


def _is_date_time(text: str) -> bool:
    return text[10:11] in ("T", "t", " ") and _is_date(text[:10]) and _is_time(text[11:])


def _is_time(text: str) -> bool:
    return _TIME.fullmatch(text) is not None


def _is_uuid(text: str) -> bool:
    return UUID(text) is not None and all(text[place] == "-" for place in (8, 13, 18, 23))


_FORMATS: dict[str, Callable[[str], bool]] = {
    "date": _is_date,
    "date-time": _is_date_time,
    "time": _is_time,
    "email": lambda text: _EMAIL.fullmatch(text) is not None,
    "ipv4": lambda text: IPv4Address(text) is not None,
    "ipv6": lambda text: not IPv6Address(text).scope_id,
    "uri": lambda text: _URI.fullmatch(text) is not None,
    "uuid": _is_uuid,
}
FORMATS = frozenset(_FORMATS)


def fits_format(name: str, text: str) -> bool:
    """Return whether a text is of a format, which is one of `FORMATS`."""
    try:
        return len(text) <= MAX_FORMAT_CHARACTERS and _FORMATS[name](text)
    except ValueError:
        return False
