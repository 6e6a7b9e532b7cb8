"""Describe the expected value in plain words: pydantic's messages are written for programmers.

The words are the same wherever a value is read: in a file, in a run's input, in a decision.
"""

import difflib
import json
import re
from collections.abc import Collection, Iterable
from itertools import islice
from typing import Any

MAX_NAMES_TOLD = 10
# Names are compared up to here.
MAX_NAME_CHARS = 200

MAX_QUOTED_CHARS = 80

# The one pattern of names, as `schemas.tool` and `schemas.agent` have it.
NAME_PATTERN = r"^[A-Za-z][A-Za-z0-9_.-]{0,127}$"
# The name of an instance of a run's data.
INSTANCE_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$"
# A tool's name may begin with `_`, too: every provider takes it.
TOOL_NAME_PATTERN = r"^[A-Za-z_][A-Za-z0-9_.-]{0,127}$"
_NAME_WORDS = "at most 128 letters, digits, `_`, `.` and `-`, of which the first is a letter"
_INSTANCE_WORDS = "at most 100 letters, digits, `_`, `.` and `-`, the first a letter or a digit"
PATTERN_WORDS = {
    NAME_PATTERN: _NAME_WORDS,
    TOOL_NAME_PATTERN: f"{_NAME_WORDS} or `_`",
    INSTANCE_PATTERN: _INSTANCE_WORDS,
}


def quote_value(value: Any) -> str:
    """Return the value as a message shows it: a text as it is, all else as JSON, both shortened."""
    text = value
    if not isinstance(value, str):
        try:
            text = json.dumps(value, ensure_ascii=False)
        except (TypeError, ValueError, RecursionError):
            text = repr(value)
    short = text if len(text) <= MAX_QUOTED_CHARS else text[:MAX_QUOTED_CHARS] + "…"
    return f"`{' '.join(short.split())}`"


def no_agent(name: str) -> str:
    return f"there is no agent `{name}`"


def first_names(names: Collection[str], most: int) -> str:
    """Return the first `most` of the names, and how many more there are."""
    more = len(names) - most
    named = ", ".join(islice(names, most))
    return f"{named} and {more} more" if more > 0 else named


def distinct_names(names: Iterable[str], between: str = ", ") -> str:
    """Return names, each that is no single word in quotes, so that it ends visibly."""
    plain = re.compile(r"[\w.@/:+-]+")
    return between.join(each if plain.fullmatch(each) else f"“{each}”" for each in names)


def misfit_reason(value: Any) -> str:
    """Return that the value is not what it should be."""
    if value is None:
        return "there is no value"
    return "the text is empty" if value == "" else f"{quote_value(value)} does not fit"


def suggest_names(name: str, names: Iterable[str], nothing: str = "there are none") -> str:
    """Return what to do about a name that is not known.

    The names closest to it, or the first few.
    """
    known = sorted(set(names))
    listed = first_names([f"`{each}`" for each in known], MAX_NAMES_TOLD)
    return did_you_mean(name, known) or (f"known: {listed}" if known else nothing)


def did_you_mean(name: str, names: Iterable[str], cutoff: float = 0.6) -> str:
    """Return the question for the names that are meant, perhaps; empty if none is close."""
    close = " or ".join(f"`{each}`" for each in closest_names(name, names, cutoff))
    return f"did you mean {close}?" if close else ""


def closest_names(name: str, names: Iterable[str], cutoff: float = 0.6) -> list[str]:
    """Return the names that are meant, perhaps, the likeliest first: at most three.

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
        return 0  # known by the lengths alone, for there may be ten thousand names
    if len(one) > 3 and sorted(one) == sorted(two):
        return 1 if one == two else 0.9
    matcher = difflib.SequenceMatcher(None, one, two)
    if matcher.quick_ratio() < cutoff:
        return 0
    return matcher.ratio()


def _plain(name: str) -> str:
    return re.sub(r"[_.\s-]", "", name[:MAX_NAME_CHARS]).casefold()
