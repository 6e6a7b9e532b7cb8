"""The keywords of JSON Schema (draft 2020-12), each of which counts its work.

Most are jsonschema's own. Replaced are those whose time is out of proportion to the counted steps,
and those that iterate over a set, whose order differs between processes. The replacements report
the same errors in the same words.
"""

from collections.abc import Callable, Iterator
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker, validators
from jsonschema.exceptions import ValidationError

from holdfast.validation.work_budget import (
    MAX_NESTED_CHECKS,
    CannotCheck,
    current_budget,
    pattern_matches,
    spend,
)

# Quick to check, and the same everywhere.
FORMATS = ("date", "uuid", "ipv4", "ipv6")

Errors = Iterator[ValidationError]
Applied = Iterator[tuple[Any, dict[str, Any]]]
# For a valid value, jsonschema's own keywords yield nothing, and some of them return `None`.
Keyword = Callable[[Any, Any, Any, Any], Errors | None]

# Keywords that iterate over every item of a value, even if none has a schema to check.
_GOES_THROUGH = (
    *("items", "contains", "patternProperties", "additionalProperties", "propertyNames"),
    *("unevaluatedItems", "unevaluatedProperties"),
)
_REFERENCES = ("$ref", "$dynamicRef")
_IN_PLACE = ("allOf", "oneOf", "anyOf")
# The amount of work that counts as one step: parts of a schema, compared values, characters of a
# message that quotes a value.
_PARTS_A_CHECK = 4
_COMPARED_A_CHECK = 8
_CHARACTERS_A_CHECK = 100
# Finding an anchor requires a search of the whole schema.
_CRAWL_CHECKS = 5_000


# The replacements of jsonschema's own keywords.
_OWN: dict[str, Keyword] = {}


def _replaces(*names: str) -> Callable[[Keyword], Keyword]:
    def register(keyword: Keyword) -> Keyword:
        _OWN.update(dict.fromkeys(names, keyword))
        return keyword

    return register


@_replaces("$ref", "$dynamicRef")
def _reference(validator: Any, rule: Any, instance: Any, schema: Any) -> Errors:
    spend(len(rule) // _CHARACTERS_A_CHECK)
    resolver = validator._resolver
    if not rule.startswith("#/") or resolver._base_uri:
        # Finding all anchors of the schema takes long, so it is done once.
        known, registry = current_budget().crawled, resolver._registry
        if id(registry) not in known:
            spend(_CRAWL_CHECKS)
            crawled = registry.crawl()
            # Schemas derived from it are looked up again here.
            known[id(registry)] = known[id(crawled)] = (registry, crawled)
        resolver = resolver._evolve(resolver._base_uri, registry=known[id(registry)][1])
    resolved = resolver.lookup(rule)
    return validator.descend(instance, resolved.contents, resolver=resolved.resolver)  # type: ignore[no-any-return]


@_replaces("pattern")
def _pattern(validator: Any, rule: Any, instance: Any, schema: Any) -> Errors:
    if isinstance(instance, str) and not pattern_matches(rule, instance):
        yield ValidationError(f"{instance!r} does not match {rule!r}")


@_replaces("patternProperties")
def _pattern_properties(validator: Any, rule: Any, instance: Any, schema: Any) -> Errors:
    if not isinstance(instance, dict):
        return
    for each, inner in rule.items():
        for key, value in instance.items():
            if pattern_matches(each, key):
                yield from validator.descend(value, inner, path=key, schema_path=each)


@_replaces("additionalProperties")
def _additional_properties(validator: Any, rule: Any, instance: Any, schema: Any) -> Errors:
    if not isinstance(instance, dict):
        return
    known = schema.get("properties", {})
    patterns = schema.get("patternProperties", {})
    others = [key for key in instance if key not in known]
    extras = [key for key in others if not any(pattern_matches(each, key) for each in patterns)]
    if isinstance(rule, dict):
        for key in extras:
            yield from validator.descend(instance[key], rule, path=key)
    elif not rule and extras:
        named = ", ".join(repr(key) for key in sorted(extras))
        if patterns:
            does = "does" if len(extras) == 1 else "do"
            regexes = ", ".join(repr(each) for each in sorted(patterns))
            yield ValidationError(f"{named} {does} not match any of the regexes: {regexes}")
        else:
            were = "was" if len(extras) == 1 else "were"
            reason = f"({named} {were} unexpected)"
            yield ValidationError(f"Additional properties are not allowed {reason}")


@_replaces("uniqueItems")
def _unique_items(validator: Any, rule: Any, instance: Any, schema: Any) -> Errors:
    """Check `uniqueItems` in one pass: jsonschema's own compares each item with each other one."""
    if (
        rule
        and isinstance(instance, list)
        and len({_key(item) for item in instance}) < len(instance)
    ):
        yield ValidationError("an item stands in it twice")  # durable text


@_replaces("enum")
def _enum(validator: Any, rule: Any, instance: Any, schema: Any) -> Errors:
    if not any(_equal(each, instance) for each in rule):
        yield ValidationError(f"{instance!r} is not one of {rule!r}")


@_replaces("const")
def _const(validator: Any, rule: Any, instance: Any, schema: Any) -> Errors:
    if not _equal(rule, instance):
        yield ValidationError(f"{rule!r} was expected")


@_replaces("unevaluatedProperties")
def _unevaluated_properties(validator: Any, rule: Any, instance: Any, schema: Any) -> Errors:
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
        reason = f"not allowed ({_extras(sorted(wrong))} unexpected)"
        yield ValidationError(f"Unevaluated properties are {reason}")
    elif wrong:
        reason = f"under the given schema ({_extras(wrong)} unevaluated and invalid)"
        yield ValidationError(f"Unevaluated properties are not valid {reason}")


@_replaces("unevaluatedItems")
def _unevaluated_items(validator: Any, rule: Any, instance: Any, schema: Any) -> Errors:
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
    for reference in (schema[each] for each in _REFERENCES if each in schema):
        resolved = validator._resolver.lookup(reference)
        inner = validator.evolve(schema=resolved.contents, _resolver=resolved.resolver)
        yield from _applied(inner, instance, resolved.contents)
    for each in (each for keyword in _IN_PLACE for each in schema.get(keyword, [])):
        if _fits(validator, instance, each):
            yield from _applied(validator, instance, each)
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


def _key(value: Any) -> Any:
    """Return a key that is equal for equal JSON values: 1 is 1.0, and is not true.

    Numbers become text: numbers with the same hash would be compared each with each.
    """
    match value:
        case bool():
            return (bool, value)
        case int():
            return (int, str(value))
        case float():
            return (int, str(int(value))) if value.is_integer() else (float, repr(value))
        case dict():
            spend(1 + len(value) // _COMPARED_A_CHECK)
            return (dict, frozenset((key, _key(item)) for key, item in value.items()))
        case list():
            spend(1 + len(value) // _COMPARED_A_CHECK)
            return (list, tuple(_key(item) for item in value))
        case _:
            return value


def _equal(one: Any, two: Any) -> bool:
    """Return whether two JSON values are the same: 1 is 1.0, and is not true."""
    match one, two:
        case (dict(), dict()) | (list(), list()):
            spend(1 + len(one) // _COMPARED_A_CHECK)
            if isinstance(one, dict):
                return one.keys() == two.keys() and all(_equal(one[key], two[key]) for key in one)
            return len(one) == len(two) and all(map(_equal, one, two))
        case (bool(), _) | (_, bool()):
            return one is two
        case _:
            return bool(one == two)


def _counted(name: str, keyword: Keyword) -> Keyword:
    """Return the keyword, counting its applications, the items that it reads, and its errors."""
    through = name in _GOES_THROUGH

    def check(validator: Any, rule: Any, instance: Any, schema: Any) -> Errors:
        parts = len(rule) // _PARTS_A_CHECK if isinstance(rule, dict | list) else 0
        items = len(instance) if through and isinstance(instance, dict | list) else 0
        spend(1 + parts + items)
        current = current_budget()
        current.nested += 1
        if current.nested > MAX_NESTED_CHECKS:
            raise CannotCheck("too deep to be checked")
        try:
            for error in keyword(validator, rule, instance, schema) or ():
                # An error is passed up from a nested schema, or created here with a quote of a
                # possibly long text.
                spend(1 if error.schema_path else 1 + len(error.message) // _CHARACTERS_A_CHECK)
                yield error
        finally:
            current.nested -= 1

    return check


def _evolved(self: Any, **changes: Any) -> Any:
    """Return a method that makes the validator of another schema, always of this class.

    jsonschema's own method chooses the class by the `$schema` of that schema.
    """
    changes.setdefault("_resolver", self._resolver)
    known = {"registry": self._registry, "format_checker": self.format_checker}
    return BoundedValidator(**{"schema": self.schema, **known, **changes})


def _is_valid(self: Any, instance: Any) -> bool:
    if isinstance(self.schema, bool):
        spend(1)
        return self.schema
    return next(self.iter_errors(instance), None) is None


def _descend(self: Any, instance: Any, schema: Any, *places: Any, **more: Any) -> Errors:
    below: Errors = _PLAIN_DESCEND(self, instance, schema, *places, **more)
    if schema is not False:
        return below
    # No keyword is applied that could count the length of this message.
    [error] = below
    spend(1 + len(error.message) // _CHARACTERS_A_CHECK)
    return iter((error,))


_KEYWORDS: dict[str, Keyword] = {**Draft202012Validator.VALIDATORS, **_OWN}
FORMAT_CHECKER = FormatChecker(formats=FORMATS)
BoundedValidator: Any = validators.extend(  # type: ignore[no-untyped-call]  # its types leave it out
    Draft202012Validator, {name: _counted(name, rule) for name, rule in _KEYWORDS.items()}
)
_PLAIN_DESCEND = BoundedValidator.descend
BoundedValidator.evolve = _evolved
BoundedValidator.descend = _descend
BoundedValidator.is_valid = _is_valid
