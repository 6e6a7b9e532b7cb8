"""Find misspelt keywords and keywords with an invalid value in the JSON Schemas of authors.

Draft 2020-12 allows unknown keywords. But one that is nearly a known keyword is a mistake without
a symptom: `requierd` requires nothing. Such a keyword is rejected; all others are ignored.
"""

from collections.abc import Iterator, Mapping
from itertools import filterfalse, islice
from typing import Any

from holdfast.schemas.base import parsed_or_none
from holdfast.schemas.json_schema import EXTENSIONS, KEYWORDS, ONE_SCHEMA, SEVERAL_SCHEMAS, TYPES
from holdfast.schemas.phrases import closest_names, did_you_mean, misfit_reason, quote_value
from holdfast.schemas.tool import META_PROPERTIES, OTHERS_PARAMETERS
from holdfast.validation.problems import ValueProblem, Where
from holdfast.validation.schema_node import Fault, WorkBudget
from holdfast.validation.validator import fits

_NEARLY = 0.85
# Comparing a word with all keywords takes long: only this many unknown words of a schema are.
MAX_WORDS_COMPARED = 1_000
MAX_NAMES_COMPARED = 200
# Too short to be distinguished from other words: `note` is no misspelling of `not`.
_CANDIDATES = sorted(KEYWORDS.keys() - {"not", "if", "then", "else"})
_AT_TOP = {
    **{name: name for name in _CANDIDATES},
    **{name.removeprefix("_"): name for name in META_PROPERTIES},
}
_OTHER_TYPES = {
    "str": "string",
    "text": "string",
    "int": "integer",
    "float": "number",
    "double": "number",
    "decimal": "number",
    "bool": "boolean",
    "list": "array",
    "dict": "object",
    "map": "object",
    "none": "null",
}
_WANTED = {
    "array": "a list",
    "object": "an object",
    "string": "a text",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "`true` or `false`",
}


def keyword_faults(schema: Any) -> Iterator[ValueProblem]:
    """Yield problems for misspelt keywords, and for misspelt required properties."""
    words = 0
    for where, each in subschemas(schema):
        for key in filterfalse(_is_known, each):
            words += 1
            close = closest_names(key, _CANDIDATES, _NEARLY) if words <= MAX_WORDS_COMPARED else []
            if close:
                yield _unknown((*where, key), close)
        properties, required = each.get("properties"), each.get("required")
        if not isinstance(properties, dict) or not isinstance(required, list):
            continue
        for n, name in enumerate(required[:MAX_NAMES_COMPARED]):
            is_missing = isinstance(name, str) and name not in properties
            beside = islice(properties, MAX_NAMES_COMPARED) if is_missing else ()
            if fix := did_you_mean(str(name), beside, _NEARLY):
                reason = f"{quote_value(name)} is required, and there is no such property"
                yield ValueProblem((*where, "required", n), reason, fix)


def tool_keyword_problems(written: Mapping[str, Any]) -> Iterator[ValueProblem]:
    """Yield keys at the top of a tool without effect: `sideEffects` for `_sideEffects`."""
    for key in written:
        close = [] if _is_known(key) else closest_names(key, _AT_TOP, _NEARLY)
        if key == "name":
            yield ValueProblem((key,), "unknown keyword `name`", "a tool's name is its `_tool`")
        elif key in OTHERS_PARAMETERS:
            fix = "the parameters are the tool's `properties`; a schema of them is `_parameters`"
            yield ValueProblem((key,), f"unknown keyword `{key}`", fix)
        elif close:
            yield _unknown((key,), [_AT_TOP[each] for each in close])


def value_fault(fault: Fault, budget: WorkBudget) -> ValueProblem:
    """Return an error of a keyword's value in plain words."""
    where, value, wants = fault.place, fault.value, fault.rule
    if where[-1:] == ("type",) and fault.keyword == "anyOf":
        return _type_problem(where, value)
    match fault.keyword:
        case "type":
            kinds = [wants] if isinstance(wants, str) else wants
            fix = "write " + " or ".join(_WANTED.get(each, each) for each in kinds)
            meant = parsed_or_none(value.casefold()) if isinstance(value, str) else None
            if meant is not None and fits(meant, {"type": kinds}, budget=budget):
                fix = f"write {value.casefold()} without quotes"
                return ValueProblem(where, misfit_reason(value), fix)
            if where[-1:] == ("required",):
                fix = "write the list of the required properties' names beside `properties`"
            elif where[-1:] == ("items",):
                fix = "write one schema; a list of schemas is `prefixItems`"
            elif kinds == ["object", "boolean"]:
                fix = "write a schema"
            return ValueProblem(where, misfit_reason(value), fix)
        case "uniqueItems":
            return ValueProblem(where, "it holds an item twice", "keep one of them")
        case "minItems":
            return ValueProblem(where, "the list is empty", "write a schema in it, or leave it out")
        case "minimum" | "exclusiveMinimum":
            least = "more than 0" if fault.keyword == "exclusiveMinimum" else "0 or more"
            return ValueProblem(where, misfit_reason(value), f"write {least}")
        case _:
            reason = f"this is no valid JSON Schema: {fault.message[:300]}"
            return ValueProblem(where, reason, "write it as draft 2020-12 has it")


def _unknown(where: Where, close: list[str]) -> ValueProblem:
    meant = " or ".join(f"`{name}`" for name in close)
    fix = f"did you mean {meant}? One of your own begins with `x-`"
    return ValueProblem(where, f"unknown keyword {quote_value(where[-1])}", fix)


def _is_known(key: str) -> bool:
    return key in KEYWORDS or key in EXTENSIONS or key.startswith(("x-", "_"))


def subschemas(schema: Any, where: Where = ()) -> Iterator[tuple[Where, dict[str, Any]]]:
    """Yield the schema and its subschemas, where the draft has schemas: `examples` holds none."""
    if not isinstance(schema, dict):
        return
    yield where, schema
    for key in ONE_SCHEMA:
        yield from subschemas(schema.get(key), (*where, key))
    for key in SEVERAL_SCHEMAS:
        several = schema.get(key)
        if isinstance(several, list):
            several = dict(enumerate(several))
        for step, each in several.items() if isinstance(several, dict) else ():
            yield from subschemas(each, (*where, key, step))


def _type_problem(where: Where, value: Any) -> ValueProblem:
    if not isinstance(value, str):
        fix = "the types are " + ", ".join(TYPES)
        fix = 'the type of nothing is written in quotes: "null"' if value is None else fix
        return ValueProblem(where, misfit_reason(value), fix)
    reason = f"{quote_value(value)} is no type"
    if other := _OTHER_TYPES.get(value.casefold()):
        return ValueProblem(where, reason, f"write `{other}`")
    fix = did_you_mean(value, TYPES) or "the types are " + ", ".join(TYPES)
    return ValueProblem(where, reason, fix)
