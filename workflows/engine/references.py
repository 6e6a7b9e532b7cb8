"""Reading references: every `†…` in a call's arguments gives way to the value that it names.

A value that took a reference's place is not looked through again: what a tool returned can name
nothing.
"""

import json
from typing import Any

from schemas.reference import MARK, Path, Reference, inside, parse_reference
from workflows.engine.state import MISSING, Data


class Unresolved(Exception):
    """A reference names a place that does not exist."""


def resolve(value: Any, data: Data) -> Any:
    """The value with every reference in it replaced.

    Raises:
        Unresolved: nothing stands where a reference points.
    """
    match value:
        case str():
            return _text(value, data) if MARK in value else value
        case list():
            return [resolve(item, data) for item in value]
        case dict():
            return {key: resolve(item, data) for key, item in value.items()}
        case _:
            return value


def _text(text: str, data: Data) -> Any:
    reference = parse_reference(text)
    if reference is not None:
        return _value(reference, data)
    for written, path in inside(text):
        text = text.replace(written, _as_text(_at(path, data)))
    return text


def _value(reference: Reference, data: Data) -> Any:
    if reference.choose == "all":
        return [_at(path, data) for path in reference.paths][-1]
    for path in reference.paths:
        if (found := data.read(path)) is not MISSING:
            return found
    raise Unresolved(_nothing_at(*reference.paths))


def _at(path: Path, data: Data) -> Any:
    found = data.read(path)
    if found is MISSING:
        raise Unresolved(_nothing_at(path))
    return found


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _nothing_at(*paths: Path) -> str:
    return f"nothing stands at {' or '.join(map(str, paths))}"
