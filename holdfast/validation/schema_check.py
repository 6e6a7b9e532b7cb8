"""Check that a JSON Schema of an author can be used, without risk and for as long as a run lasts.

A run stores its schemas until it ends and validates with them inside the workflow. So a schema is
checked in full before a run accepts it: it is draft 2020-12, refers to nothing outside itself and
to nothing that is missing, its validation ends, and its size is bounded.
"""

from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from typing import Any

from holdfast.schemas.base import json_size
from holdfast.schemas.json_schema import DEFINITION, DRAFT, JSON_SCHEMA, KEYWORDS
from holdfast.schemas.phrases import quote_value, suggest_names
from holdfast.validation.problems import ValueProblem, Where
from holdfast.validation.regex import PatternRefused, pattern, steps_of
from holdfast.validation.schema_drafts import MAX_COPIES, TooManyCopies, draft_of, to_current_draft
from holdfast.validation.schema_keywords import keyword_faults, value_fault
from holdfast.validation.schema_node import REFERENCES, ValidationLimits, find_target
from holdfast.validation.validator import faults

MAX_SCHEMA_BYTES = 256_000
MAX_SCHEMA_DEPTH = 64
# Objects and lists, each of which takes a tenth of a millisecond to check.
MAX_SCHEMA_PARTS = 10_000
# Of all patterns together: half a second to compile them.
MAX_PATTERNS_STEPS = 1_000_000
# The most problems of one schema, and the most names that a misspelt one is compared with.
MAX_FAULTS = 20
MAX_MEANT = 200

# Keywords whose values are no schemas, and those whose values are schemas by name.
_DATA = ("const", "enum", "default", "examples", "required")
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
# Keywords that apply a schema to the same value again: a cycle of these never ends.
_IN_PLACE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else")

# Keywords that a translation would ignore, each beside another.
_IGNORED = (
    ("additionalItems", "prefixItems", "write `items`, the schema of the items after them"),
    ("dependencies", "dependentRequired", "write them as `dependentRequired`, too"),
    ("dependencies", "dependentSchemas", "write them as `dependentSchemas`, too"),
    ("$dynamicRef", "$ref", "write one of them within `allOf`"),
    ("$recursiveRef", "$ref", "write one of them within `allOf`"),
)

# The target of a local reference, or None if it does not exist.
Target = Callable[[str], Any]

# As for editors; which texts fit the first two, has messages of its own.
_TEXT = {"type": "string"}
_CHECKED = {**KEYWORDS, "$schema": _TEXT, "$ref": _TEXT, "nullable": {"type": "boolean"}}
_META: dict[str, Any] = {
    "$ref": f"#/$defs/{JSON_SCHEMA}",
    "$defs": {JSON_SCHEMA: {**DEFINITION, "properties": _CHECKED}},
}


def schema_problems(schema: Any, limits: ValidationLimits | None = None) -> list[ValueProblem]:
    """Return the problems that prevent the use of the schema; none of None, which is unset."""
    if isinstance(schema, bool | None):
        return []
    too_large = _size_problem(schema)
    if too_large is not None:
        return [too_large]
    if unread := list(islice(_draft_problems(schema), MAX_FAULTS)):
        return unread
    try:
        schema = to_current_draft(schema)
    except TooManyCopies:
        fix = "write fewer schemas with a `$dynamicAnchor`"
        return [ValueProblem((), f"it has more than {MAX_COPIES} dynamic scopes", fix)]
    problems = list(islice(keyword_faults(schema), MAX_FAULTS))
    limits = limits or ValidationLimits()
    found = faults(schema, _META, MAX_FAULTS, limits.budget())
    malformed = [value_fault(each, limits.budget()) for each in found]
    malformed += islice(_pattern_problems(schema), MAX_FAULTS)
    if malformed:
        return [*problems, *malformed]
    target = cache(lambda reference: find_target(reference, schema))
    wrong = list(islice(_reference_problems(schema, target), MAX_FAULTS))
    problems += wrong or _endless_problems(schema, target)
    return problems


def _draft_problems(schema: dict[str, Any]) -> Iterator[ValueProblem]:
    """Yield what is of no known draft, or would be ignored by the one that it is in."""
    has_anchor = False
    for where, each in _subschemas(schema):
        written = each.get("$schema", DRAFT)
        if draft_of(written) is None:
            fix = f"leave it out, or write {DRAFT}; drafts 06, 07 and 2019-09 are read, too"
            yield ValueProblem((*where, "$schema"), f"`{str(written)[:200]}` is not read", fix)
        for key, beside, fix in _IGNORED:
            if key in each and beside in each:
                yield ValueProblem((*where, key), f"it would be ignored beside `{beside}`", fix)
        if each.get("$recursiveAnchor"):
            if has_anchor:
                fix = "refer to one of them by `$ref`"
                reason = "there is another `$recursiveAnchor`"
                yield ValueProblem((*where, "$recursiveAnchor"), reason, fix)
            has_anchor = True


def _pattern_problems(schema: dict[str, Any]) -> Iterator[ValueProblem]:
    for where, text in _patterns(schema):
        try:
            pattern(text)
        except PatternRefused as refused:
            reason = f"{quote_value(text)} is no regular expression to check with"
            yield ValueProblem(where, f"{reason}: {refused.reason}", refused.fix)


def _patterns(schema: dict[str, Any]) -> Iterator[tuple[Where, str]]:
    for where, each in _subschemas(schema):
        if isinstance(text := each.get("pattern"), str):
            yield (*where, "pattern"), text
        named = each.get("patternProperties")
        for text in named if isinstance(named, dict) else ():
            yield (*where, "patternProperties"), text


def _size_problem(schema: Any) -> ValueProblem | None:
    rest: list[tuple[Where, Any]] = [((), schema)]
    parts = 0
    while rest:
        where, each = rest.pop()
        parts += 1
        if len(where) > MAX_SCHEMA_DEPTH:
            fix = f"at most {MAX_SCHEMA_DEPTH} levels"
            return ValueProblem(where, "the schema is nested too deep", fix)
        if parts > MAX_SCHEMA_PARTS:
            return ValueProblem((), "the schema has too many parts", f"at most {MAX_SCHEMA_PARTS}")
        items = each.items() if isinstance(each, dict) else enumerate(each)
        rest.extend(
            ((*where, key), inner) for key, inner in items if isinstance(inner, dict | list)
        )
    size_bytes = json_size(schema)
    if size_bytes > MAX_SCHEMA_BYTES:
        reason = f"the schema has {size_bytes} bytes"
        return ValueProblem((), reason, f"at most {MAX_SCHEMA_BYTES}")
    if sum(steps_of(text) for _, text in _patterns(schema)) > MAX_PATTERNS_STEPS:
        reason = "the schema's patterns together take too much work to search for"
        fix = "use smaller counts, or `minLength` and `maxLength`"
        return ValueProblem((), reason, fix)
    return None


def _reference_problems(schema: dict[str, Any], target: Target) -> Iterator[ValueProblem]:
    known = [f"#/$defs/{name}" for name in islice(schema.get("$defs", {}), MAX_MEANT)]
    references = (
        ((*where, keyword), each[keyword])
        for where, each in _subschemas(schema)
        for keyword in REFERENCES
        if isinstance(each.get(keyword), str)
    )
    for where, reference in references:
        shown = f"`{reference[:200]}`"
        if not reference.startswith("#"):
            fix = "nothing is fetched: copy what it names under `$defs`, and refer to `#/$defs/…`"
            yield ValueProblem(where, f"{shown} is outside of this schema", fix)
        elif target(reference) is None:
            fix = suggest_names(reference, known, "write it under this schema's own `$defs`")
            yield ValueProblem(where, f"{shown} is nowhere in this schema", fix)


def _subschemas(schema: Any, where: Where = ()) -> Iterator[tuple[Where, dict[str, Any]]]:
    if not isinstance(schema, dict):
        return
    yield where, schema
    for key, value in schema.items():
        inside: Any = ()
        if key in _DATA:
            continue
        if isinstance(value, list):
            inside = enumerate(value)
        elif key in _NAMED and isinstance(value, dict):
            inside = value.items()
        else:
            yield from _subschemas(value, (*where, key))
        for step, inner in inside:
            yield from _subschemas(inner, (*where, key, step))


def _endless_problems(schema: dict[str, Any], target: Target) -> list[ValueProblem]:
    """Return the first schema of a cycle or a long chain, all applied to one and the same value."""
    depths: dict[int, int] = {}

    def depth(schema: Any, above: int) -> int:
        """Return the length of the chain that begins here, with `above` schemas before it."""
        if not isinstance(schema, dict) or above > MAX_SCHEMA_DEPTH:
            return above
        if id(schema) not in depths:
            # Until the depth is known, a path back to the schema is a cycle.
            depths[id(schema)] = MAX_SCHEMA_DEPTH + 1
            references = (schema.get(keyword) for keyword in REFERENCES)
            below = [target(each) for each in references if isinstance(each, str)]
            for keyword in _IN_PLACE:
                value = schema.get(keyword)
                below += value if isinstance(value, list) else [value]
            dependent = schema.get("dependentSchemas")
            below += dependent.values() if isinstance(dependent, dict) else ()
            deepest = max((depth(each, above + 1) for each in below), default=above)
            depths[id(schema)] = deepest - above + 1
        return depths[id(schema)] + above - 1

    for where, each in _subschemas(schema):
        if depth(each, 1) > MAX_SCHEMA_DEPTH:
            reason = "checking with this schema would never end, or too late"
            fix = "let it go through `properties` or `items`, so that it gets to the end of a value"
            return [ValueProblem(where, reason, fix)]
    return []
