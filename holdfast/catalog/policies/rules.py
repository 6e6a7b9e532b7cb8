"""The rules of a tool's approval: their descriptions, and mistakes in the list.

The description of a rule has all of its conditions in words, as in `amount is over €1,000.00`, or
there is none: a part of them would look complete.

A schema fits more than its author means: `properties` fit a call without them, and a bound of
numbers fits every text. A rule that lets calls run unasked must therefore require what it names.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

from holdfast.runtime.narration.arguments import format_value, readable_name
from holdfast.runtime.narration.schema_shapes import Rules, Shape, ShapeReader
from holdfast.runtime.text_safety import format_argument, one_line
from holdfast.schemas.base import MAX_JSON_DEPTH
from holdfast.schemas.phrases import suggest_names
from holdfast.schemas.tool import ApprovalRule, ResolvedTool, Schema
from holdfast.validation.problems import ValueProblem, Where, under

# The keywords that every value of another type fits, by the types that they apply to.
_OF_TYPES = {
    ("number", "integer"): ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    ("string",): ("minLength", "maxLength", "pattern"),
    ("array",): ("minItems", "maxItems", "items", "prefixItems"),
    ("object",): ("properties", "required"),
}
_CATCH_ALL: tuple[Schema | bool | None, ...] = (None, True, {})
MAX_CONDITION_CHARS: Final = 300
_PART_CHARS: Final = 80
_WORDS: Final = {
    "exclusiveMinimum": "over {}",
    "minimum": "at least {}",
    "exclusiveMaximum": "under {}",
    "maximum": "at most {}",
    "const": "{}",
    "enum": "{}",
}
_WORDLESS: Final = frozenset(("type", "title", "description", "$comment"))
_OF_OBJECTS: Final = _WORDLESS | {"properties", "required", "$schema"}


class _Unspeakable(ValueError):
    """A condition that has no words."""


def described_rule(rule: ApprovalRule, parameters: Rules) -> ApprovalRule:
    """Return a rule with its `when` in words, where it has no description and there are words."""
    if rule.description is not None:
        return rule
    is_catch_all = rule.when in _CATCH_ALL
    text = "any other call" if is_catch_all else condition_text(rule.when, parameters)
    return rule.model_copy(update={"description": text or None})


def condition_text(when: Any, schema: Any) -> str:
    """Return which arguments of this schema fit `when`; empty if not all of that has words."""
    try:
        text = ", ".join(_conditions(when, ShapeReader(schema)))
    except _Unspeakable:
        return ""
    return text if len(text) <= MAX_CONDITION_CHARS else ""


def _conditions(when: Any, reader: ShapeReader) -> Iterator[str]:
    parts = when.get("properties", {}) if isinstance(when, Mapping) else None
    if not isinstance(parts, Mapping) or not _OF_OBJECTS.issuperset(when):
        raise _Unspeakable
    whole = reader.read(reader.root)
    written = {name: part for name, part in parts.items() if isinstance(part, Mapping)}
    constants = {name: part["const"] for name, part in written.items() if "const" in part}
    for name in [*parts, *(each for each in when.get("required", []) if each not in parts)]:
        shape = reader.read(whole.property_schema(name))
        label = one_line(shape.title or readable_name(name), _PART_CHARS)
        if not label[1:2].isupper():
            label = f"{label[:1].lower()}{label[1:]}"
        part = parts.get(name, {})
        words = [*_values(part, shape, constants)]
        yield f"{label} is {' and '.join(words) or 'given'}"


def _values(part: Any, shape: Shape, constants: Mapping[str, Any]) -> Iterator[str]:
    if not isinstance(part, Mapping) or not _WORDLESS.issuperset(set(part) - set(_WORDS)):
        raise _Unspeakable
    for keyword, words in _WORDS.items():
        if keyword in part:
            shown = []
            for value in part[keyword] if keyword == "enum" else [part[keyword]]:
                text = format_value(value, shape, constants)
                is_number = isinstance(value, int | float) and not isinstance(value, bool)
                if is_number and text == format_argument(value):
                    text = f"{Decimal(repr(value)):,}"  # a bound is a quantity
                shown.append(one_line(text, _PART_CHARS))
            yield words.format(" or ".join(shown))


def rule_problems(rules: Sequence[ApprovalRule], parameters: Rules) -> Iterator[ValueProblem]:
    """Yield the rules that no call reaches, and conditions that do not mean what they seem to."""
    for n, rule in enumerate(rules):
        if n and rules[n - 1].when in _CATCH_ALL:
            reason = f"no call reaches this rule: rule {n} has no `when`, and fits every call"
            yield ValueProblem((n,), reason, "move that one to the end, or give it a `when`")
            return
        same = next((at for at in range(n) if rules[at].when == rule.when), None)
        if same is not None:
            reason = f"no call reaches this rule: rule {same + 1} has the same `when`"
            yield ValueProblem((n, "when"), reason, "remove one of them")
        yield from under(_condition_problems(rule, parameters), n, "when")
        if rule.require == "never":
            yield from under(_open_conditions(rule, parameters), n, "when")


def rule_advice(tool: ResolvedTool) -> Iterator[ValueProblem]:
    """Yield conditions that fit a call without the argument, and a list of one rule."""
    rules = tool.approval_rules
    for n, rule in enumerate(rules):
        yield from under(_open_conditions(rule, tool.parameters), n, "when")
    if len(rules) == 1 and rules[0].when not in _CATCH_ALL:
        reason = "a list of one rule: calls that it does not fit need an approval, by the defaults"
        fix = "to run them without one, write the rule as an object, or add a `require: never` rule"
        yield ValueProblem((0,), reason, fix)


def _condition_problems(rule: ApprovalRule, parameters: Rules) -> Iterator[ValueProblem]:
    """Yield the conditions on no parameter, and those that values of another type fit."""
    for where, name, condition, shapes in _conditions_in(rule, parameters):
        of = f"property of `{name}`" if name else "parameter of the tool"
        objects = _that_may_be("object", shapes)
        known = [*dict.fromkeys(key for one in objects for key in one.properties)]
        required = condition.rules.get("required", [])
        for key in dict.fromkeys(map(str, [*condition.properties, *required])):
            if key not in known and not any(one.takes_properties for one in objects):
                fix = suggest_names(key, known, "the tool has none")
                yield ValueProblem(where, f"`{key}` is no {of}", fix)
        for kinds, keywords in _OF_TYPES.items() if name else ():
            is_sure = all(
                one.kinds and {*one.kinds} <= {*kinds} and not one.nullable for one in shapes
            )
            used = [key for key in keywords if key in condition.rules]
            if used and not is_sure and "type" not in condition.rules:
                reason = f"what is no {kinds[0]} fits every `{used[0]}`, and `{name}` may be none"
                fix = f"write `type: {kinds[0]}` of the parameter, or beside `{used[0]}`"
                yield ValueProblem((*where, used[0]), reason, fix)


def _open_conditions(rule: ApprovalRule, parameters: Rules) -> Iterator[ValueProblem]:
    """Yield the conditions that a call fits which leaves the argument out."""
    reader = ShapeReader(parameters)
    for where, name, condition, shapes in _conditions_in(rule, parameters):
        for key in condition.properties:
            is_given = condition.requires(key) or all(
                one.requires(key) or "default" in reader.read(one.property_schema(key)).rules
                for one in _that_may_be("object", shapes)
            )
            if not is_given:
                reason = f"a call without `{f'{name}.{key}'.lstrip('.')}` fits, too"
                if rule.require == "never":
                    reason += ", and would run unasked"
                of = f"`{name}` in this `when`" if name else "this `when`"
                fix = f"add `required: [{key}]` to {of}, or to the tool"
                yield ValueProblem((*where, "properties", key), reason, fix)


def _conditions_in(
    rule: ApprovalRule, parameters: Rules
) -> Iterator[tuple[Where, str, Shape, list[Shape]]]:
    """Yield a `when` and the conditions inside it: its place, what it is on, and their shapes.

    What it is on has a shape for each of its branches. Both schemas may refer to themselves: a
    condition is on the same schema once, and on no arguments that are too deep.
    """
    conditions, values, seen = ShapeReader(rule.when), ShapeReader(parameters), set[Any]()
    found: list[tuple[Where, str, Any, list[Any]]] = [((), "", rule.when, [parameters])]
    for where, name, written, schemas in found:  # which grows, and so keeps each `id`
        pairs = {(id(written), id(schema)) for schema in schemas}
        if pairs <= seen or len(where) > 2 * MAX_JSON_DEPTH:
            continue
        seen |= pairs
        condition = conditions.read(written)
        shapes = [one for schema in schemas for one in _branches(values.read(schema))]
        yield where, name, condition, shapes
        objects, arrays = _that_may_be("object", shapes), _that_may_be("array", shapes)
        for key in condition.properties:
            of_key = [one for one in objects if key in one.properties or one.takes_properties]
            parts = condition.property_schema(key), [one.property_schema(key) for one in of_key]
            found.append(((*where, "properties", key), f"{name}.{key}".lstrip("."), *parts))
        for n, part in enumerate(condition.rules.get("prefixItems", [])):
            parts = part, [one.item_schema(n) for one in arrays]
            found.append(((*where, "prefixItems", n), f"{name}[{n}]", *parts))
        if "items" in condition.rules:
            parts = condition.rules["items"], [one.rules.get("items", True) for one in arrays]
            found.append(((*where, "items"), f"{name}[]", *parts))


def _branches(shape: Shape) -> list[Shape]:
    """Return the shapes of which a value has one; each knows whether the value may be null."""
    inner = [each for one in shape.branches for each in _branches(one)]
    return [replace(one, nullable=one.nullable or shape.nullable) for one in inner] or [shape]


def _that_may_be(kind: str, shapes: Sequence[Shape]) -> list[Shape]:
    return [one for one in shapes if not one.kinds or kind in one.kinds]
