"""The keywords `unevaluatedProperties` and `unevaluatedItems`.

jsonschema's own compare each key with each other one, and search with Python's `re`.
"""

from collections.abc import Iterator
from typing import Any

from jsonschema.exceptions import ValidationError

from holdfast.validation.work_budget import pattern_matches, spend

_REFERENCES = ("$ref", "$dynamicRef")
_IN_PLACE = ("allOf", "oneOf", "anyOf")

Applied = Iterator[tuple[Any, dict[str, Any]]]


def unevaluated_properties(
    validator: Any, rule: Any, instance: Any, schema: Any
) -> Iterator[ValidationError]:
    """Yield the errors of the keyword `unevaluatedProperties`."""
    if not isinstance(instance, dict):
        return
    known = {
        key
        for one, applied in _applied(validator, instance, schema)
        for key in _keys(one, instance, applied)
    }
    wrong = [
        key
        for key, value in instance.items()
        if key not in known
        for _ in validator.descend(value, rule, path=key, schema_path=key)
    ]
    if wrong and rule is False:
        said = f"not allowed ({_extras(sorted(wrong))} unexpected)"
        yield ValidationError(f"Unevaluated properties are {said}")
    elif wrong:
        said = f"under the given schema ({_extras(wrong)} unevaluated and invalid)"
        yield ValidationError(f"Unevaluated properties are not valid {said}")


def unevaluated_items(
    validator: Any, rule: Any, instance: Any, schema: Any
) -> Iterator[ValidationError]:
    """Yield the errors of the keyword `unevaluatedItems`."""
    if not isinstance(instance, list):
        return
    known = {
        index
        for one, applied in _applied(validator, instance, schema)
        for index in _indexes(one, instance, applied)
    }
    extra = [item for index, item in enumerate(instance) if index not in known]
    if extra:
        yield ValidationError(f"Unevaluated items are not allowed ({_extras(extra)} unexpected)")


def _applied(validator: Any, instance: Any, schema: Any) -> Applied:
    """Yield the schema, and each schema that it applies to the same value, if the value fits it."""
    if not isinstance(schema, dict):
        return
    spend(1)
    yield validator, schema
    for keyword in _REFERENCES:
        if keyword in schema:
            resolved = validator._resolver.lookup(schema[keyword])
            inner = validator.evolve(schema=resolved.contents, _resolver=resolved.resolver)
            yield from _applied(inner, instance, resolved.contents)
    for keyword in _IN_PLACE:
        for each in schema.get(keyword, []):
            if _fits(validator, instance, each):
                yield from _applied(validator, instance, each)
    yield from _conditional(validator, instance, schema)


def _conditional(validator: Any, instance: Any, schema: dict[str, Any]) -> Applied:
    if "if" in schema:
        holds = _fits(validator, instance, schema["if"])
        for keyword in ("if", "then") if holds else ("else",):
            yield from _applied(validator, instance, schema.get(keyword))
    for key, each in schema.get("dependentSchemas", {}).items():
        if isinstance(instance, dict) and key in instance:
            yield from _applied(validator, instance, each)


def _keys(validator: Any, instance: dict[str, Any], schema: dict[str, Any]) -> Iterator[str]:
    """Yield the properties that the schema itself evaluates."""
    spend(1 + len(instance))
    properties = schema.get("properties", {})
    patterns = schema.get("patternProperties", {})
    yield from (key for key in instance if key in properties)
    yield from (key for key in instance if any(pattern_matches(each, key) for each in patterns))
    for keyword in ("additionalProperties", "unevaluatedProperties"):
        if keyword in schema:
            others = schema[keyword]
            yield from (key for key, value in instance.items() if _fits(validator, value, others))


def _indexes(validator: Any, instance: list[Any], schema: dict[str, Any]) -> Iterator[int]:
    """Yield the items that the schema itself evaluates."""
    spend(1 + len(instance))
    if "items" in schema:
        yield from range(len(instance))
        return
    yield from range(len(schema.get("prefixItems", [])))
    for keyword in ("contains", "unevaluatedItems"):
        if keyword in schema:
            for index, item in enumerate(instance):
                if _fits(validator, item, schema[keyword]):
                    yield index


def _fits(validator: Any, instance: Any, schema: Any) -> bool:
    return next(validator.descend(instance, schema), None) is None


def _extras(extras: list[Any]) -> str:
    return f"{', '.join(repr(each) for each in extras)} {'was' if len(extras) == 1 else 'were'}"
