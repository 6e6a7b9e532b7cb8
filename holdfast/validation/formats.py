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
from typing import Final, NamedTuple
from uuid import UUID

MAX_FORMAT_CHARACTERS = 10_000

_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = (
    r"([01][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)(\.[0-9]+)?"
    r"([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])?"
)
_EMAIL = r'("[^"]+"|[^\s@."]+(\.[^\s@."]+)*)@[^\s@.]+(\.[^\s@.]+)*'
_URI = r"""[A-Za-z][A-Za-z0-9+.-]*:([^\s<>"{}|\\^`%\x00-\x20]|%[0-9A-Fa-f]{2})*"""


class Format(NamedTuple):
    """A format: its words, what the whole of a text matches, and what raises `ValueError` of it.

    Without a pattern no text is checked.
    """

    words: str = ""
    pattern: str = ""
    parse: Callable[[str], object] = str


FORMATS: Final[Mapping[str, Format]] = {
    "date": Format("a date, such as 2026-03-01", _DATE, date.fromisoformat),
    "date-time": Format(
        "a date and time with its zone, such as 2026-03-01T14:00:00Z",
        f"{_DATE}[Tt ]{_TIME}",
        lambda text: date.fromisoformat(text[:10]),
    ),
    "time": Format("a time of day, such as 14:00:00Z", _TIME),
    "duration": Format("a duration, such as P3D or PT4H"),
    "email": Format("an e-mail address", _EMAIL),
    "ipv4": Format(pattern="[0-9.]*", parse=IPv4Address),
    "ipv6": Format(pattern="[^%]*", parse=IPv6Address),
    "uri": Format("an address, such as https://example.com/", _URI),
    "uuid": Format("a UUID", ".{8}-.{4}-.{4}-.{4}-.*", UUID),
}


def format_words(name: object) -> str:
    """Return the words for a format; empty for one that has none."""
    return FORMATS[name].words if isinstance(name, str) and name in FORMATS else ""


def fits_format(name: str, text: str) -> bool:
    """Return whether a text is of a format; every text is of one that is not checked."""
    _, pattern, parse = FORMATS.get(name, Format())
    try:
        parse(text[:MAX_FORMAT_CHARACTERS])
    except ValueError:
        return False
    is_match = len(text) <= MAX_FORMAT_CHARACTERS and bool(re.fullmatch(pattern, text))
    return is_match or not pattern
