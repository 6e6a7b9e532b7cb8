"""Where a value stands in a form: the names of its controls, and what a text in one can mean.

A form says itself how it is read. The name of each control holds what is written in it (`text`,
`pick`, …) and the place of the value, so reading takes no schema, and nothing that somebody was
shown or has typed can be left out because a schema does not speak of it.
"""

from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote_to_bytes

Place = tuple[str | int, ...]

# What a control holds: a text; how that text is meant; one of several values as JSON; or that there
# stands an object, a list, nothing at all, or null; which of several schemas an object is drawn by.
TEXT: Final = "text"
MEANT: Final = "meant"
PICK: Final = "pick"
OBJECT: Final = "object"
LIST: Final = "list"
GONE: Final = "gone"
NULL: Final = "null"
BRANCH: Final = "branch"
# The name that somebody gives to a property that they add.
KEY: Final = "key"
KINDS: Final = (TEXT, MEANT, PICK, OBJECT, LIST, GONE, NULL, BRANCH, KEY)
# The submit buttons that change what a form has fields for.
DO: Final = "do"


class Missing:
    """No value: a property that is left out. Null is a value."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing()


@dataclass(frozen=True)
class Misread:
    """What was typed where it could not be read; it stays in its control. `why` says what to do;
    it is empty where nothing was typed yet."""

    text: str
    meant: str
    why: str = ""


@dataclass(frozen=True)
class Done:
    """What a button has done to a form, in a sentence, and at which place, or behind all that is
    inside it."""

    place: Place
    said: str
    behind: bool = False


@dataclass(frozen=True)
class Said:
    """What a form says: a value, in which `Misread` may stand, and by place which of several
    schemas an object was drawn by. `done`: what the button has done that was pressed in it."""

    value: Any
    branches: dict[Place, int]
    done: Done | None = None


def name(kind: str, place: Place) -> str:
    """The name of a control: `text:/order/items/0`."""
    return f"{kind}:{pointer(place)}"


def pointer(place: Place) -> str:
    """A place as a text of plain letters, whatever the keys hold."""
    steps = (str(step).encode("utf-8", "surrogatepass") for step in place)
    return "".join(f"/{quote(step, safe='')}" for step in steps)


def steps(text: str) -> tuple[str, ...] | None:
    """The steps of a pointer, all of them as texts; `None` where it is none."""
    found = text.split("/")[1:]
    try:
        return tuple(unquote_to_bytes(step).decode("utf-8", "surrogatepass") for step in found)
    except UnicodeDecodeError:
        return None
