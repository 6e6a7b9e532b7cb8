"""Validate a value against a JSON Schema (draft 2020-12), and describe its errors.

The value of a model or a tool can be large, and slow on purpose to check: a budget bounds the work.
An application of a keyword is one step, and so is an item that a keyword goes through; a step takes
a tenth of a microsecond. The checks of a schema are chosen once for each type of a value, so that
`type` and the keywords of other types take no time. Nothing is ever fetched.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from holdfast.schemas.json_schema import target_of
from holdfast.schemas.tool import Schema
from holdfast.validation import keyword_checks
from holdfast.validation.work_budget import APPLICATION_STEPS, CannotCheck, WorkBudget, bounded

MAX_ERRORS = 20
MAX_COMPARED_ERRORS = 1_000
MAX_MESSAGE_CHARACTERS = 300
# Schemas within schemas, for which Python has room on its stack.
MAX_NESTED_CHECKS = 200
ANCHORS = ("$anchor", "$dynamicAnchor")
# To start takes as long as so many applications of a schema.
_STARTS = 8
# The parts of a schema that count as one step.
_PARTS_A_STEP = 4
# To choose the checks takes as long as so many applications of a schema.
_CHOICES = 20
# Quoting so many characters of a value takes ten microseconds.
_QUOTED = 1_000


@dataclass(frozen=True)
class Violation:
    """One error of a value: its place, the keyword of the schema and its rule, and the message."""

    place: tuple[str | int, ...]
    keyword: str
    said: str
    rule: Any = None


class Node:
    """One schema of a document, and its checks by the type of a value."""

    def __init__(self, schema: Any, root: "Node | None" = None) -> None:
        self.schema = schema
        self.root = root or self
        # By the id of its schema, which the document keeps alive, or a reference to it.
        self.nodes: dict[int | str, Node] = {} if root is None else root.nodes
        # The keys of the values of `enum`, once it was applied.
        self.values: frozenset[Any] | None = None
        self._checks: dict[type, list[tuple[str, keyword_checks.Check, Any]]] = {}
        rules = schema.items() if isinstance(schema, dict) else ()
        self._cost = sum(
            1 + (len(rule) // _PARTS_A_STEP if isinstance(rule, dict | list) else 0)
            for keyword, rule in rules
            if keyword in keyword_checks.KEYWORD_CHECKS
        )

    def faults(self, value: Any, budget: WorkBudget) -> Iterable[keyword_checks.Fault]:
        """Return the errors of the value, found one by one within the budget."""
        budget.spend(self._cost + APPLICATION_STEPS)
        checks = self._checks.get(value.__class__)
        if checks is None:
            budget.spend(_CHOICES * APPLICATION_STEPS)
            checks = self._checks[value.__class__] = list(self._chosen(value))
        return self._found(checks, value, budget) if checks else ()

    def fits(self, value: Any, budget: WorkBudget) -> bool:
        """Return whether the value has no errors.

        Of an object or a list, the verdict is kept: choices within choices would check it again and
        again.
        """
        key = (self, id(value))
        if key in budget.verdicts:
            return budget.verdicts[key]
        budget.spend(4 * APPLICATION_STEPS)
        nested = budget.nested
        fits = next(iter(self.faults(value, budget)), None) is None
        budget.nested = nested
        if isinstance(value, dict | list):
            budget.verdicts[key] = fits
        return fits

    def evaluated(self, value: Any, budget: WorkBudget) -> Iterator[Any]:
        """Yield the keys or indexes of the parts that this schema, or one within it, is about."""
        budget.spend(self._cost + len(value))
        for keyword, rule in self.schema.items() if isinstance(self.schema, dict) else ():
            applied = keyword_checks.APPLICATIONS.get(keyword)
            if applied is None or not isinstance(value, keyword_checks.KEYWORD_CHECKS[keyword][0]):
                continue
            for part, step, _ in applied(rule, value, self, budget):
                budget.spend(1)
                if step is not None:
                    yield step
                elif keyword in keyword_checks.REFERENCES or part.fits(value, budget):
                    yield from part.evaluated(value, budget)

    def part(self, schema: Any) -> "Node":
        """Return the node of a schema within the document."""
        found = self.nodes.get(id(schema))
        if found is None:
            found = self.nodes[id(schema)] = Node(schema, self.root)
        return found

    def target(self, reference: str) -> "Node":
        """Return the node of a local reference, or raise `CannotCheck`."""
        if reference not in self.nodes:
            found = find_target(reference, self.root.schema)
            if found is None:
                why = f"{reference[:200]} is nowhere in it"
                raise CannotCheck(f"the schema cannot be applied: {why}")
            self.nodes[reference] = self.part(found)
        return self.nodes[reference]

    def _found(
        self, checks: list[tuple[str, keyword_checks.Check, Any]], value: Any, budget: WorkBudget
    ) -> keyword_checks.Faults:
        budget.nested += 1
        if budget.nested > MAX_NESTED_CHECKS:
            raise CannotCheck("too deep to be checked")
        for keyword, check, rule in checks:
            for fault in check(rule, value, self, budget):
                budget.spend(1 + APPLICATION_STEPS)
                fault.keyword = fault.keyword or keyword
                fault.schema_place = (keyword, *fault.schema_place)
                yield fault
        budget.nested -= 1

    def _chosen(self, value: Any) -> Iterator[tuple[str, keyword_checks.Check, Any]]:
        if self.schema is False:
            yield "", _nothing, False
        for keyword, rule in self.schema.items() if isinstance(self.schema, dict) else ():
            types, check = keyword_checks.KEYWORD_CHECKS.get(keyword, ((), _nothing))
            # Of a float, the value decides whether it is an integer.
            is_certain = keyword == "type" and not isinstance(value, float)
            if keyword_checks.is_of_types(value, types) and not (
                is_certain and not [*check(rule, value, self, WorkBudget())]
            ):
                yield keyword, check, rule


def find_target(reference: str, root: Any) -> Any:
    """Return the schema that a local reference names by its place or an anchor, or None."""
    if reference[:1] != "#" or reference[1:2] in ("", "/"):
        return target_of(reference, root)
    rest = [root]
    while rest:
        each = rest.pop()
        if isinstance(each, dict) and reference[1:] in map(each.get, ANCHORS):
            return each
        parts = each.values() if isinstance(each, dict) else each
        # A schema with an `$id` has anchors of its own.
        rest += (part for part in parts if isinstance(part, dict | list) and "$id" not in part)
    return None


def _nothing(rule: Any, value: Any, node: Node, budget: WorkBudget) -> keyword_checks.Faults:
    yield keyword_checks.Fault("False schema does not allow {value}", value, rule)


def violations(value: Any, schema: Schema | bool) -> list[Violation]:
    """Return the errors of the value with their places, at most `MAX_ERRORS` of them."""
    try:
        found = faults(value, schema, MAX_ERRORS)
        return [Violation(each.place, each.keyword, _message(each), each.rule) for each in found]
    except CannotCheck as error:
        return [Violation((), "", str(error))]


def errors(value: Any, schema: Schema | bool) -> list[str]:
    """Return the errors of the value, one line each, at most `MAX_ERRORS` of them."""
    try:
        with bounded():
            return _lines(faults(value, schema, MAX_ERRORS + 1))
    except CannotCheck as error:
        return [str(error)]


def new_errors(value: Any, old: Any, schema: Schema | bool) -> list[str]:
    """Return the errors of the value that the `old` value does not have."""
    try:
        with bounded():
            found = faults(value, schema, MAX_COMPARED_ERRORS)
            old_faults = faults(old, schema, MAX_COMPARED_ERRORS) if found else []
            known = {_identity(each) for each in old_faults}
            return _lines([each for each in found if _identity(each) not in known])
    except CannotCheck as error:
        return [str(error)]


def fits(value: Any, schema: Schema | bool, part: Any = None) -> bool:
    """Return whether the value is valid as it is, or fits a part of the schema.

    Raises:
        CannotCheck: the result cannot be determined.
    """
    return not faults(value, schema, 1, part)


def faults(
    value: Any, schema: Schema | bool, most: int, part: Any = None
) -> list[keyword_checks.Fault]:
    """Return the errors of the value by the schema, or by a part of it; at most so many.

    Raises:
        CannotCheck: the result cannot be determined.
    """
    with bounded() as budget:
        budget.nested = 0
        budget.verdicts.clear()
        budget.spend(_STARTS * APPLICATION_STEPS)
        try:
            root = budget.roots.get(id(schema))
            if root is None:
                root = budget.roots[id(schema)] = Node(schema)
            node = root if part is None else root.part(part)
            return list(islice(node.faults(value, budget), most))
        except CannotCheck:
            raise
        except Exception as error:  # no schema may end a run
            why = f"the schema cannot be applied: {_shortened(str(error))}"
            raise CannotCheck(why) from None


def _lines(found: Sequence[keyword_checks.Fault]) -> list[str]:
    lines = []
    for each in found[:MAX_ERRORS]:
        place, message = _shortened(".".join(map(str, each.place))), _message(each)
        lines.append(f"{place}: {message}" if place else message)
    return [*lines, "and more"] if len(found) > MAX_ERRORS else lines


def _identity(fault: keyword_checks.Fault) -> tuple[Any, ...]:
    """Return a key that stays the same for an error while the value around it changes."""
    speaks_of_keys = fault.keyword in ("required", "dependentRequired", "additionalProperties")
    keys = fault.message if speaks_of_keys else ""
    return (fault.place, fault.schema_place, fault.keyword, keys)


def _message(fault: keyword_checks.Fault) -> str:
    with bounded() as budget:
        message = fault.message
        budget.work(len(message), _QUOTED)
    return _shortened(message)


def _shortened(message: str) -> str:
    if len(message) <= MAX_MESSAGE_CHARACTERS:
        return message
    half = MAX_MESSAGE_CHARACTERS // 2
    return f"{message[:half]} … {message[-half:]}"
