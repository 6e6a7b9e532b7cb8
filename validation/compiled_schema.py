"""A JSON Schema (draft 2020-12) as checks of values, each of which counts its work.

The checks of a schema are chosen once for each type of a value, so that `type` and the keywords of
other types take no time. An application of a keyword is one step, and so is an item that a keyword
goes through; a step takes a tenth of a microsecond.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from holdfast.schemas.json_schema import target_of
from holdfast.validation import unevaluated  # noqa: F401  # registers its keywords
from holdfast.validation.keyword_checks import KEYWORD_CHECKS, Check, Fault, Faults, is_of_types
from holdfast.validation.work_budget import (
    FIRST_RULES,
    MAX_NESTED_CHECKS,
    CannotCheck,
    WorkBudget,
)

# The parts of a schema that count as one step.
_PARTS_A_STEP = 4
ANCHORS = ("$anchor", "$dynamicAnchor")
# To choose the checks takes as long as so many applications of a schema.
_CHOICES = 20


class Node:
    """One schema of a document, and its checks by the type of a value."""

    def __init__(self, schema: Any, root: "Node | None" = None) -> None:
        self.schema = schema
        self.root = root or self
        # By the id of its schema, which the document keeps alive, or a reference to it.
        self.nodes: dict[int | str, Node] = {} if root is None else root.nodes
        # The keys of the values of `enum`, once it was applied.
        self.values: frozenset[Any] | None = None
        self._checks: dict[type, list[tuple[str, Check, Any]]] = {}
        rules = schema.items() if isinstance(schema, dict) else ()
        self._cost = sum(
            1 + (len(rule) // _PARTS_A_STEP if isinstance(rule, dict | list) else 0)
            for keyword, rule in rules
            if keyword in KEYWORD_CHECKS
        )

    def faults(self, value: Any, budget: WorkBudget) -> Iterable[Fault]:
        """Return the errors of the value, found one by one within the budget."""
        budget.spend(self._cost + budget.application)
        checks = self._checks.get(value.__class__)
        if checks is None:
            budget.spend(_CHOICES * budget.application)
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
        budget.spend(4 * budget.application)
        nested = budget.nested
        fits = next(iter(self.faults(value, budget)), None) is None
        budget.nested = nested
        if budget.rules is not FIRST_RULES and isinstance(value, dict | list):
            budget.verdicts[key] = fits
        return fits

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


def _nothing(rule: Any, value: Any, node: Node, budget: WorkBudget) -> Faults:
    yield Fault("False schema does not allow {value!r}", value, rule)
