"""Turn the arguments that a model wrote into those that a tool receives.

Steps, each of which can reject: parse the text leniently, coerce the values toward the schema, fill
in defaults, validate. Coercion changes a value only if its meaning is unambiguous, and never
replaces a null. A key that equals a declared one but for its case is an error. The original text is
stored elsewhere, unchanged.

A default is filled in for a property that is left out, is not required, and is in `properties`, at
any depth: in a default, in items, and behind `$ref`, `allOf` and the first branch of `anyOf` or
`oneOf` that fits. One that does not fit its own schema is left out.
"""

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from holdfast.schemas.base import MAX_JSON_DEPTH
from holdfast.schemas.json_schema import target_of
from holdfast.schemas.reference import MARK
from holdfast.schemas.tool import Schema
from holdfast.validation import lenient_json, schema_node
from holdfast.validation.keyword_checks import TYPES
from holdfast.validation.validator import errors, fits

# The items, types or characters of a reference that count as one step.
_LOOKED_AT = 8
# Parsing a text of this length as JSON takes ten microseconds.
_READ = 1_000
# The keywords that apply to single properties: others may depend on values not known yet.
_LOCAL = (
    *("type", "required", "properties", "additionalProperties"),
    *("$schema", "$id", "$defs", "definitions"),
)
_OTHER_SCHEMAS = frozenset(("$ref", "allOf", "anyOf", "oneOf"))
# Parts of a call that models write as if they were arguments.
_WRAPPERS = ("arguments", "args", "parameters", "params", "input", "kwargs", "function")
# The separators of the items of a list that is written as one text.
_SEPARATOR = re.compile("[,;，；、]")
_NUMBER = re.compile(r"-?[0-9]{1,300}(\.[0-9]{1,300})?([eE][+-]?[0-9]{1,3})?\Z")


class InvalidArguments(Exception):
    """Arguments that cannot be run; `problems` are the reasons, field by field."""

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = list(problems)


def read_arguments(written: dict[str, Any] | str) -> dict[str, Any]:
    """Return the object of arguments in the text of a call; an empty text is an empty object.

    Raises:
        InvalidArguments: the text is not an object.
    """
    if isinstance(written, str) and not written.strip():
        return {}
    try:
        value = (
            lenient_json.read_json(written)
            if isinstance(written, str)
            else lenient_json.ensure_json(written)
        )
    except ValueError as error:
        why = f"the arguments are no JSON: {error}"
        if (
            isinstance(error, json.JSONDecodeError)
            and error.msg == "Extra data"
            and error.doc[error.pos :].lstrip(" \t\r\n,;")[:1] == "{"
        ):
            why = "there are several objects; write one object for each call"
        raise InvalidArguments(why) from None
    if not isinstance(value, dict):
        raise InvalidArguments("the arguments are no JSON object")
    return value


def unwrapped(arguments: dict[str, Any], schema: Schema, tool: str) -> dict[str, Any]:
    """Return the arguments of a tool from a call that is written inside of them.

    That is `{"arguments": {…}}`, and may name the tool, where neither is a parameter.

    Raises:
        InvalidArguments: it is such a call, and not certainly one of the tool.
    """
    named = schema.get("properties")
    others = schema.get("additionalProperties")
    if not isinstance(named, dict) or others not in (None, False) or "patternProperties" in schema:
        return arguments
    own = {key: item for key, item in arguments.items() if key[:1] == "_"}
    call = {key: item for key, item in arguments.items() if key not in own and item != tool}
    if call.keys() & named:
        return arguments
    for wrapper, inner in call.items():
        inner = _parsed(inner, "{") if isinstance(inner, str) else inner
        is_known = isinstance(inner, dict) and all(key in named or key[:1] == "_" for key in inner)
        if is_known and len(call) == 1:
            return {**own, **inner}
        if wrapper in (*_WRAPPERS, tool):
            raise InvalidArguments(f"`{wrapper}` is no parameter; write the parameters themselves")
    return arguments


def fit(
    value: Any,
    schema: Schema | bool,
    budget: schema_node.WorkBudget | None = None,
    *,
    fill: bool = False,
) -> Any:
    """Return the value, coerced toward the schema and valid; with its defaults, to `fill` them in.

    Raises:
        InvalidArguments: the value does not fit; the message names each field.
    """
    budget = budget or schema_node.WorkBudget()
    try:
        coerced = lenient_json.plain_numbers(coerce(value, schema, budget, fill=fill))
    except lenient_json.InexactNumber as error:
        raise InvalidArguments(str(error)) from None
    problems = errors(coerced, schema, budget)
    if problems:
        raise InvalidArguments(*problems)
    return coerced


def without_unknown(schema: Schema, unknown: Collection[str]) -> Schema:
    """Return what a schema of an object requires besides the properties with unknown values."""
    if not unknown:
        return schema
    local = {key: schema[key] for key in _LOCAL if key in schema}
    if "patternProperties" in schema:
        local.pop("additionalProperties", None)
    named = local.get("properties", {})
    is_open = local.get("additionalProperties", True) is not False
    any_value = {name: True for name in unknown if is_open or name in named}
    return {**local, "properties": {**named, **any_value}}


def coerce(
    value: Any,
    schema: Schema | bool,
    budget: schema_node.WorkBudget | None = None,
    *,
    fill: bool = False,
    is_resolved: bool = True,
) -> Any:
    """Return the value, coerced toward the schema if the intended value is unambiguous.

    To `fill`, it has its defaults too. If its references are not resolved yet, no value is
    converted, no branch is chosen, and no default is filled in that would become a reference.

    Raises:
        InvalidArguments: the defaults take too much work, or a key of the arguments equals a
            declared one but for its case.
    """
    fills = fill and '"default"' in json.dumps(schema)
    if not (fills or is_resolved):
        return value
    budget = budget or schema_node.WorkBudget()
    coercion = _Coercion(schema, budget, fills, is_resolved, fill and is_resolved)
    try:
        value = coercion.apply(value, schema, 0)
    except schema_node.CannotCheck as error:
        if fills:
            raise InvalidArguments(str(error)) from None
    if coercion.misspelt:
        raise InvalidArguments(*coercion.misspelt)
    return value


def filled_in(written: Any, arguments: Any, place: str = "") -> Iterator[str]:
    """Yield the place of each argument that is not in what the model has written."""
    match written, arguments:
        case dict(), dict():
            for name, value in arguments.items():
                inner = f"{place}.{name}" if place else str(name)
                yield from filled_in(written[name], value, inner) if name in written else [inner]
        case list(), list() if len(written) == len(arguments):
            for index, pair in enumerate(zip(written, arguments, strict=True)):
                yield from filled_in(*pair, f"{place}.{index}")


@dataclass(frozen=True)
class _Coercion:
    """One pass over a value and its schema; `root` is the schema that `$ref` points into."""

    root: Schema | bool
    budget: schema_node.WorkBudget
    fills: bool
    is_resolved: bool
    finds_misspelt: bool
    misspelt: list[str] = field(default_factory=list)

    def apply(self, value: Any, schema: Any, depth: int) -> Any:
        if not isinstance(schema, dict) or depth > MAX_JSON_DEPTH or value is None:
            return value
        types = schema.get("type")
        wanted = [types] if isinstance(types, str) else types if isinstance(types, list) else []
        self.budget.spend(schema_node.SLOW_STEPS + len(wanted) * schema_node.APPLICATION_STEPS)
        if not _OTHER_SCHEMAS.isdisjoint(schema):
            value = self._by_other_schemas(value, schema, depth + 1)
        if self.is_resolved and wanted and not _is(value, *wanted):
            # The first type that it can be converted to.
            converted = ((name, _converted(value, name, self.budget)) for name in wanted)
            value = next((each for name, each in converted if _is(each, name)), value)
        if not isinstance(value, dict | list):
            return value
        self._look_at(len(value))
        if isinstance(value, list):
            prefix, rest = _list_of(schema, "prefixItems"), schema.get("items", True)
            schemas = [*prefix[: len(value)], *[rest] * (len(value) - len(prefix))]
            pairs = zip(value, schemas, strict=True)
            return [self.apply(item, inner, depth + 1) for item, inner in pairs]
        return self._object(value, schema, depth)

    def _by_other_schemas(self, value: Any, schema: Schema, depth: int) -> Any:
        """Return the value as the schemas that apply to it beside this one coerce it."""
        if isinstance(reference := schema.get("$ref"), str):
            value = self.apply(value, self._target(reference), depth)
        for part in _list_of(schema, "allOf"):
            value = self.apply(value, part, depth)
        for name in ("anyOf", "oneOf"):
            if branches := _list_of(schema, name):
                value = self._branch(value, branches, depth)
        return value

    def _object(self, value: dict[str, Any], schema: Schema, depth: int) -> dict[str, Any]:
        properties = schema.get("properties")
        known = properties if isinstance(properties, dict) else {}
        # Validation decides which pattern a key matches.
        has_patterns = "patternProperties" in schema
        other = True if has_patterns else schema.get("additionalProperties", True)
        if self.finds_misspelt and not (has_patterns or isinstance(other, dict)):
            self._look_at(len(known))
            names = {key.casefold(): key for key in known}
            for key in value:
                if key not in known and (name := names.get(key.casefold())) is not None:
                    self.misspelt.append(f"`{key}` is no parameter, but `{name}` is: write it so")
        value = {
            key: self.apply(item, known.get(key, other), depth + 1) for key, item in value.items()
        }
        if not self.fills:
            return value
        required = _list_of(schema, "required")
        for key, inner in known.items():
            self.budget.spend(1)
            self._look_at(len(required))
            if key not in value and key not in required:
                for default in self._default(inner):
                    value[key] = self.apply(default, inner, depth + 1)
        return value

    def _default(self, schema: Any) -> list[Any]:
        """Return the default of a property, its own or that of its `$ref`; none if it misfits."""
        holder = schema
        while isinstance(holder, dict) and "default" not in holder and "$ref" in holder:
            self.budget.spend(1)
            holder = self._target(str(holder["$ref"]))
        if not isinstance(holder, dict) or "default" not in holder:
            return []
        default = holder["default"]
        is_text = self.is_resolved or MARK not in json.dumps(default, ensure_ascii=False)
        return [default] if is_text and fits(default, self.root, schema, self.budget) else []

    def _branch(self, value: Any, branches: list[Any], depth: int) -> Any:
        """Return the value as the first of several schemas coerces it to fit that schema.

        Where defaults are filled in, it has those of the first schema that it fits.
        """
        if not self.is_resolved:
            return value
        fitting = next(
            (each for each in branches if fits(value, self.root, each, self.budget)), None
        )
        if fitting is not None:
            is_changed = self.fills or self.finds_misspelt
            return self.apply(value, fitting, depth) if is_changed else value
        for branch in branches:
            before = len(self.misspelt)
            coerced = self.apply(value, branch, depth)
            if fits(coerced, self.root, branch, self.budget):
                return coerced
            del self.misspelt[before:]
        return value

    def _look_at(self, count: int) -> None:
        self.budget.spend(count // _LOOKED_AT + count * schema_node.APPLICATION_STEPS)

    def _target(self, reference: str) -> Any:
        """Return the schema that a local `$ref` points to; other references coerce nothing."""
        self._look_at(len(reference))
        return target_of(reference, self.root)


def _list_of(schema: Schema, key: str) -> list[Any]:
    found = schema.get(key)
    return found if isinstance(found, list) else []


def _is(value: Any, *names: Any) -> bool:
    types = [TYPES.get(name, ()) for name in names if isinstance(name, str)]
    return schema_node.is_of_types(value, tuple(chain.from_iterable(types)))


def _converted(value: Any, name: Any, budget: schema_node.WorkBudget) -> Any:
    match name, value:
        case "integer", lenient_json.Number():
            return _number(value.digits, name)
        case "integer", float() if value.is_integer():
            return int(value)
        case (("number" | "integer"), str()) if _NUMBER.match(text := value.strip()):
            return _number(text, name)
        case "boolean", "true" | "false":
            return value == "true"
        case "boolean", 0 | 1:
            return value == 1
        case "string", int() | float():
            return value.digits if isinstance(value, lenient_json.Number) else json.dumps(value)
        case "object", str():
            return _parsed(value, "{", budget)
        case "array", str():
            return _list(value, budget)
        case "array", bool() | int() | float():
            return [value]
        case _:
            return value


def _number(text: str, name: str) -> int | float | str:
    number = float(text) if any(mark in text for mark in ".eE") else int(text)
    try:
        lenient_json.exact_number(text)
    except lenient_json.InexactNumber:
        return text
    if isinstance(number, float) and name == "integer" and number.is_integer():
        return int(number)
    return number


def _list(text: str, budget: schema_node.WorkBudget) -> Any:
    """Return the list that a text is, or the list of it if it is certainly one item."""
    parsed, written = _parsed(text, "[", budget), text.strip()
    if isinstance(parsed, list):
        return parsed
    if written in ("", "null") or "\n" in text or "\r" in text:
        return text
    is_object = written[0] == "{" and not isinstance(_parsed(text, "{", budget), str)
    is_doubtful = written[0] in "[({" or _SEPARATOR.search(text)
    return [text] if is_object or not is_doubtful else text


def _parsed(text: str, opening: str, budget: schema_node.WorkBudget | None = None) -> Any:
    if not text.lstrip().startswith(opening):
        return text
    if budget is not None:
        budget.work(len(text), _READ)
    try:
        return lenient_json.read_json(text)
    except ValueError:
        return text
