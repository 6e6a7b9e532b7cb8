"""Describe the problems of a value: the place, the reason and the fix.

A `ValueProblem` names its place within the value. A caller that knows the source of the value (a
file and a line, a command's option, a run's input) puts that before it.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from holdfast.schemas import phrases

# By the type of pydantic's error. Names in braces are filled in from its context.
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
# Texts that would be valid without their quotes.
_UNQUOTED = {
    "int_type": re.compile(r"-?[0-9]{1,15}").fullmatch,
    "float_type": re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?").fullmatch,
    "bool_type": re.compile(r"true|false").fullmatch,
}
_PLAIN = re.compile(r"[\w.:/@-]{1,40}\Z")

Where = tuple[str | int, ...]
"""A place in a value: keys and indexes."""

MAX_ERRORS = 100
MAX_FAULTS_TOLD = 5
MAX_TOLD_CHARS = 2_000


class FixableError(Exception):
    """An error with the two parts of its message: what is wrong, and what to do."""

    def __init__(self, reason: str, fix: str) -> None:
        super().__init__(f"{reason}; {fix}")
        self.reason, self.fix = reason, fix


@dataclass(frozen=True)
class ValueProblem:
    """One problem of a value that does not load; `where` is its place in the value."""

    where: Where
    reason: str
    fix: str

    def under(self, *steps: str | int) -> "ValueProblem":
        """Return the problem with its place seen from the outer value with this one at `steps`."""
        return replace(self, where=(*steps, *self.where))

    def __str__(self) -> str:
        message = f"{self.reason}; {self.fix}" if self.fix else self.reason
        return f"`{format_place(self.where)}`: {message}" if self.where else message


def under(faults: Iterable[ValueProblem], *steps: str | int) -> Iterator[ValueProblem]:
    """Yield problems with their places seen from the outer value with theirs at `steps`."""
    return (fault.under(*steps) for fault in faults)


def format_place(where: Where) -> str:
    """Return a place as a person writes it: `tools[0]._activity.type`."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in where)
    return "".join(steps).removeprefix(".")


def summarize_problems(faults: Sequence[ValueProblem]) -> str:
    """Return the first few problems in one line, for a place without room for a list."""
    summary = ". ".join(str(fault) for fault in faults[:MAX_FAULTS_TOLD])[:MAX_TOLD_CHARS]
    more = len(faults) - MAX_FAULTS_TOLD
    return f"{summary}. And {more} more" if more > 0 else summary


def name_problem(name: str, key: str) -> ValueProblem | None:
    """Return why a file's name cannot be the name of its definition, or None if it can.

    `key` is the field that sets another name.
    """
    pattern = phrases.TOOL_NAME_PATTERN if key == "_tool" else phrases.NAME_PATTERN
    if re.match(pattern, name):
        return None
    fix = f"give the file another, or write one as `{key}`: {phrases.PATTERN_WORDS[pattern]}"
    return ValueProblem(
        (), f"the file's name {phrases.quote_value(name)} is not valid as a name", fix
    )


def problems_of(error: ValidationError, value: Any, model: type[BaseModel]) -> list[ValueProblem]:
    """Return the problems that pydantic found when it read `value` as `model`.

    For a union, pydantic reports the problems of every branch. Only the branch that fits best is
    kept, or, if none does, the values that each branch accepts.
    """
    errors = error.errors(include_url=False)[:MAX_ERRORS]
    found = [_Found.of(details, value) for details in errors]
    deepest = [each for each in found if not any(each.is_shallower(other) for other in found)]
    at_place: dict[Where, list[ErrorDetails]] = {}
    for each in deepest:
        at_place.setdefault(each.where, []).append(each.details)
    faults = []
    for where, errors in at_place.items():
        if len(errors) > 1 and all(is_wrong_type(each) for each in errors):
            wants = list(dict.fromkeys(map(expected_value, errors)))
            fix = _suggestion(errors) or f"write {', or '.join(wants)}"
            faults.append(ValueProblem(where, phrases.misfit_reason(errors[0]["input"]), fix))
        else:
            known = field_names(model, where[:-1])
            faults += (ValueProblem(where, *_reason_and_fix(each, known)) for each in errors)
    # A missing field may be present under a misspelt name, which is reported.
    misspelt = {(each.where[:-1], each.fix) for each in faults}
    return [
        each
        for each in faults
        if not each.reason.endswith("is missing")
        or (each.where, f"did you mean {each.reason.partition(' ')[0]}?") not in misspelt
    ]


def field_names(model: type[BaseModel], where: Where = ()) -> set[str]:
    """Return the fields of the object at a place in the model, as people write them."""
    whole = _schema(model)
    objects = list(_branches(whole, whole))
    for step in where:
        inner = [
            each.get("items")
            if isinstance(step, int)
            else each.get("properties", {}).get(step, each.get("additionalProperties"))
            for each in objects
        ]
        objects = [branch for each in inner for branch in _branches(each, whole)]
    return {name for each in objects for name in each.get("properties", {})}


@cache
def _schema(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema()


def _branches(schema: Any, whole: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if not isinstance(schema, dict):
        return
    if "$ref" in schema:
        yield from _branches(whole["$defs"][schema["$ref"].rpartition("/")[2]], whole)
    for branch in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from _branches(branch, whole)
    yield schema


@dataclass(frozen=True)
class _Found:
    """One of pydantic's errors: its place in the value, and whether it is within a union."""

    where: Where
    in_union: bool
    details: ErrorDetails

    @classmethod
    def of(cls, details: ErrorDetails, value: Any) -> "_Found":
        where: list[str | int] = []
        skipped = tagged = False
        for step in details["loc"]:
            is_object = isinstance(value, dict)
            steps = value if is_object else range(len(value)) if isinstance(value, list) else ()
            if not tagged and is_object and value.get("type") == step:
                skipped = tagged = True  # the branch of a union that `type` names
            elif step in steps:
                tagged = False
                where.append(step)
                value = value[step]
            elif step != details["loc"][-1] or details["type"] != "missing":
                skipped = True  # the name of a union's branch, which is not in the value
        return cls(tuple(where), skipped, details)

    def is_shallower(self, other: "_Found") -> bool:
        """Return whether `other` is of a branch that fits better: it is deeper in the value."""
        begins = other.where[: len(self.where)] == self.where
        goes_on = len(other.where) > len(self.where) or not is_wrong_type(other.details)
        return (
            self.in_union and is_wrong_type(self.details) and begins and goes_on and other.in_union
        )


def _reason_and_fix(error: ErrorDetails, known: Iterable[str]) -> tuple[str, str]:
    last = str(error["loc"][-1]) if error["loc"] else ""
    match error["type"]:
        case "extra_forbidden":
            # Another branch of a union may have this field.
            known = [name for name in known if name != last]
            alike = [name for name in known if name.startswith("_") == last.startswith("_")]
            alike = [f"_{last}"] if f"_{last}" in known else alike
            return f"unknown field {phrases.quote_value(last)}", phrases.suggest_names(last, alike)
        case "missing":
            return f"`{last}` is missing", "add it"
        case "value_error":
            reason, _, fix = error["msg"].removeprefix("Value error, ").partition("; ")
            if fix or isinstance(error["input"], dict | list):
                return reason, fix
            return phrases.misfit_reason(error["input"]), reason
        case _:
            fix = _suggestion([error]) or f"write {expected_value(error)}{corrected_value(error)}"
            return phrases.misfit_reason(error["input"]), fix


def _suggestion(errors: list[ErrorDetails]) -> str:
    words = [
        word
        for error in errors
        if error["type"] == "literal_error"
        for word in re.findall(r"'([^']+)'", str((error.get("ctx") or {})["expected"]))
    ]
    value = errors[0]["input"]
    return phrases.did_you_mean(value, words) if isinstance(value, str) and len(words) > 1 else ""


def is_wrong_type(error: ErrorDetails) -> bool:
    return _WRONG_TYPE.search(error["type"]) is not None


def expected_value(error: ErrorDetails) -> str:
    """Return the expected value: `a list`, `1 or more`, `` `always` or `never` ``."""
    context = error.get("ctx") or {}
    if error["type"] == "literal_error":
        return str(context["expected"]).replace("'", "`").replace("True", "`true`")
    if error["type"] == "string_pattern_mismatch":
        pattern = context["pattern"]
        return phrases.PATTERN_WORDS.get(pattern, f"a text that matches {pattern}")
    words = _WANTED.get(error["type"])
    if words is None:
        return re.sub(r"^(Input|String|Value|List) should (be |have )?", "", error["msg"])
    expected = words.format(
        **{
            key: int(each) if isinstance(each, float) and each.is_integer() else each
            for key, each in context.items()
        }
    )
    return expected.replace("'", "`")


def corrected_value(error: ErrorDetails) -> str:
    """Return the intended value if it is clear: `, like [finance]` for `finance`."""
    value = error["input"]
    if error["type"] in _UNQUOTED and isinstance(value, str) and _UNQUOTED[error["type"]](value):
        return ", without quotes"
    if error["type"] == "list_type" and isinstance(value, str) and _PLAIN.match(value):
        return f", like [{value}]"
    if error["type"] == "string_type" and isinstance(value, int | float):
        return f', in quotes: "{json.dumps(value)}"'
    return ""
