"""Reading references: every `†…` in a call's arguments gives way to the value that it names.

A value that took a reference's place is not looked through again: what a tool returned can name
nothing. What the references of one call stand for is bounded, since a few characters can name much.
"""

import json
from typing import Any

from schemas.base import json_size
from schemas.reference import MARK, Path, Reference, parse_reference, replace_inside
from workflows.engine.state import MISSING, Data

MAX_RESOLVED_BYTES = 1_000_000


class Unresolved(Exception):
    """A reference names a place that does not exist, or more than a call can be given."""


def resolve(value: Any, data: Data) -> Any:
    """The value with every reference in it replaced.

    Raises:
        Unresolved: nothing stands where a reference points, or far too much in all.
    """
    return _Reading(data).of(value)


class _Reading:
    """One pass over a call's arguments."""

    def __init__(self, data: Data) -> None:
        self._data = data
        self._room_bytes = MAX_RESOLVED_BYTES

    def of(self, value: Any) -> Any:
        match value:
            case str():
                return self._text(value) if MARK in value else value
            case list():
                return [self.of(item) for item in value]
            case dict():
                return {key: self.of(item) for key, item in value.items()}
            case _:
                return value

    def _text(self, text: str) -> Any:
        reference = parse_reference(text)
        if reference is None:
            return replace_inside(text, lambda path: _as_text(self._fitting(self._at(path))))
        return self._fitting(self._value(reference))

    def _value(self, reference: Reference) -> Any:
        if reference.choose == "all":
            return [self._at(path) for path in reference.paths][-1]
        for path in reference.paths:
            if (found := self._data.read(path)) is not MISSING:
                return found
        raise Unresolved(_nothing_at(*reference.paths))

    def _at(self, path: Path) -> Any:
        found = self._data.read(path)
        if found is MISSING:
            raise Unresolved(_nothing_at(path))
        return found

    def _fitting(self, value: Any) -> Any:
        self._room_bytes -= json_size(value)
        if self._room_bytes < 0:
            raise Unresolved(
                f"the references stand for more than {MAX_RESOLVED_BYTES} bytes in all"
            )
        return value


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _nothing_at(*paths: Path) -> str:
    return f"nothing stands at {' or '.join(map(str, paths))}"
