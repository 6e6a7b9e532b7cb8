"""Whether a value fits a JSON Schema (draft 2020-12), and what is wrong with it.

What a model or a tool wrote can be large, and slow on purpose to check: `bounded` says how much of
it is done. Nothing is ever fetched. JSON Schema leaves it open whether a `format` is checked: those
of `FORMATS` are, or a person would be asked to approve a date that is none.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker, validators
from jsonschema.exceptions import ValidationError
from referencing import Registry

from schemas.tool import Schema

MAX_CHECKS = 50_000
MAX_ERRORS = 20
MAX_COMPARED_ERRORS = 1_000
MAX_MESSAGE_CHARACTERS = 300
# Quick to check, and the same everywhere.
FORMATS = ("date", "uuid", "ipv4", "ipv6")

Keyword = Callable[[Any, Any, Any, Any], Any]
# Keywords that go through every item of a value, also where there is nothing to check of it.
_GOES_THROUGH = ("items", "contains", "patternProperties", "additionalProperties", "propertyNames")

_checks_left: ContextVar[list[int] | None] = ContextVar("_checks_left", default=None)


class CannotCheck(Exception):
    """Whether a value fits a schema cannot be said; the message says why."""


@contextmanager
def bounded() -> Iterator[None]:
    """All checking inside shares one allowance of `MAX_CHECKS`, about half a second of work.

    Temporal takes a workflow that thinks for two seconds for dead.
    """
    if _checks_left.get() is not None:
        yield
        return
    token = _checks_left.set([MAX_CHECKS])
    try:
        yield
    finally:
        _checks_left.reset(token)


def errors(value: Any, schema: Schema | bool) -> list[str]:
    """What is wrong with the value, one line each, at most `MAX_ERRORS` of them."""
    try:
        return _lines(_errors(value, schema, MAX_ERRORS + 1))
    except CannotCheck as error:
        return [str(error)]


def new_errors(value: Any, old: Any, schema: Schema | bool) -> list[str]:
    """What is wrong with the value and was not wrong with the `old` one."""
    try:
        found = _errors(value, schema, MAX_COMPARED_ERRORS)
        old_errors = _errors(old, schema, MAX_COMPARED_ERRORS) if found else []
    except CannotCheck as error:
        return [str(error)]
    known = {_identity(error) for error in old_errors}
    return _lines([error for error in found if _identity(error) not in known])


def fits(value: Any, schema: Schema | bool) -> bool:
    """Whether the value is valid as it is.

    Raises:
        CannotCheck: that cannot be said.
    """
    return not _errors(value, schema, 1)


def spend(checks: int) -> None:
    """Take so much of the allowance.

    Raises:
        CannotCheck: it is used up.
    """
    left = _checks_left.get()
    assert left is not None  # whoever checks has opened an allowance
    left[0] -= checks
    if left[0] < 0:
        raise CannotCheck(f"too large to be checked: that takes more than {MAX_CHECKS} steps")


def validator(schema: Schema | bool) -> Any:
    """A validator that counts its work; to be used where it is `bounded`.

    Raises:
        CannotCheck: the schema is none.
    """
    # An empty registry: a validator of its own accord would fetch remote references over HTTP.
    # A schema that names its draft would be given that draft's own validator, which does not count.
    if isinstance(schema, dict):
        schema = {key: rule for key, rule in schema.items() if key != "$schema"}
    try:
        return _Bounded(schema, registry=Registry(), format_checker=_FORMATS)
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
    """What makes two errors the same one, although the value around it has changed."""
    speaks_of_keys = error.validator in ("required", "dependentRequired", "additionalProperties")
    keys = error.message if speaks_of_keys else ""
    return (tuple(error.absolute_path), tuple(error.absolute_schema_path), keys)


def _shortened(message: str) -> str:
    if len(message) <= MAX_MESSAGE_CHARACTERS:
        return message
    half = MAX_MESSAGE_CHARACTERS // 2
    return f"{message[:half]} … {message[-half:]}"


def _counted(name: str, keyword: Keyword) -> Keyword:
    """A keyword of JSON Schema that counts how often it is applied."""
    through = name in _GOES_THROUGH

    def check(validator: Any, rule: Any, instance: Any, schema: Any) -> Any:
        spend(1 + len(instance) if through and isinstance(instance, dict | list) else 1)
        return keyword(validator, rule, instance, schema)

    return check


def _unique(validator: Any, rule: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """`uniqueItems` in one pass: jsonschema's own compares each item to each other one."""
    if rule and isinstance(instance, list):
        spend(len(instance))
        if len({_key(item) for item in instance}) < len(instance):
            yield ValidationError("an item stands in it twice")


def _key(value: Any) -> Any:
    """A key that is equal for equal JSON values: 1 is 1.0, and is not true."""
    match value:
        case bool():
            return (bool, value)
        case dict():
            return (dict, frozenset((key, _key(item)) for key, item in value.items()))
        case list():
            return (list, tuple(_key(item) for item in value))
        case _:
            return value


_FORMATS = FormatChecker(formats=FORMATS)
_KEYWORDS: dict[str, Keyword] = {**Draft202012Validator.VALIDATORS, "uniqueItems": _unique}
_Bounded: Any = validators.extend(  # type: ignore[no-untyped-call]  # its types leave it out
    Draft202012Validator, {name: _counted(name, rule) for name, rule in _KEYWORDS.items()}
)
