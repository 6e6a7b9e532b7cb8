"""Make text of other authors safe for a person's terminal.

Models, tools and the starters of runs are untrusted: their text may hold escape sequences that
move the cursor, change the window's title, or reverse a line so that it reads differently. None of
these reaches a terminal or a log. A text that is cut off for its length shows that it is.
"""

import json
import re
import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from holdfast.schemas.names import DISTRIBUTION
from holdfast.validation.text_safety import INVISIBLE

# Whole escape sequences first (strings such as OSC, then CSI, then the short ones), so that
# their printable remains do not stay behind. No string contains the opener of another: each of a
# text of openers would read thousands of characters again.
_ESCAPES = re.compile(
    r"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x90\x98\x9c-\x9f]{0,4096}(?:\x07|\x1b\\|\x9c)"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|\x1b[ -/]*[0-~]"
)
# A name, or a time.
_PLAIN_NAME = re.compile(r"[\w.@/+-]*|[\dT.:Z+-]*")
_BREAK = "\u2060"
# The beginnings of addresses, mentions and Markdown links: an invisible character breaks each.
# Addresses may be written in full width, with the dots that browsers read as one.
_LINKING = re.compile(
    r"(?<=\w)[.\u2024\u3002\ufe52\uff0e\uff61](?=\w)|[:\uff1a](?=[/\uff0f]{2})|[@\ufe6b\uff20]"
    r"|\](?=\()|[#\uff03](?=\w)"
)
# The reader of a page.
_OWN_WORDS = ("you",)
_ARGUMENT_CHARS = 60
_ARGUMENTS_CHARS = 200


def clean(text: str) -> str:
    """Remove everything that a terminal obeys; line breaks and tabs remain."""
    text = re.sub(r"\r\n?", "\n", _ESCAPES.sub("", text))
    return INVISIBLE.sub("", text)


def defuse_links(text: str) -> str:
    """Return the text without addresses and mentions that a mail or chat program would link."""
    return _LINKING.sub(lambda found: f"{found.group()}{_BREAK}", text)


def shorten(text: str, limit_chars: int) -> str:
    """Return at most `limit_chars` characters, the last one `…` if the text was longer."""
    return text if len(text) <= limit_chars else f"{text[: limit_chars - 1]}…"


def as_sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def one_line(text: str, limit_chars: int) -> str:
    return shorten(" ".join(clean(text[: 8 * limit_chars]).split()), limit_chars)


def name_in_line(text: str, limit_chars: int) -> str:
    """Return a name for a line of ours: quoted, if it could pass for more words of the line."""
    short = one_line(text, limit_chars)
    is_plain = _PLAIN_NAME.fullmatch(short) and short not in _OWN_WORDS
    return short if is_plain else as_json(short)


def label_in_line(text: str, limit_chars: int) -> str:
    """Return a label, which may have spaces, for a line of ours: quoted as a name is."""
    short = one_line(text, limit_chars)
    return as_json(short) if {*'();:"'} & {*short} else short


def message_after_code(code: str, message: str) -> str:
    """Return an error's message without the code in front of it."""
    return clean(message).strip().removeprefix(f"{code}: ")


def as_json(value: Any, *, indent: int | None = None) -> str:
    r"""Return JSON that is safe to print: characters that a terminal obeys become `\uXXXX`."""
    written = json.dumps(value, ensure_ascii=False, indent=indent)
    # DEL is the only one of them that JSON does not escape.
    return INVISIBLE.sub(
        lambda found: r"\u007f" if found[0] == "\x7f" else json.dumps(found[0])[1:-1], written
    )


def as_text(value: Any) -> str:
    """Return a text as it is, and any other value as indented JSON."""
    return clean(value) if isinstance(value, str) else as_json(value, indent=2)


def format_argument(value: Any) -> str:
    """Return an argument for a person to check; an ambiguous text is quoted."""
    if isinstance(value, str):
        unclear = _ambiguous(value) or INVISIBLE.search(value.replace("\r\n", "\n"))
        return as_json(value) if unclear else clean(value)
    short = as_json(value)
    return short if len(short) <= _ARGUMENT_CHARS else as_json(value, indent=2)


def _ambiguous(text: str) -> bool:
    if not text.strip() or (text != text.strip() and "\n" not in text):
        return True
    try:
        json.loads(text)
    except RecursionError:
        return True  # it begins as a list or an object does, and may well be one
    except ValueError:
        return False
    return True


def arguments_line(arguments: Any) -> str:
    """Return a call's arguments in one short line: `order_id="A-1001" amount=120`."""
    if not isinstance(arguments, Mapping):
        return "" if arguments is None else shorten(as_json(arguments), _ARGUMENTS_CHARS)
    pairs = (
        f"{name_in_line(str(name), 40)}={shorten(as_json(value), _ARGUMENT_CHARS)}"
        for name, value in arguments.items()
    )
    return shorten(" ".join(pairs), _ARGUMENTS_CHARS)


def holdfast_command(*words: str) -> str:
    """Return a `holdfast` command to copy into a shell."""
    return shell_command("holdfast", *words)


def extra_command(extra: str) -> str:
    """Return the command that adds an extra to the installed distribution."""
    return shell_command("pip", "install", f"{DISTRIBUTION}[{extra}]")


def shell_command(*words: str) -> str:
    """Return a command to copy into a shell, quoted and clean."""
    return shlex.join(clean(word) for word in words)


def read_time(at: Any) -> datetime | None:
    """Return a time of a run's log in UTC, or None if it is not a time."""
    try:
        return datetime.fromisoformat(str(at)).astimezone(UTC)
    except ValueError:
        return None


def format_clock(at: Any) -> str:
    """Return the time of day in UTC for the line of a log, `14:03:07`."""
    time = read_time(at)
    return f"{time:%H:%M:%S}" if time else "        "


def format_date(at: Any, *, seconds: bool = False) -> str:
    """Return a date and time for people, `2026-03-01 14:03 UTC`."""
    time = read_time(at)
    return time.strftime(f"%Y-%m-%d %H:%M{':%S' * seconds} UTC") if time else "-"


def format_age(at: Any) -> str:
    """Return the distance of a time from now: `3 min`, `2 h`, `5 d`."""
    time = read_time(at)
    if time is None:
        return "-"
    seconds = abs((datetime.now(UTC) - time).total_seconds())
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
