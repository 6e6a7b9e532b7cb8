"""Validate a value against a JSON Schema (draft 2020-12), and describe its errors.

The value of a model or a tool can be large, and slow on purpose to check: a budget bounds the work.
An application of a keyword is one step, and so is an item that a keyword goes through; a step takes
a tenth of a microsecond. Nothing is ever fetched.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from holdfast.schemas.tool import Schema
from holdfast.validation.keyword_checks import VOCABULARY
from holdfast.validation.schema_node import APPLICATION_STEPS, CannotCheck, Fault, Node, WorkBudget

MAX_ERRORS = 20
MAX_COMPARED_ERRORS = 1_000
MAX_MESSAGE_CHARACTERS = 300
# To start takes as long as so many applications of a schema.
_STARTS = 8
# Quoting so many characters of a value takes ten microseconds.
_QUOTED = 1_000


@dataclass(frozen=True)
class Violation:
    """One error of a value: its place, the keyword of the schema and its rule, and the message."""

    place: tuple[str | int, ...]
    keyword: str
    said: str
    rule: Any = None


def violations(
    value: Any, schema: Schema | bool, budget: WorkBudget | None = None
) -> list[Violation]:
    """Return the errors of the value with their places, at most `MAX_ERRORS` of them."""
    budget = budget or WorkBudget()
    try:
        return [
            Violation(each.place, each.keyword, _message(each, budget), each.rule)
            for each in faults(value, schema, MAX_ERRORS, budget)
        ]
    except CannotCheck as error:
        return [Violation((), "", str(error))]


def errors(value: Any, schema: Schema | bool, budget: WorkBudget | None = None) -> list[str]:
    """Return the errors of the value, one line each, at most `MAX_ERRORS` of them."""
    budget = budget or WorkBudget()
    try:
        return _lines(faults(value, schema, MAX_ERRORS + 1, budget), budget)
    except CannotCheck as error:
        return [str(error)]


def new_errors(
    value: Any, old: Any, schema: Schema | bool, budget: WorkBudget | None = None
) -> list[str]:
    """Return the errors of the value that the `old` value does not have."""
    budget = budget or WorkBudget()
    try:
        found = faults(value, schema, MAX_COMPARED_ERRORS, budget)
        old_faults = faults(old, schema, MAX_COMPARED_ERRORS, budget) if found else []
        known = {_identity(each) for each in old_faults}
        return _lines([each for each in found if _identity(each) not in known], budget)
    except CannotCheck as error:
        return [str(error)]


def fits(
    value: Any, schema: Schema | bool, part: Any = None, budget: WorkBudget | None = None
) -> bool:
    """Return whether the value is valid as it is, or fits a part of the schema.

    Raises:
        CannotCheck: the result cannot be determined.
    """
    return not faults(value, schema, 1, budget, part)


def faults(
    value: Any, schema: Schema | bool, most: int, budget: WorkBudget | None = None, part: Any = None
) -> list[Fault]:
    """Return the errors of the value by the schema, or by a part of it; at most so many.

    Raises:
        CannotCheck: the result cannot be determined.
    """
    budget = budget or WorkBudget()
    budget.nested = 0
    budget.verdicts.clear()
    budget.spend(_STARTS * APPLICATION_STEPS)
    try:
        root = budget.roots.get(id(schema))
        if root is None:
            root = budget.roots[id(schema)] = Node(schema, VOCABULARY)
        node = root if part is None else root.part(part)
        return list(islice(node.faults(value, budget), most))
    except CannotCheck:
        raise
    except Exception as error:  # no schema may end a run
        why = f"the schema cannot be applied: {_shortened(str(error))}"
        raise CannotCheck(why) from None


def _lines(found: Sequence[Fault], budget: WorkBudget) -> list[str]:
    lines = []
    for each in found[:MAX_ERRORS]:
        place, message = _shortened(".".join(map(str, each.place))), _message(each, budget)
        lines.append(f"{place}: {message}" if place else message)
    return [*lines, "and more"] if len(found) > MAX_ERRORS else lines


def _identity(fault: Fault) -> tuple[Any, ...]:
    """Return a key that stays the same for an error while the value around it changes."""
    speaks_of_keys = fault.keyword in ("required", "dependentRequired", "additionalProperties")
    keys = fault.message if speaks_of_keys else ""
    return (fault.place, fault.schema_place, fault.keyword, keys)


def _message(fault: Fault, budget: WorkBudget) -> str:
    message = fault.message
    budget.work(len(message), _QUOTED)
    return _shortened(message)


def _shortened(message: str) -> str:
    if len(message) <= MAX_MESSAGE_CHARACTERS:
        return message
    half = MAX_MESSAGE_CHARACTERS // 2
    return f"{message[:half]} … {message[-half:]}"
