"""Source files: JSON, YAML and Markdown with front matter, read as values with their lines.

What a file says is JSON, however it is written. Every value knows the line of each of its keys, so
that a fault can be told where it stands.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from activities.catalog.faults import Fault, Lines, Problem, UnreadableError, Where
from activities.catalog.json_text import read_json
from activities.catalog.yaml_text import read_yaml

MAX_FILE_BYTES = 1_000_000


@dataclass(frozen=True)
class Source:
    """A value and where it was read: `lines` has the line, from 1, of each place in it."""

    file: str
    value: Any
    lines: Lines = field(default_factory=dict)
    base: Where = ()

    def inside(self, *steps: str | int) -> "Source":
        """A value within this one."""
        value = self.value
        for step in steps:
            value = value[step]
        return Source(self.file, value, self.lines, (*self.base, *steps))

    def line(self, where: Where = ()) -> int:
        """The line of a place, or of the closest one around it."""
        full = (*self.base, *where)
        return next(
            (self.lines[full[:n]] for n in range(len(full), -1, -1) if full[:n] in self.lines), 1
        )

    def problem(self, fault: Fault) -> Problem:
        """The fault, told by the line where it stands."""
        return Problem(self.file, self.line(fault.where), fault.reason, fault.mend)


def read_source(path: Path) -> Source:
    """Read a file by what its name ends in: `.json`, `.yaml`, `.yml` or `.md`.

    Raises:
        UnreadableError: the file cannot be read, is too large, or is not what its name says.
    """
    text = _text(path)
    match path.suffix.lower():
        case ".json":
            value, lines = read_json(text)
        case ".md":
            value, lines = _read_markdown(text)
        case _:
            value, lines = read_yaml(text)
    _check_json(value)
    return Source(str(path), value, lines)


def _text(path: Path) -> str:
    try:
        size_bytes = path.stat().st_size
        if size_bytes > MAX_FILE_BYTES:
            raise UnreadableError(
                1, f"{size_bytes} bytes are too many", f"split it: at most {MAX_FILE_BYTES}"
            )
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableError(1, "this is not UTF-8 text", "save it as UTF-8") from error
    except OSError as error:
        reason = f"it cannot be read: {error.strerror or error}"
        raise UnreadableError(1, reason, "make it a readable file") from error


def _check_json(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except ValueError as error:
        mend = "take out infinite numbers and half characters (lone surrogates)"
        raise UnreadableError(1, "it holds what JSON does not have", mend) from error


def _read_markdown(text: str) -> tuple[Any, Lines]:
    rows = text.replace("\r\n", "\n").split("\n")
    fences = [n for n, row in enumerate(rows) if row.rstrip() == "---"][:2]
    if len(fences) < 2 or fences[0] != 0:
        mend = "begin the file with the agent's fields in YAML between two lines `---`"
        raise UnreadableError(1, "it has no front matter", mend)
    value, lines = read_yaml("\n".join(rows[1 : fences[1]]), first_line=2)
    body = "\n".join(rows[fences[1] + 1 :]).strip()
    if value is None:
        value = {}
    if body and isinstance(value, dict):
        if "instructions" in value:
            line = lines[("instructions",)]
            raise UnreadableError(
                line, "the instructions stand twice", "keep the text below, or this field"
            )
        lines[("instructions",)] = fences[1] + 2
        value["instructions"] = body
    return value, lines
