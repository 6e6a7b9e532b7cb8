"""What a value should have been, in words: pydantic's own are for those who program with it.

The words are the same wherever a value is read: in a file, in a run's input, in a decision.
"""

import difflib
import json
import re
from collections.abc import Collection, Iterable
from itertools import islice
from typing import Any

from pydantic_core import ErrorDetails

MAX_NAMES_TOLD = 10
# Names are compared up to here.
MAX_NAME_CHARS = 200

MAX_QUOTED_CHARS = 80

# By the type of pydantic's error. Those in braces are filled in from its context.
_WANTED = {
    "string_type": "a text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "`true` or `false`",
    "bool_parsing": "`true` or `false`",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "greater_than_equal": "{ge} or more",
    "greater_than": "more than {gt}",
    "less_than_equal": "{le} or less",
    "less_than": "less than {lt}",
    "string_too_short": "one that is not",
    "string_too_long": "at most {max_length} characters",
    "union_tag_invalid": "{discriminator} as one of {expected_tags}",
    "union_tag_not_found": "{discriminator} beside it",
    "too_short": "at least {min_length}",
    "too_long": "at most {max_length} items",
}
_WRONG_TYPE = re.compile(r"(_type|_parsing|_from_float|literal_error)\Z")
# The one pattern of names, as `schemas.tool` and `schemas.agent` have it.
NAME_PATTERN = r"^[A-Za-z][A-Za-z0-9_.-]{0,127}$"
# The name of an instance of a run's data.
INSTANCE_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$"
NAME_WORDS = "at most 128 letters, digits, `_`, `.` and `-`, of which the first is a letter"
INSTANCE_WORDS = "at most 100 letters, digits, `_`, `.` and `-`, the first a letter or a digit"
_PATTERN_WORDS = {NAME_PATTERN: NAME_WORDS, INSTANCE_PATTERN: INSTANCE_WORDS}
# Texts that would be right without their quotes.
_UNQUOTED = {
    "int_type": re.compile(r"-?[0-9]{1,15}").fullmatch,
    "float_type": re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?").fullmatch,
    "bool_type": re.compile(r"true|false").fullmatch,
}
_PLAIN = re.compile(r"[\w.:/@-]{1,40}\Z")


def is_wrong_type(error: ErrorDetails) -> bool:
    """Whether the value is of another kind altogether, and not merely out of bounds."""
    return _WRONG_TYPE.search(error["type"]) is not None


def wanted(error: ErrorDetails) -> str:
    """What should stand there: `a list`, `1 or more`, `` `always` or `never` ``."""
    context = error.get("ctx") or {}
    if error["type"] == "literal_error":
        return str(context["expected"]).replace("'", "`")
    if error["type"] == "string_pattern_mismatch":
        pattern = context["pattern"]
        return _PATTERN_WORDS.get(pattern, f"a text that matches {pattern}")
    words = _WANTED.get(error["type"])
    if words is None:
        return re.sub(r"^(Input|String|Value|List) should (be |have )?", "", error["msg"])
    said = words.format(**{key: _number(value) for key, value in context.items()})
    return said.replace("'", "`")


def example(error: ErrorDetails) -> str:
    """How the value was meant, where that can be told: `, like [finance]` for `finance`."""
    value = error["input"]
    if error["type"] in _UNQUOTED and isinstance(value, str) and _UNQUOTED[error["type"]](value):
        return ", without quotes"
    if error["type"] == "list_type" and isinstance(value, str) and _PLAIN.match(value):
        return f", like [{value}]"
    if error["type"] == "string_type" and isinstance(value, int | float):
        return f', in quotes: "{json.dumps(value)}"'
    return ""


def quoted(value: Any) -> str:
    """The value as a message shows it: a text as it is, all else as JSON, both shortened."""
    text = value if isinstance(value, str) else _json(value)
    short = text if len(text) <= MAX_QUOTED_CHARS else text[:MAX_QUOTED_CHARS] + "…"
    return f"`{' '.join(short.split())}`"


def some(names: Collection[str], most: int) -> str:
    """The first `most` of the names, and how many more there are."""
    more = len(names) - most
    named = ", ".join(islice(names, most))
    return f"{named} and {more} more" if more > 0 else named


def misfit(value: Any) -> str:
    """That the value is not what it should be."""
    if value is None:
        return "there is no value"
    return "the text is empty" if value == "" else f"{quoted(value)} does not fit"


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return repr(value)


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def nearest(name: str, names: Iterable[str], nothing: str = "there are none") -> str:
    """What to do about a name that is not known: the names closest to it, or the first few."""
    known = sorted(set(names))
    close = closest(name, known)
    if close:
        return "did you mean " + " or ".join(f"`{match}`" for match in close) + "?"
    if not known:
        return nothing
    return f"known: {some([f'`{each}`' for each in known], MAX_NAMES_TOLD)}"


def closest(name: str, names: Iterable[str], cutoff: float = 0.6) -> list[str]:
    """The names that are meant, perhaps, the likeliest first: at most three.

    Neither case nor what stands between words makes a difference: `tool_choice` is `toolChoice`.
    """
    plain = _plain(name)
    scored = sorted((-_likeness(plain, _plain(each), cutoff), each) for each in names)
    best = -scored[0][0] if scored else 0
    enough = max(cutoff, best - 0.1)
    return [each for score, each in scored[:3] if -score >= enough]


def _likeness(one: str, two: str, cutoff: float) -> float:
    """From 0 to 1. Letters that only changed places count for nearly the same word."""
    if 2 * min(len(one), len(two)) < cutoff * (len(one) + len(two)):
        return 0  # told by the lengths alone, for there may be ten thousand names
    if len(one) > 3 and sorted(one) == sorted(two):
        return 1 if one == two else 0.9
    matcher = difflib.SequenceMatcher(None, one, two)
    if matcher.quick_ratio() < cutoff:
        return 0
    return matcher.ratio()


def _plain(name: str) -> str:
    return re.sub(r"[_.\s-]", "", name[:MAX_NAME_CHARS]).casefold()
