"""What is another in one value than in another, place by place."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from inbox.forms.places import MISSING, Misread, Place
from remote.text import as_json, cell, one_line
from schemas.base import canonical_json

MAX_DIFFERENCES: Final = 100
_PLACE_CHARS: Final = 200


@dataclass(frozen=True)
class Difference:
    """What stands at a place before, and after."""

    place: str
    before: str
    after: str


def differences(old: Any, new: Any) -> list[Difference]:
    """Where two values differ: at most `MAX_DIFFERENCES` places, the last of them for the rest."""
    found = list(_between(old, new, ()))
    told = [Difference(_name(place), _shown(a), _shown(b)) for place, a, b in found]
    more = len(told) - MAX_DIFFERENCES
    return [*told[:MAX_DIFFERENCES], Difference("…", "", f"{more} more")] if more > 0 else told


def is_same(typed: Any, given: Any) -> bool:
    """Whether nothing was typed that is another value, or cannot be read."""
    return is_plain(typed) and canonical_json(typed) == canonical_json(given)


def is_plain(value: Any) -> bool:
    """Whether everything in it was read."""
    match value:
        case Misread():
            return False
        case dict():
            return all(map(is_plain, value.values()))
        case list():
            return all(map(is_plain, value))
        case _:
            return value is not MISSING


def _between(old: Any, new: Any, place: Place) -> Iterator[tuple[Place, Any, Any]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys([*old, *new]):
            yield from _between(old.get(key, MISSING), new.get(key, MISSING), (*place, key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _between(before, after, (*place, index))
    elif not _same(old, new):
        yield place, old, new


def _same(old: Any, new: Any) -> bool:
    if old is MISSING or new is MISSING:
        return old is new
    return canonical_json(old) == canonical_json(new)


def _name(place: Place) -> str:
    return one_line(
        " › ".join(str(step + 1 if isinstance(step, int) else step) for step in place), _PLACE_CHARS
    )


def _shown(value: Any) -> str:
    if value is MISSING:
        return "left out"
    return cell(value) if not isinstance(value, dict | list) else as_json(value, indent=2)
