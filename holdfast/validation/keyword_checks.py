"""The keywords of JSON Schema (draft 2020-12): each yields what does not fit in a value.

A check counts its work; long work counts as several steps. Errors have the words of Python's
`jsonschema`, with values as JSON, and its order: the order of the schema, then of the value.
"""

from collections.abc import Callable
from fractions import Fraction
from itertools import chain, islice
from operator import ge, gt, le, lt
from typing import Any

from holdfast.validation.formats import fits_format
from holdfast.validation.schema_node import (
    REFERENCES,
    Application,
    Applied,
    Check,
    Fault,
    Faults,
    Node,
    Vocabulary,
    WorkBudget,
    as_json,
    is_of_types,
)

# What takes ten microseconds: comparing so many values.
_COMPARED = 8

TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "object": (dict,),
    "array": (list,),
    "null": (type(None),),
}


VOCABULARY = Vocabulary(checks={}, applications={})


def _keyword_check(name: str, *types: type) -> Callable[[Check], Check]:
    """Register the check of a keyword for values of these types, or of any."""

    def register(check: Check) -> Check:
        VOCABULARY.checks[name] = (types or (object,), check)
        return check

    return register


def _applies(
    name: str, *types: type, closed: Callable[[list[Any], Any, Node], Fault] | None = None
) -> Callable[[Application], Application]:
    """Register a keyword whose schemas must all fit, for values of these types, or of any.

    `closed` returns the error of the parts that a `false` does not allow, if it is one for all.
    """

    def register(applied: Application) -> Application:
        VOCABULARY.applications[name] = applied

        @_keyword_check(name, *types)
        def check(rule: Any, value: Any, node: Node, budget: WorkBudget) -> Faults:
            found = applied(rule, value, node, budget)
            if closed is not None and rule is False:
                if extras := [step for _, step, _ in found]:
                    yield closed(extras, value, node)
                return
            for part, step, path in found:
                for fault in part.faults(value if step is None else value[step], budget):
                    if step is not None:
                        fault.place = (step, *fault.place)
                    fault.schema_place = (*path, *fault.schema_place)
                    yield fault

        return applied

    return register


def _compares(keyword: str, types: str, fits: Callable[[Any, Any], bool], text: str) -> None:

    @_keyword_check(keyword, *TYPES[types])
    def check(rule: Any, value: Any, node: Node, budget: WorkBudget) -> Faults:
        if not fits(value, rule):
            words = _EMPTY.get((keyword[:4], rule), text)
            yield Fault(f"{{value}} {words}", value, rule)


def _is_multiple(value: Any, rule: Any) -> bool:
    # Decimals are what is written: 0.3 is three times 0.1.
    whole, part = (Fraction(n if isinstance(n, int) else repr(n)) for n in (value, rule))
    return (whole / part).denominator == 1


_EMPTY = {
    **{(f"min{kind}", 1): "should be non-empty" for kind in "LIP"},
    **{(f"max{kind}", 0): "is expected to be empty" for kind in "LIP"},
}
for _size, _types, _less, _more in (
    ("Length", "string", "is too short", "is too long"),
    ("Items", "array", "is too short", "is too long"),
    ("Properties", "object", "does not have enough properties", "has too many properties"),
):
    _compares(f"min{_size}", _types, lambda value, rule: len(value) >= rule, _less)
    _compares(f"max{_size}", _types, lambda value, rule: len(value) <= rule, _more)
_compares("minimum", "number", ge, "is less than the minimum of {rule}")
_compares("maximum", "number", le, "is greater than the maximum of {rule}")
_compares("exclusiveMinimum", "number", gt, "is less than or equal to the minimum of {rule}")
_compares("exclusiveMaximum", "number", lt, "is greater than or equal to the maximum of {rule}")
_compares("multipleOf", "number", _is_multiple, "is not a multiple of {rule}")


@_keyword_check("type")
def _type(rule: Any, value: Any, node: Node, budget: WorkBudget) -> Faults:
    names = [rule] if isinstance(rule, str) else rule
    is_whole = isinstance(value, float) and "integer" in names and value.is_integer()
    types = tuple(chain.from_iterable(map(TYPES.__getitem__, names)))
    if not (is_whole or is_of_types(value, types)):
        yield Fault("{value} is not of type " + ", ".join(map(as_json, names)), value, rule)


@_keyword_check("pattern", str)
def _pattern(rule: Any, value: Any, node: Node, budget: WorkBudget) -> Faults:
    if not budget.matches(rule, value):
        yield Fault("{value} does not match {rule}", value, rule)


@_keyword_check("format", str)
def _format(rule: Any, value: Any, node: Node, budget: WorkBudget) -> Faults:
    if not fits_format(rule, value):
        yield Fault("{value} is not a {rule}", value, rule)


@_keyword_check("enum")
def _enum(rule: Any, value: Any, node: Node, budget: WorkBudget) -> Faults:
    if node.values is None:
        node.values = frozenset(_key(each, budget) for each in rule)
    if _key(value, budget) not in node.values:
        yield Fault("{value} is not one of {rule}", value, rule)


@_keyword_check("const")
def _const(rule: Any, value: Any, node: Node, budget: WorkBudget) -> Faults:
    if _key(value, budget) != _key(rule, budget):
        yield Fault("{rule} was expected", value, rule)


@_keyword_check("uniqueItems", list)
def _unique_items(rule: Any, value: Any, node: Node, budget: WorkBudget) -> Faults:
    """Check in one pass: to compare each item with each other one takes long."""
    if rule and len({_key(item, budget) for item in value}) < len(value):
        yield Fault("an item occurs in it twice", value, rule)


def _key(value: Any, budget: WorkBudget) -> Any:
    """Return a key that is equal for equal JSON values: 1 is 1.0, and is not true.

    Numbers become text: numbers with the same hash would be compared each with each.
    """
    match value:
        case int() if not isinstance(value, bool):
            return (int, str(value))
        case float():
            return (int, str(int(value))) if value.is_integer() else (float, repr(value))
        case dict():
            budget.work(_COMPARED + len(value), _COMPARED)
            return (dict, frozenset((key, _key(item, budget)) for key, item in value.items()))
        case list():
            budget.work(_COMPARED + len(value), _COMPARED)
            return (list, tuple(_key(item, budget) for item in value))
    return value


@_keyword_check("$dynamicRef")
@_keyword_check("$ref")
def _reference(rule: Any, value: Any, node: Node, budget: WorkBudget) -> Faults:
    yield from node.target(rule).faults(value, budget)


@_applies("allOf")
def _all_of(rule: Any, value: Any, node: Node, budget: WorkBudget) -> Applied:
    return ((node.part(each), None, (n,)) for n, each in enumerate(rule))


@_keyword_check("anyOf")
def _any_of(rule: Any, value: Any, node: Node, budget: WorkBudget) -> Faults:
    if not any(node.part(each).fits(value, budget) for each in rule):
        yield Fault("{value} is not valid under any of the given schemas", value, rule)


@_keyword_check("oneOf")
def _one_of(rule: Any, value: Any, node: Node, budget: WorkBudget) -> Faults:
    fitting = [each for each in rule if node.part(each).fits(value, budget)]
    if not fitting:
        yield from _any_of((), value, node, budget)
    elif len(fitting) > 1:
        schemas = ", ".join(map(as_json, [*fitting[1:], fitting[0]]))
        yield Fault("{value} is valid under each of {words}", value, schemas)


@_keyword_check("not")
def _not(rule: Any, value: Any, node: Node, budget: WorkBudget) -> Faults:
    if node.part(rule).fits(value, budget):
        yield Fault("{value} should not be valid under {rule}", value, rule)


@_applies("if")
def _if(rule: Any, value: Any, node: Node, budget: WorkBudget) -> Applied:
    way = "then" if node.part(rule).fits(value, budget) else "else"
    yield node.part(node.schema.get(way, True)), None, (way,)


@_applies("dependentSchemas", dict)
def _dependent_schemas(rule: Any, value: Any, node: Node, budget: WorkBudget) -> Applied:
    return ((node.part(rule[key]), None, (key,)) for key in rule if key in value)


@_applies("prefixItems", list)
def _prefix_items(rule: Any, value: Any, node: Node, budget: WorkBudget) -> Applied:
    return ((node.part(each), n, (n,)) for n, each in enumerate(rule[: len(value)]))


def _extra_items(extras: list[Any], value: Any, node: Node) -> Fault:
    prefix, items = extras[0], "item" if extras[0] == 1 else "items"
    text = f"Expected at most {prefix} {items} but found {len(extras)} extra: {{value}}"
    return Fault(text, value[prefix:] if len(extras) > 1 else value[prefix], False)


@_applies("items", list, closed=_extra_items)
def _items(rule: Any, value: Any, node: Node, budget: WorkBudget) -> Applied:
    budget.spend(len(value))
    part, prefix = node.part(rule), len(node.schema.get("prefixItems", ()))
    return ((part, n, ()) for n in range(prefix, len(value)))


@_keyword_check("contains", list)
def _contains(rule: Any, value: Any, node: Node, budget: WorkBudget) -> Faults:
    budget.spend(len(value))
    least, most = node.schema.get("minContains", 1), node.schema.get("maxContains", len(value))
    count = len([*islice(_fitting(rule, value, node, budget), int(most) + 1)])
    if count > most:
        text = "Too many items match the given schema (expected at most {rule})"
        yield Fault(text, value, most, "maxContains")
    elif not count and least:
        yield Fault("{value} does not contain items matching the given schema", value, rule)
    elif count < least:
        text = "Too few items match the given schema (expected at least {rule} but only "
        yield Fault(f"{text}{count} matched)", value, least, "minContains")


@_applies("properties", dict)
def _properties(rule: Any, value: Any, node: Node, budget: WorkBudget) -> Applied:
    return ((node.part(rule[key]), key, (key,)) for key in rule if key in value)


# The most frequent keyword by far: its own check takes two thirds of the time.
@_keyword_check("properties", dict)
def _check_properties(rule: Any, value: Any, node: Node, budget: WorkBudget) -> Faults:
    for key in rule:
        if key in value:
            for fault in node.part(rule[key]).faults(value[key], budget):
                fault.place = (key, *fault.place)
                fault.schema_place = (key, *fault.schema_place)
                yield fault


@_applies("patternProperties", dict)
def _pattern_properties(rule: Any, value: Any, node: Node, budget: WorkBudget) -> Applied:
    budget.spend(len(value))
    for pattern, each in rule.items():
        keys = (key for key in value if budget.matches(pattern, key))
        yield from ((node.part(each), key, (pattern,)) for key in keys)


def _list_extras(extras: list[Any]) -> str:
    return f"{', '.join(map(as_json, extras))} {'was' if len(extras) == 1 else 'were'}"


def _extra_properties(extras: list[Any], value: Any, node: Node) -> Fault:
    if patterns := node.schema.get("patternProperties"):
        does = "does" if len(extras) == 1 else "do"
        regexes = ", ".join(map(as_json, sorted(patterns)))
        words = f"{', '.join(map(as_json, sorted(extras)))} {does} not match any of the regexes"
        return Fault("{words}", value, f"{words}: {regexes}")
    text = "Additional properties are not allowed ({words} unexpected)"
    return Fault(text, value, _list_extras(sorted(extras)))


@_applies("additionalProperties", dict, closed=_extra_properties)
def _additional_properties(rule: Any, value: Any, node: Node, budget: WorkBudget) -> Applied:
    budget.spend(len(value))
    known, patterns = (node.schema.get(each, {}) for each in ("properties", "patternProperties"))
    for key in value:
        if key not in known and not any(budget.matches(each, key) for each in patterns):
            yield node.part(rule), key, ()


@_keyword_check("propertyNames", dict)
def _property_names(rule: Any, value: Any, node: Node, budget: WorkBudget) -> Faults:
    budget.spend(len(value))
    for key in value:
        yield from node.part(rule).faults(key, budget)


@_keyword_check("required", dict)
def _required(rule: Any, value: Any, node: Node, budget: WorkBudget) -> Faults:
    for name in rule:
        if name not in value:
            yield Fault("{rule} is a required property", value, name)


@_keyword_check("dependentRequired", dict)
def _dependent_required(rule: Any, value: Any, node: Node, budget: WorkBudget) -> Faults:
    for key in (key for key in rule if key in value):
        for name in rule[key]:
            if name not in value:
                yield Fault("{words}", value, f"{as_json(name)} is a dependency of {as_json(key)}")


def _condition(rule: Any, value: Any, node: Node, budget: WorkBudget) -> Applied:
    yield node.part(rule), None, ()
    yield from _if(rule, value, node, budget)


def _fitting(rule: Any, value: Any, node: Node, budget: WorkBudget) -> Applied:
    part = node.part(rule)
    return ((part, step, ()) for step in _steps(value) if part.fits(value[step], budget))


VOCABULARY.applications.update(
    dict.fromkeys(
        REFERENCES, lambda rule, value, node, budget: iter([(node.target(rule), None, ())])
    )
    | {"anyOf": _all_of, "oneOf": _all_of, "if": _condition}
    | dict.fromkeys(("contains", "unevaluatedItems", "unevaluatedProperties"), _fitting)
)


@_keyword_check("unevaluatedProperties", dict)
@_keyword_check("unevaluatedItems", list)
def _unevaluated(rule: Any, value: Any, node: Node, budget: WorkBudget) -> Faults:
    budget.spend(len(value))
    evaluated = set(node.evaluated(value, budget))
    extras = [step for step in _steps(value) if step not in evaluated]
    if extras and isinstance(value, list):
        items = _list_extras([value[n] for n in extras])
        yield Fault("Unevaluated items are not allowed ({words} unexpected)", value, items)
    elif extras and rule is False:
        text = "Unevaluated properties are not allowed ({words} unexpected)"
        yield Fault(text, value, _list_extras(sorted(extras)))
    elif extras:
        why = "under the given schema ({words} unevaluated and invalid)"
        yield Fault(f"Unevaluated properties are not valid {why}", value, _list_extras(extras))


def _steps(value: Any) -> Any:
    return value if isinstance(value, dict) else range(len(value))
