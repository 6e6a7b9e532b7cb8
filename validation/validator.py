"""Validate a value against a JSON Schema (draft 2020-12), and describe its errors.

The value of a model or a tool can be large, and slow on purpose to check: a budget bounds the work.
Nothing is ever fetched. JSON Schema makes checking a `format` optional: some are checked, since
a person would otherwise have to approve an invalid date.
"""

from dataclasses import dataclass
from itertools import islice
from typing import Any

from jsonschema.exceptions import ValidationError
from referencing import Registry

from holdfast.schemas.tool import Schema
from holdfast.validation.bounded_keywords import FORMAT_CHECKER, BoundedValidator
from holdfast.validation.work_budget import CannotCheck, bounded

MAX_ERRORS = 20
MAX_COMPARED_ERRORS = 1_000
MAX_MESSAGE_CHARACTERS = 300


@dataclass(frozen=True)
class Violation:
    """One error of a value: its place, the keyword of the schema, and the message."""

    place: tuple[str | int, ...]
    keyword: str
    said: str


def violations(value: Any, schema: Schema | bool) -> list[Violation]:
    """Return the errors of the value with their places, at most `MAX_ERRORS` of them."""
    try:
        found = _errors(value, schema, MAX_ERRORS)
    except CannotCheck as error:
        return [Violation((), "", str(error))]
    return [
        Violation(tuple(error.absolute_path), str(error.validator), _shortened(error.message))
        for error in found
    ]


def errors(value: Any, schema: Schema | bool) -> list[str]:
    """Return the errors of the value, one line each, at most `MAX_ERRORS` of them."""
    try:
        return _lines(_errors(value, schema, MAX_ERRORS + 1))
    except CannotCheck as error:
        return [str(error)]


def new_errors(value: Any, old: Any, schema: Schema | bool) -> list[str]:
    """Return the errors of the value that the `old` value does not have."""
    try:
        found = _errors(value, schema, MAX_COMPARED_ERRORS)
        old_errors = _errors(old, schema, MAX_COMPARED_ERRORS) if found else []
    except CannotCheck as error:
        return [str(error)]
    known = {_identity(error) for error in old_errors}
    return _lines([error for error in found if _identity(error) not in known])


def fits(value: Any, schema: Schema | bool) -> bool:
    """Return whether the value is valid as it is.

    Raises:
        CannotCheck: the result cannot be determined.
    """
    return not _errors(value, schema, 1)


def validator(schema: Schema | bool) -> Any:
    """Return a validator that counts its work, for use inside `bounded`.

    Raises:
        CannotCheck: the schema is invalid.
    """
    # An empty registry: by default, a validator would fetch remote references over HTTP.
    try:
        return BoundedValidator(schema, registry=Registry(), format_checker=FORMAT_CHECKER)
    except Exception as error:
        raise _cannot_apply(error) from None


def _errors(value: Any, schema: Schema | bool, most: int) -> list[ValidationError]:
    with bounded():
        try:
            return list(islice(validator(schema).iter_errors(value), most))
        except CannotCheck:
            raise
        except Exception as error:
            raise _cannot_apply(error) from None


def _cannot_apply(error: Exception) -> CannotCheck:
    """Return the error for a schema that cannot be applied: no schema may end a run."""
    return CannotCheck(f"the schema cannot be applied: {_shortened(str(error))}")


def _lines(found: list[ValidationError]) -> list[str]:
    lines = []
    for error in found[:MAX_ERRORS]:
        place = _shortened(".".join(str(step) for step in error.absolute_path))
        message = _shortened(error.message)
        lines.append(f"{place}: {message}" if place else message)
    return [*lines, "and more"] if len(found) > MAX_ERRORS else lines


def _identity(error: ValidationError) -> tuple[Any, ...]:
    """Return a key that stays the same for an error while the value around it changes."""
    speaks_of_keys = error.validator in ("required", "dependentRequired", "additionalProperties")
    keys = error.message if speaks_of_keys else ""
    return (tuple(error.absolute_path), tuple(error.absolute_schema_path), keys)


def _shortened(message: str) -> str:
    if len(message) <= MAX_MESSAGE_CHARACTERS:
        return message
    half = MAX_MESSAGE_CHARACTERS // 2
    return f"{message[:half]} … {message[-half:]}"
