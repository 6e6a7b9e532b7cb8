"""The keywords `unevaluatedProperties` and `unevaluatedItems`.

They are about the parts of a value that no other keyword is about: none beside them, and none of
the schemas that are applied to the same value and fit it.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from holdfast.validation.keyword_checks import Fault, Faults, keyword_check, list_extras
from holdfast.validation.work_budget import WorkBudget

if TYPE_CHECKING:
    from holdfast.validation.compiled_schema import Node

REFERENCES = ("$ref", "$dynamicRef")


@keyword_check("unevaluatedProperties", dict)
def _unevaluated_properties(rule: Any, value: Any, node: "Node", budget: WorkBudget) -> Faults:
    if wrong := _unfit(rule, value, node, budget):
        text = "Unevaluated properties are not allowed ({rule} unexpected)"
        if rule is not False:
            why = "under the given schema ({rule} unevaluated and invalid)"
            text = f"Unevaluated properties are not valid {why}"
        yield Fault(text, value, list_extras(sorted(wrong) if rule is False else wrong))


@keyword_check("unevaluatedItems", list)
def _unevaluated_items(rule: Any, value: Any, node: "Node", budget: WorkBudget) -> Faults:
    if wrong := _unfit(rule, value, node, budget):
        extras = list_extras([value[n] for n in wrong])
        yield Fault("Unevaluated items are not allowed ({rule} unexpected)", value, extras)


def _unfit(rule: Any, value: Any, node: "Node", budget: WorkBudget) -> list[Any]:
    """Return the keys or indexes of the unevaluated parts that do not fit the rule."""
    known = {step for each in _applied(node, value, budget) for step in _own(each, value, budget)}
    part, steps = node.part(rule), value if isinstance(value, dict) else range(len(value))
    budget.spend(len(value))
    return [step for step in steps if step not in known and not part.fits(value[step], budget)]


def _applied(node: "Node", value: Any, budget: WorkBudget) -> "Iterator[Node]":
    """Yield the node, and each one that it applies to the same value, if the value fits it."""
    schema = node.schema
    if not isinstance(schema, dict):
        return
    budget.spend(1)
    yield node
    for reference in (schema[each] for each in REFERENCES if each in schema):
        yield from _applied(node.target(reference), value, budget)
    for each in (each for name in ("allOf", "oneOf", "anyOf") for each in schema.get(name, ())):
        if (part := node.part(each)).fits(value, budget):
            yield from _applied(part, value, budget)
    if "if" in schema:
        holds = node.part(schema["if"]).fits(value, budget)
        for name in ("if", "then") if holds else ("else",):
            yield from _applied(node.part(schema.get(name, True)), value, budget)
    for key, each in schema.get("dependentSchemas", {}).items():
        if key in value:
            yield from _applied(node.part(each), value, budget)


def _own(node: "Node", value: Any, budget: WorkBudget) -> Iterator[Any]:
    """Yield the keys or indexes of the parts that the schema itself evaluates."""
    budget.spend(1 + len(value))
    schema, is_object = node.schema, isinstance(value, dict)
    steps = value if is_object else range(len(value))
    if ("additionalProperties" if is_object else "items") in schema:
        yield from steps
        return
    if is_object:
        yield from (key for key in value if key in schema.get("properties", ()))
        for pattern in schema.get("patternProperties", ()):
            yield from (key for key in value if budget.matches(pattern, key))
    else:
        yield from range(len(schema.get("prefixItems", ())))
    for name in ("unevaluatedProperties",) if is_object else ("contains", "unevaluatedItems"):
        if name in schema:
            part = node.part(schema[name])
            yield from (step for step in steps if part.fits(value[step], budget))
