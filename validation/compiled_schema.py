"""A JSON Schema (draft 2020-12) as checks of values, each of which counts its work.

The checks of a schema are chosen once for each type of a value, so that `type` and the keywords of
other types take no time. An application of a keyword is one step, and so is an item that a keyword
goes through; a step takes a tenth of a microsecond.
"""

from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import unquote

from holdfast.validation import unevaluated  # noqa: F401  # registers its keywords
from holdfast.validation.keyword_checks import KEYWORD_CHECKS, Check, Fault, Faults, is_of_types
from holdfast.validation.work_budget import (
    FIRST_RULES,
    MAX_NESTED_CHECKS,
    CannotCheck,
    WorkBudget,
)

MAX_KEPT_NODES = 20_000
# The parts of a schema that count as one step.
_PARTS_A_STEP = 4

# By the ids of a schema and its base, which a node keeps alive.
_nodes: dict[tuple[int, int], "Node"] = {}


def node_of(schema: Any, base: Any) -> "Node":
    """Return the node of a schema; `base` is the schema with the `$id` around it, or the root."""
    found = _nodes.get((id(schema), id(base)))
    if found is None:
        if len(_nodes) >= MAX_KEPT_NODES:
            _nodes.clear()
        found = _nodes[id(schema), id(base)] = Node(schema, base)
    return found


class Node:
    """One schema of a document, and its checks by the type of a value."""

    __slots__ = ("_base", "_checks", "_cost", "_outer", "_targets", "schema")

    def __init__(self, schema: Any, base: Any) -> None:
        self.schema, self._outer = schema, base
        self._base = schema if isinstance(schema, dict) and "$id" in schema else base
        self._checks: dict[type, list[tuple[str, Check, Any]]] = {}
        self._targets: dict[str, Node] = {}
        rules = schema.items() if isinstance(schema, dict) else ()
        self._cost = sum(
            1 + (len(rule) // _PARTS_A_STEP if isinstance(rule, dict | list) else 0)
            for keyword, rule in rules
            if keyword in KEYWORD_CHECKS
        )

    def faults(self, value: Any, budget: WorkBudget) -> Iterable[Fault]:
        """Return the errors of the value, found one by one.

        Raises:
            CannotCheck: the budget is used up, also while they are found.
        """
        budget.spend(self._cost + budget.application)
        checks = self._checks.get(value.__class__)
        if checks is None:
            checks = self._checks[value.__class__] = list(self._chosen(value))
        return self._found(checks, value, budget) if checks else ()

    def fits(self, value: Any, budget: WorkBudget) -> bool:
        """Return whether the value has no errors.

        Of an object or a list, the verdict is kept: choices within choices would check it again and
        again.
        """
        key = (id(self), id(value))
        if key in budget.verdicts:
            return budget.verdicts[key]
        budget.spend(4 * budget.application)
        nested = budget.nested
        fits = next(iter(self.faults(value, budget)), None) is None
        budget.nested = nested
        if budget.rules is not FIRST_RULES and isinstance(value, dict | list):
            budget.verdicts[key] = fits
        return fits

    def part(self, schema: Any) -> "Node":
        """Return the node of a schema within this one."""
        return node_of(schema, self._base)

    def target(self, reference: str) -> "Node":
        """Return the node of a local reference within this schema.

        Raises:
            CannotCheck: there is none.
        """
        if reference not in self._targets:
            found, base = _resolved(reference, self._base)
            if found is None:
                why = f"{reference[:200]} is nowhere in it"
                raise CannotCheck(f"the schema cannot be applied: {why}")
            self._targets[reference] = node_of(found, base)
        return self._targets[reference]

    def _found(
        self, checks: list[tuple[str, Check, Any]], value: Any, budget: WorkBudget
    ) -> Faults:
        budget.nested += 1
        if budget.nested > MAX_NESTED_CHECKS:
            raise CannotCheck("too deep to be checked")
        for keyword, check, rule in checks:
            for fault in check(rule, value, self, budget):
                budget.spend(1 + budget.application)
                fault.keyword = fault.keyword or keyword
                fault.schema_place = (keyword, *fault.schema_place)
                yield fault
        budget.nested -= 1

    def _chosen(self, value: Any) -> Iterator[tuple[str, Check, Any]]:
        if self.schema is False:
            yield "", _nothing, False
        for keyword, rule in self.schema.items() if isinstance(self.schema, dict) else ():
            types, check = KEYWORD_CHECKS.get(keyword, ((), _nothing))
            # Of a float, the value decides whether it is an integer.
            is_certain = keyword == "type" and not isinstance(value, float)
            if is_of_types(value, types) and not (
                is_certain and not [*check(rule, value, self, WorkBudget())]
            ):
                yield keyword, check, rule


def _nothing(rule: Any, value: Any, node: Node, budget: WorkBudget) -> Faults:
    yield Fault("False schema does not allow {value!r}", value, rule)


def _resolved(reference: str, base: Any) -> tuple[Any, Any]:
    """Return the target of a local reference and its base; None if there is none."""
    place, *path = unquote(reference).split("/")
    found = base if place == "#" else None if path else _anchored(place.removeprefix("#"), base)
    for key in path:
        key = key.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and key.isdecimal() and int(key) < len(found):
            found = found[int(key)]
        else:
            found = found.get(key) if isinstance(found, dict) else None
        base = found if isinstance(found, dict) and "$id" in found else base
    return found, base


def _anchored(name: str, base: Any) -> Any:
    """Return the schema with an anchor, in no schema with another `$id`; None if there is none."""
    rest = [base]
    while rest:
        each = rest.pop()
        if isinstance(each, dict) and name in (each.get("$anchor"), each.get("$dynamicAnchor")):
            return each
        parts = each.values() if isinstance(each, dict) else each
        rest += (part for part in parts if isinstance(part, dict | list) and "$id" not in part)
    return None
