"""JSON with its lines: Python's own parser reads the values, a scan of the text finds the lines."""

import json
import re
from typing import Any

from holdfast.runtime.settings_files.file_problems import (
    MAX_DEPTH,
    MAX_VALUES,
    Lines,
    UnreadableError,
)
from holdfast.runtime.settings_files.syntax_errors import json_mistake

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|\n|[^\s{}\[\],:"]+')


def read_json(text: str) -> tuple[Any, Lines]:
    """Read a JSON text, and the line of every key and item in it.

    Raises:
        UnreadableError: the text is not JSON, repeats a key, or is too large or too deep.
    """
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise json_mistake(text, error) from error
    except RecursionError as error:
        raise UnreadableError(
            1, "it is nested too deep", f"use at most {MAX_DEPTH} levels"
        ) from error
    except ValueError as error:
        raise UnreadableError(1, f"this is no JSON: {error}", "shorten the number") from error
    return value, _Scan(text).lines


class _Scan:
    def __init__(self, text: str) -> None:
        self.lines: Lines = {(): 1}
        self._where: list[str | int] = []
        self._line = 1
        self._text = ""
        self._item_begins = False
        for match in _TOKEN.finditer(text):
            self._take(match.group())

    def _take(self, token: str) -> None:
        if token == "\n":
            self._line += 1
            return
        if self._item_begins and token != "]":
            self._mark()
        self._item_begins = False
        match token:
            case "{" | "[":
                self._open(0 if token == "[" else "")
            case "}" | "]":
                self._where.pop()
            case ",":
                self._next()
            case ":":
                self._name()
            case _:
                self._text = token

    def _open(self, first: str | int) -> None:
        if len(self._where) >= MAX_DEPTH:
            raise UnreadableError(
                self._line, "it is nested too deep", f"use at most {MAX_DEPTH} levels"
            )
        self._where.append(first)
        self._item_begins = first == 0

    def _next(self) -> None:
        if isinstance(self._where[-1], int):
            self._where[-1] += 1
            self._item_begins = True

    def _name(self) -> None:
        self._where[-1] = json.loads(self._text)
        if tuple(self._where) in self.lines:
            raise UnreadableError(
                self._line, f"the key `{self._where[-1]}` stands twice", "keep one of them"
            )
        self._mark()

    def _mark(self) -> None:
        if len(self.lines) > MAX_VALUES:
            raise UnreadableError(
                self._line, "it holds too many values", f"use at most {MAX_VALUES}"
            )
        self.lines[tuple(self._where)] = self._line
