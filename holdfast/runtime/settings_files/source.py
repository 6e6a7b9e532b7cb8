"""Source files: JSON, YAML and Markdown with front matter, read as values with their lines.

Each format is read as JSON values. Every value has the line of each of its keys, so that a problem
can be reported with its line.
"""

import json
import os
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from holdfast.runtime.settings_files.file_problems import FileProblem, LoadError, UnreadableError
from holdfast.runtime.settings_files.json_and_yaml import Lines, read_json, read_yaml
from holdfast.schemas.phrases import closest_names, suggest_names
from holdfast.validation.problems import ValueProblem, Where, format_place, problems_of

Parsed = TypeVar("Parsed", bound=BaseModel)

Stamp = tuple[int, int, int] | str | None
"""A file's size in bytes, and the times in ns at which it and its inode changed; or why it cannot
be read. None is a path that is not read: only its name can matter.

The inode's time reveals a replacement with an equal size and time: a reproducible build gives
every file the same time.
"""
Signature = dict[str, Stamp]
"""The stamps of files, by path. Equal signatures mean equal contents."""

MAX_FILE_BYTES = 1_000_000
MAX_NAMES_SEEN = 10_000


@dataclass(frozen=True)
class Source:
    """A value and its file; `lines` has the line, from 1, of each place in the file's value.

    `base_path` is the place of the value within that.
    """

    file: str
    value: Any
    lines: Lines = field(default_factory=dict)
    base_path: Where = ()

    def line(self, where: Where = ()) -> int:
        """Return the line of a place, or of the closest one around it."""
        full = (*self.base_path, *where)
        return next(
            (self.lines[full[:n]] for n in range(len(full), -1, -1) if full[:n] in self.lines), 1
        )

    def parse_as(
        self,
        model: type[Parsed],
        hide_value: Callable[[ValueProblem], ValueProblem] = lambda fault: fault,
    ) -> Parsed:
        """Read the value as a model; `hide_value` removes what may be a secret from a problem.

        Raises:
            LoadError: the value does not fit the model.
        """
        try:
            return model.model_validate(self.value, by_alias=True, by_name=False, strict=True)
        except ValidationError as error:
            faults = map(hide_value, problems_of(error, self.value, model))
            raise LoadError(self.problems(faults)) from None

    def problem(self, fault: ValueProblem) -> FileProblem:
        field = format_place((*self.base_path, *fault.where))
        return FileProblem(self.file, self.line(fault.where), fault.reason, fault.fix, field)

    def problems(self, faults: Iterable[ValueProblem]) -> list[FileProblem]:
        """Return the problems in the order of their lines."""
        in_order = sorted(faults, key=lambda fault: self.line(fault.where))
        return [self.problem(fault) for fault in in_order]


def values_hidden(*fields: str) -> Callable[[ValueProblem], ValueProblem]:
    """Return what removes the values of these fields from a problem, since they may be secrets."""

    def hide_value(fault: ValueProblem) -> ValueProblem:
        is_shown = {*fields}.isdisjoint(fault.where) or not fault.reason.endswith("does not fit")
        return fault if is_shown else replace(fault, reason="the value does not fit")

    return hide_value


def read_source(path: Path) -> Source:
    """Read a `.json`, `.yaml`, `.yml` or `.md` file.

    Raises:
        LoadError: the file cannot be read, is too large, or is not in the format of its name.
    """
    readers = {".json": read_json, ".md": _read_markdown}
    fix = "write something in it, or remove it"
    try:
        text = read_text(path)
        if not text.strip():
            raise UnreadableError(1, "the file is empty", fix)
        value, lines = readers.get(path.suffix.lower(), read_yaml)(text)
        if value is None:
            raise UnreadableError(1, "the file has no content", fix)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except UnreadableError as error:
        raise LoadError([error.in_file(path)]) from None
    except ValueError:
        fix = "take out infinite numbers and half characters (lone surrogates)"
        problem = FileProblem(str(path), 1, "it contains values that JSON cannot represent", fix)
        raise LoadError([problem]) from None
    return Source(str(path), value, lines)


def read_text(path: Path, most_bytes: int = MAX_FILE_BYTES) -> str:
    r"""Read the text of a file, with `\n` at the end of each line.

    Raises:
        UnreadableError: the file cannot be read, is too large, or is not UTF-8.
    """
    try:
        size_bytes = path.stat().st_size
        if size_bytes > most_bytes:
            reason = f"{size_bytes} bytes are too many"
            raise UnreadableError(None, reason, f"split it: at most {most_bytes}")
        with path.open("rb") as file:
            data = file.read(most_bytes)
    except IsADirectoryError as error:
        raise UnreadableError(None, "this is a folder", "name a file") from error
    except FileNotFoundError as error:
        if path.is_symlink():
            fix = "fix the link, or remove it"
            raise UnreadableError(None, "the target of this link does not exist", fix) from error
        raise UnreadableError(None, "there is no such file", path_suggestion(path)) from error
    except (OSError, ValueError) as error:
        reason = f"it cannot be read: {getattr(error, 'strerror', None) or error}"
        raise UnreadableError(None, reason, "make it a readable file") from error
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        kind = "UTF-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "not UTF-8"
        line = data.count(b"\n", 0, error.start) + 1
        raise UnreadableError(line, f"this text is {kind}", "save it as UTF-8") from error


def path_suggestion(path: Path) -> str:
    """Suggest a similar name that exists beside a missing path."""
    try:
        names = (each.name for each in islice(path.parent.iterdir(), MAX_NAMES_SEEN))
        beside = [name for name in names if name != path.name]
    except OSError:
        beside = []
    close = [str(path.parent / name) for name in closest_names(path.name, beside, 0.8)]
    return suggest_names(str(path), close[:1], "check the path")


def _read_markdown(text: str) -> tuple[Any, Lines]:
    rows = text.split("\n")
    fences = [n for n, row in enumerate(rows) if row.rstrip() == "---"][:2]
    if fences[:1] != [0]:
        fix = "begin the file with the agent's fields in YAML between two lines `---`"
        raise UnreadableError(1, "it has no front matter", fix)
    if len(fences) < 2:
        fix = "write a line `---` between the agent's fields and its instructions"
        raise UnreadableError(1, "the front matter is never closed", fix)
    value, lines = read_yaml("\n".join(rows[1 : fences[1]]), first_line=2)
    body = "\n".join(rows[fences[1] + 1 :]).strip()
    if value is None:
        value = {}
    if body and isinstance(value, dict):
        if "instructions" in value:
            line = lines[("instructions",)]
            raise UnreadableError(
                line, "the instructions occur twice", "keep the text below, or this field"
            )
        lines[("instructions",)] = fences[1] + 2
        value["instructions"] = body
    return value, lines


def file_signature(files: Iterable[str]) -> Signature:
    """Return the signature of these files; raises no `OSError`."""
    return {file: file_stamp(Path(file)) for file in files}


def file_stamp(file: os.DirEntry[str] | Path) -> Stamp:
    """Return the stamp of a file or folder; raises no `OSError`."""
    try:
        seen = file.stat()
    except OSError as error:
        return error.strerror or str(error)
    if not stat.S_ISREG(seen.st_mode):
        return None
    return seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns
