"""What does not load, and how it is said: where, why, and what to do.

A `Fault` names its place within a value. Someone who knows the file that the value came from makes
a `Problem` of it, with a line; a run's request has no file, and its faults are told by their path.
"""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

Where = tuple[str | int, ...]
"""A place in a value: keys and indexes."""

Lines = dict[Where, int]
"""The line of each place in a value, from 1."""

MAX_QUOTED_CHARS = 80
MAX_ERRORS = 100
# What a file may hold, its aliases unfolded.
MAX_VALUES = 100_000
MAX_DEPTH = 100


@dataclass(frozen=True)
class Fault:
    """One thing that does not load. `where` is its place in the value that was read."""

    where: Where
    reason: str
    mend: str

    def under(self, *steps: str | int) -> "Fault":
        """The fault as whoever holds the value at `steps` sees it."""
        return replace(self, where=(*steps, *self.where))

    def __str__(self) -> str:
        said = f"{self.reason}; {self.mend}" if self.mend else self.reason
        return f"`{spelled(self.where)}`: {said}" if self.where else said


class RefusedError(Exception):
    """A value that does not load, with every fault that was found in it."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = list(faults)
        super().__init__(". ".join(str(fault) for fault in self.faults))


class UnreadableError(Exception):
    """A text that is not what it should be; `line`, from 1, is where that shows."""

    def __init__(self, line: int, reason: str, mend: str) -> None:
        super().__init__(line, reason, mend)
        self.line, self.reason, self.mend = line, reason, mend


@dataclass(frozen=True)
class Problem:
    """A fault in a file. `line` counts from 1; None is the file as a whole."""

    file: str
    line: int | None
    reason: str
    mend: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.reason}; {self.mend}" if self.mend else f"{place}: {self.reason}"


def spelled(where: Where) -> str:
    """A place as a person writes it: `tools[0]._activity.type`."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in where)
    return "".join(steps).removeprefix(".")


def nearest(name: str, names: Iterable[str], nothing: str = "there are none") -> str:
    """What to do about a name that is not known: the names closest to it, or the first few."""
    known = sorted(set(names))
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    if close:
        return "did you mean " + " or ".join(f"`{match}`" for match in close) + "?"
    if not known:
        return nothing
    shown = ", ".join(f"`{each}`" for each in known[:10])
    return f"known: {shown}" + (f" and {len(known) - 10} more" if len(known) > 10 else "")


def faults_of(error: ValidationError, value: Any, model: type[BaseModel]) -> list[Fault]:
    """The faults that pydantic found when it read `value` as `model`.

    Of a union, pydantic tells what is wrong with every branch: only the branch that fits best is
    kept, or where none does, what each of them would take.
    """
    errors = error.errors(include_url=False)[:MAX_ERRORS]
    found = [_Found.of(details, value) for details in errors]
    deepest = [each for each in found if not any(each.is_shallower(other) for other in found)]
    at_place: dict[Where, list[_Found]] = {}
    for each in deepest:
        at_place.setdefault(each.where, []).append(each)
    return [
        fault
        for where, group in at_place.items()
        for fault in _said(where, [each.details for each in group], field_names(model))
    ]


@cache
def field_names(model: type[BaseModel]) -> frozenset[str]:
    """The names of all fields of the model and of the models inside it, as people write them."""
    schema = model.model_json_schema()
    return frozenset(_properties(schema))


def _properties(schema: Mapping[str, Any]) -> Iterator[str]:
    yield from schema.get("properties", {})
    for inner in schema.get("$defs", {}).values():
        yield from inner.get("properties", {})


@dataclass(frozen=True)
class _Found:
    """One of pydantic's errors: its place in the value, and whether a union is on the way there."""

    where: Where
    in_union: bool
    details: ErrorDetails

    @classmethod
    def of(cls, details: ErrorDetails, value: Any) -> "_Found":
        where: list[str | int] = []
        skipped = False
        for step in details["loc"]:
            if _has(value, step):
                where.append(step)
                value = value[step]
            elif step != details["loc"][-1] or details["type"] != "missing":
                skipped = True  # the name of a union's branch, which is not in the value
        if details["type"] == "value_error":
            where.extend(_named_field(details["msg"], value))
        return cls(tuple(where), skipped, details)

    def is_shallower(self, other: "_Found") -> bool:
        """Whether `other` is of a branch that fits better: it got further into the same value."""
        begins = other.where[: len(self.where)] == self.where
        goes_on = len(other.where) > len(self.where) or other.details["type"] == "missing"
        return (
            self.in_union and _is_wrong_type(self.details) and begins and goes_on and other.in_union
        )


def _is_wrong_type(error: ErrorDetails) -> bool:
    return error["type"].endswith(("_type", "_parsing", "literal_error"))


def _has(value: Any, step: str | int) -> bool:
    if isinstance(value, dict):
        return step in value
    return isinstance(value, list) and isinstance(step, int) and 0 <= step < len(value)


def _named_field(message: str, value: Any) -> Iterator[str | int]:
    """A check of a whole object names the field that it is about first: `` `approval.auto` … ``."""
    named = re.match(r"Value error, `([\w.]+)`", message)
    for step in named.group(1).split(".") if named else ():
        if not _has(value, step):
            return
        yield step
        value = value[step]


def _said(where: Where, errors: list[ErrorDetails], known: Iterable[str]) -> Iterator[Fault]:
    wrong_types = [error for error in errors if _is_wrong_type(error)]
    if len(errors) > 1 and len(wrong_types) == len(errors):
        wants = " or ".join(dict.fromkeys(_wants(error["msg"]) for error in errors))
        yield Fault(where, f"{_quoted(errors[0]['input'])} does not fit", f"write {wants}")
        return
    for error in errors:
        reason, mend = _reason(error, known)
        yield Fault(where, reason, mend)


def _reason(error: ErrorDetails, known: Iterable[str]) -> tuple[str, str]:
    last = str(error["loc"][-1]) if error["loc"] else ""
    match error["type"]:
        case "extra_forbidden":
            alike = [name for name in known if name.startswith("_") == last.startswith("_")]
            return f"unknown field `{last}`", nearest(last, alike)
        case "missing":
            return f"`{last}` is missing", "add it"
        case "string_pattern_mismatch":
            pattern = (error.get("ctx") or {}).get("pattern")
            return f"{_quoted(error['input'])} is no good name", f"it must match {pattern}"
        case "value_error":
            reason, _, mend = error["msg"].removeprefix("Value error, ").partition("; ")
            if mend or not isinstance(error["input"], str):
                return reason, mend
            return f"{_quoted(error['input'])} does not fit", reason
        case _:
            return f"{_quoted(error['input'])} does not fit", f"write {_wants(error['msg'])}"


def _wants(message: str) -> str:
    wants = re.sub(r"^(Input|String|Value) should (be |have )?", "", message)
    wants = re.sub(r"a valid dictionary( or instance of \w+)?", "an object", wants)
    return re.sub(r"(a valid \w+), unable to .*", r"\1", wants)


def _quoted(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    short = text if len(text) <= MAX_QUOTED_CHARS else text[:MAX_QUOTED_CHARS] + "…"
    return f"`{short}`"
