"""The keywords of JSON Schema (draft 2020-12), each of which counts its work.

Most are jsonschema's own. Replaced are those whose time is out of proportion to the counted steps,
and those that iterate over a set, whose order differs between processes. The replacements report
the same errors in the same words.
"""

from collections.abc import Callable, Iterator
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker, validators
from jsonschema.exceptions import ValidationError

from holdfast.validation.unevaluated import unevaluated_items, unevaluated_properties
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
# For a valid value, jsonschema's own keywords yield nothing, and some of them return `None`.
Keyword = Callable[[Any, Any, Any, Any], Errors | None]

# Keywords that iterate over every item of a value, even if none has a schema to check.
_GOES_THROUGH = (
    *("items", "contains", "patternProperties", "additionalProperties", "propertyNames"),
    *("unevaluatedItems", "unevaluatedProperties"),
)
# The amount of work that counts as one step: parts of a schema, compared values, characters of a
# message that quotes a value.
_PARTS_A_CHECK = 4
_COMPARED_A_CHECK = 8
_CHARACTERS_A_CHECK = 100
# Finding an anchor requires a search of the whole schema.
_CRAWL_CHECKS = 5_000


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


def _reference(validator: Any, rule: Any, instance: Any, schema: Any) -> Errors:
    spend(len(rule) // _CHARACTERS_A_CHECK)
    resolver = validator._resolver
    if not rule.startswith("#/") or resolver._base_uri:
        resolver = resolver._evolve(resolver._base_uri, registry=_crawled(resolver._registry))
    resolved = resolver.lookup(rule)
    return validator.descend(instance, resolved.contents, resolver=resolved.resolver)  # type: ignore[no-any-return]


def _crawled(registry: Any) -> Any:
    """Return the schema with all its anchors found: that takes long, so it is done once."""
    known = current_budget().crawled
    if id(registry) not in known:
        spend(_CRAWL_CHECKS)
        crawled = registry.crawl()
        # Schemas derived from it are looked up again below.
        known[id(registry)] = known[id(crawled)] = (registry, crawled)
    return known[id(registry)][1]


def _pattern(validator: Any, rule: Any, instance: Any, schema: Any) -> Errors:
    if isinstance(instance, str) and not pattern_matches(rule, instance):
        yield ValidationError(f"{instance!r} does not match {rule!r}")


def _pattern_properties(validator: Any, rule: Any, instance: Any, schema: Any) -> Errors:
    if not isinstance(instance, dict):
        return
    for each, inner in rule.items():
        for key, value in instance.items():
            if pattern_matches(each, key):
                yield from validator.descend(value, inner, path=key, schema_path=each)


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
            said = f"({named} {were} unexpected)"
            yield ValidationError(f"Additional properties are not allowed {said}")


def _unique_items(validator: Any, rule: Any, instance: Any, schema: Any) -> Errors:
    """Check `uniqueItems` in one pass: jsonschema's own compares each item with each other one."""
    if (
        rule
        and isinstance(instance, list)
        and len({_key(item) for item in instance}) < len(instance)
    ):
        yield ValidationError("an item stands in it twice")


def _enum(validator: Any, rule: Any, instance: Any, schema: Any) -> Errors:
    if not any(_equal(each, instance) for each in rule):
        yield ValidationError(f"{instance!r} is not one of {rule!r}")


def _const(validator: Any, rule: Any, instance: Any, schema: Any) -> Errors:
    if not _equal(rule, instance):
        yield ValidationError(f"{rule!r} was expected")


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


_OWN: dict[str, Keyword] = {
    "$ref": _reference,
    "$dynamicRef": _reference,
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "uniqueItems": _unique_items,
    "enum": _enum,
    "const": _const,
    "unevaluatedItems": unevaluated_items,
    "unevaluatedProperties": unevaluated_properties,
}
_KEYWORDS: dict[str, Keyword] = {**Draft202012Validator.VALIDATORS, **_OWN}
FORMAT_CHECKER = FormatChecker(formats=FORMATS)
BoundedValidator: Any = validators.extend(  # type: ignore[no-untyped-call]  # its types leave it out
    Draft202012Validator, {name: _counted(name, rule) for name, rule in _KEYWORDS.items()}
)
_PLAIN_DESCEND = BoundedValidator.descend
BoundedValidator.evolve = _evolved
BoundedValidator.descend = _descend
BoundedValidator.is_valid = _is_valid
