"""The formats of texts: their words for people, and their checks.

JSON Schema leaves it to a validator which formats it checks; any other `format` is a note for the
reader. The checks are quick, and the same everywhere. Where its standard refuses what is in wide
use, the check accepts it: a `date-time` or a `time` may lack its offset, an `email` and a `uri` may
have letters of any script.
"""

import re
from collections.abc import Callable, Mapping
from datetime import date
from ipaddress import IPv4Address, IPv6Address
from typing import Final

MAX_FORMAT_CHARACTERS = 10_000

_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = (
    r"([01][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)(\.[0-9]+)?"
    r"([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])?"
)
_EMAIL = r'("[^"]+"|[^\s@."]+(\.[^\s@."]+)*)@[^\s@.]+(\.[^\s@.]+)*'
_URI = r"""[A-Za-z][A-Za-z0-9+.-]*:([^\s<>"{}|\\^`%\x00-\x20]|%[0-9A-Fa-f]{2})*"""
# By its name: its words for people, what the whole of a text matches (empty: no text is checked),
# and what raises `ValueError` where a text does not fit.
FORMATS: Final[Mapping[str, tuple[str, str, Callable[[str], object]]]] = {
    "date": ("a date, such as 2026-03-01", _DATE, date.fromisoformat),
    "date-time": (
        "a date and time with its zone, such as 2026-03-01T14:00:00Z",
        f"{_DATE}[Tt ]{_TIME}",
        lambda text: date.fromisoformat(text[:10]),
    ),
    "time": ("a time of day, such as 14:00:00Z", _TIME, str),
    "duration": ("a duration, such as P3D or PT4H", "", str),
    "email": ("an e-mail address", _EMAIL, str),
    "ipv4": ("", "[0-9.]*", IPv4Address),
    "ipv6": ("", "[^%]*", IPv6Address),
    "uri": ("an address, such as https://example.com/", _URI, str),
    "uuid": ("a UUID", "[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}", str),
}
_ANY: Final = ("", "", str)


def format_words(name: object) -> str:
    """Return the words for a format; empty for one that has none."""
    return FORMATS.get(name, _ANY)[0] if isinstance(name, str) else ""


def fits_format(name: str, text: str) -> bool:
    """Return whether a text is of a format; every text is of one that is not checked."""
    _, pattern, parse = FORMATS.get(name, _ANY)
    try:
        parse(text[:MAX_FORMAT_CHARACTERS])
    except ValueError:
        return False
    return not pattern or (
        len(text) <= MAX_FORMAT_CHARACTERS and re.fullmatch(pattern, text) is not None
    )
