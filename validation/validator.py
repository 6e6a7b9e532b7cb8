"""Whether a value fits a JSON Schema (draft 2020-12), and what is wrong with it.

What a model or a tool wrote can be large, and slow on purpose to check: an allowance says how much
of it is done. Nothing is ever fetched. JSON Schema leaves it open whether a `format` is checked:
some are, or a person would be asked to approve a date that is none.
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
    """One thing that is wrong with a value: where in it, by which keyword of the schema, what."""

    place: tuple[str | int, ...]
    keyword: str
    said: str


def violations(value: Any, schema: Schema | bool) -> list[Violation]:
    """Return what is wrong with the value, and where, at most `MAX_ERRORS` of them."""
    try:
        found = _errors(value, schema, MAX_ERRORS)
    except CannotCheck as error:
        return [Violation((), "", str(error))]
    return [
        Violation(tuple(error.absolute_path), str(error.validator), _shortened(error.message))
        for error in found
    ]


def errors(value: Any, schema: Schema | bool) -> list[str]:
    """Return what is wrong with the value, one line each, at most `MAX_ERRORS` of them."""
    try:
        return _lines(_errors(value, schema, MAX_ERRORS + 1))
    except CannotCheck as error:
        return [str(error)]


def new_errors(value: Any, old: Any, schema: Schema | bool) -> list[str]:
    """Return what is wrong with the value and was not wrong with the `old` one."""
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
        CannotCheck: that cannot be said.
    """
    return not _errors(value, schema, 1)


def validator(schema: Schema | bool) -> Any:
    """Return a validator that counts its work; to be used where it is `bounded`.

    Raises:
        CannotCheck: the schema is none.
    """
    # An empty registry: a validator of its own accord would fetch remote references over HTTP.
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
    """Whatever is wrong with a schema ends no run."""
    return CannotCheck(f"the schema cannot be applied: {_shortened(str(error))}")


def _lines(found: list[ValidationError]) -> list[str]:
    lines = [_line(error) for error in found[:MAX_ERRORS]]
    return [*lines, "and more"] if len(found) > MAX_ERRORS else lines


def _line(error: ValidationError) -> str:
    place = ".".join(str(step) for step in error.absolute_path)
    message = _shortened(error.message)
    return f"{_shortened(place)}: {message}" if place else message


def _identity(error: ValidationError) -> tuple[Any, ...]:
    """Return what makes two errors the same one, although the value around it has changed."""
    speaks_of_keys = error.validator in ("required", "dependentRequired", "additionalProperties")
    keys = error.message if speaks_of_keys else ""
    return (tuple(error.absolute_path), tuple(error.absolute_schema_path), keys)


def _shortened(message: str) -> str:
    if len(message) <= MAX_MESSAGE_CHARACTERS:
        return message
    half = MAX_MESSAGE_CHARACTERS // 2
    return f"{message[:half]} … {message[-half:]}"
