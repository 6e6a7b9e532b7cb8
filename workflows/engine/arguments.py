"""Arguments: from what a model wrote to what a tool is given.

Three steps, each able to refuse: read the text leniently, coerce the values toward the schema,
validate. Coercion only ever does what leaves no doubt of what was meant; a null is never turned
into a value. What was written is kept elsewhere, as it was.
"""

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from referencing import Registry
from referencing.exceptions import Unresolvable

from schemas.tool import Schema

MAX_DEPTH = 64
MAX_ERRORS = 20
MAX_MESSAGE_CHARACTERS = 300

_FENCE = re.compile(r"\A\s*```[A-Za-z0-9_-]*\s*\n(.*?)\n?\s*```\s*\Z", re.DOTALL)
# A string (also one that never ends, or the search would start anew at each of its quotes), or a
# comma with nothing behind it.
_STRING_OR_COMMA = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\Z)|,(?=\s*+[}\]])', re.DOTALL)
_HALF = re.compile(r"\\u[dD][89a-fA-F]")
_NUMBER = re.compile(r"-?[0-9]{1,300}(\.[0-9]{1,300})?([eE][+-]?[0-9]{1,3})?\Z")


class InvalidArguments(Exception):
    """What was written cannot be carried out; the message says why, field by field."""


def read_json(text: str) -> Any:
    """Read JSON as models write it: inside a code fence, with trailing commas.

    Raises:
        ValueError: it is no JSON all the same; or it is nested deeper than `MAX_DEPTH`.
    """
    fenced = _FENCE.match(text)
    text = fenced.group(1) if fenced else text
    value = _loads(text)
    if _depth_exceeds(value, MAX_DEPTH):
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels")
    return value


def read_arguments(written: dict[str, Any] | str) -> dict[str, Any]:
    """The object of arguments that a call was written with; no text at all is an empty one.

    Raises:
        InvalidArguments: it is none.
    """
    if isinstance(written, str) and not written.strip():
        return {}
    try:
        value = read_json(written) if isinstance(written, str) else written
    except ValueError as error:
        raise InvalidArguments(f"the arguments are no JSON: {error}") from None
    if not isinstance(value, dict):
        raise InvalidArguments("the arguments are no JSON object")
    if _depth_exceeds(value, MAX_DEPTH):
        raise InvalidArguments(f"the arguments are nested deeper than {MAX_DEPTH} levels")
    return value


def fit(value: Any, schema: Schema | bool) -> Any:
    """The value, coerced toward the schema and valid.

    Raises:
        InvalidArguments: it does not fit; the message names each field.
    """
    coerced = coerce(value, schema)
    problems = list(errors(coerced, schema))
    if problems:
        raise InvalidArguments("; ".join(problems))
    return coerced


def errors(value: Any, schema: Schema | bool) -> Iterator[str]:
    """What is wrong with the value, one line a field, at most `MAX_ERRORS` of them."""
    found = _validator(schema).iter_errors(value)
    try:
        for count, error in enumerate(found):
            if count == MAX_ERRORS:
                yield "and more"
                return
            yield _line(error)
    except (Unresolvable, RecursionError, re.error) as error:
        yield f"the schema cannot be applied: {str(error)[:MAX_MESSAGE_CHARACTERS]}"


def fits(value: Any, schema: Schema | bool) -> bool:
    """Whether the value is valid as it is."""
    return next(errors(value, schema), None) is None


def coerce(value: Any, schema: Schema | bool) -> Any:
    """The value, brought nearer to the schema where what was meant is beyond doubt."""
    return _Coercion(schema).apply(value, schema, 0)


def _validator(schema: Schema | bool) -> Draft202012Validator:
    # An empty registry: a validator of its own accord would fetch remote references over HTTP.
    return Draft202012Validator(schema, registry=Registry())


def _line(error: ValidationError) -> str:
    place = ".".join(str(step) for step in error.absolute_path)
    if error.validator == "required":
        wanted: Any = error.validator_value
        given: Any = error.instance
        missing = [name for name in wanted if name not in given]
        message = f"required, but missing: {', '.join(missing)}"
    else:
        message = _shortened(error.message)
    return f"{place}: {message}" if place else message


def _shortened(message: str) -> str:
    if len(message) <= MAX_MESSAGE_CHARACTERS:
        return message
    half = MAX_MESSAGE_CHARACTERS // 2
    return f"{message[:half]} … {message[-half:]}"


def _loads(text: str) -> Any:
    try:
        return _strict(text)
    except ValueError as first:
        mended = _STRING_OR_COMMA.sub(lambda m: m.group(0) if m.group(0) != "," else "", text)
        try:
            return _strict(mended)
        except ValueError:
            raise first from None


def _strict(text: str) -> Any:
    try:
        value = json.loads(text, parse_constant=_finite, parse_float=_finite)
    except RecursionError:
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels") from None
    return _without_halves(value) if _HALF.search(text) else value


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no JSON number")
    return number


def _without_halves(value: Any) -> Any:
    """The value without halves of surrogate pairs, which JSON can hold and UTF-8 cannot."""
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case list():
            return [_without_halves(item) for item in value]
        case dict():
            return {_without_halves(key): _without_halves(item) for key, item in value.items()}
        case _:
            return value


def _depth_exceeds(value: Any, levels: int) -> bool:
    if levels < 0:
        return True
    match value:
        case dict():
            return any(_depth_exceeds(item, levels - 1) for item in value.values())
        case list():
            return any(_depth_exceeds(item, levels - 1) for item in value)
        case _:
            return False


class _Coercion:
    """One pass over a value and its schema; `root` is the schema that `$ref` points into."""

    def __init__(self, root: Schema | bool) -> None:
        self._root = root

    def apply(self, value: Any, schema: Any, depth: int) -> Any:
        if not isinstance(schema, dict) or depth > MAX_DEPTH or value is None:
            return value
        if isinstance(reference := schema.get("$ref"), str):
            value = self.apply(value, self._target(reference), depth + 1)
        for part in _list_of(schema, "allOf"):
            value = self.apply(value, part, depth + 1)
        for name in ("anyOf", "oneOf"):
            value = self._branch(value, _list_of(schema, name), depth + 1)
        value = _to_type(value, schema.get("type"))
        return self._inside(value, schema, depth + 1)

    def _branch(self, value: Any, branches: list[Any], depth: int) -> Any:
        """Of several schemas, what the first makes of the value that it then fits."""
        for branch in branches:
            if fits(value, self._rooted(branch)):
                return value
        for branch in branches:
            coerced = self.apply(value, branch, depth)
            if fits(coerced, self._rooted(branch)):
                return coerced
        return value

    def _inside(self, value: Any, schema: Schema, depth: int) -> Any:
        match value:
            case dict():
                return {
                    key: self.apply(item, _of_key(schema, key), depth)
                    for key, item in value.items()
                }
            case list():
                return [
                    self.apply(item, _of_index(schema, i), depth) for i, item in enumerate(value)
                ]
            case _:
                return value

    def _target(self, reference: str) -> Any:
        """The schema that a local `$ref` points to; anything else coerces nothing."""
        if not reference.startswith("#/"):
            return self._root if reference == "#" else True
        found: Any = self._root
        for step in reference[2:].split("/"):
            key = step.replace("~1", "/").replace("~0", "~")
            found = found.get(key, True) if isinstance(found, dict) else True
        return found

    def _rooted(self, schema: Any) -> Any:
        """A part of the schema, with the definitions that it may refer to."""
        if not isinstance(schema, dict) or not isinstance(self._root, dict):
            return schema
        definitions = {
            key: self._root[key] for key in ("$defs", "definitions") if key in self._root
        }
        return {**definitions, **schema}


def _list_of(schema: Schema, key: str) -> list[Any]:
    found = schema.get(key)
    return found if isinstance(found, list) else []


def _of_key(schema: Schema, key: str) -> Any:
    properties = schema.get("properties")
    if isinstance(properties, dict) and key in properties:
        return properties[key]
    return schema.get("additionalProperties", True)


def _of_index(schema: Schema, index: int) -> Any:
    prefix = _list_of(schema, "prefixItems")
    return prefix[index] if index < len(prefix) else schema.get("items", True)


def _to_type(value: Any, types: Any) -> Any:
    """The value as the first of the types that it is, or else can be turned into."""
    wanted = [types] if isinstance(types, str) else types if isinstance(types, list) else []
    if not wanted or any(_is(value, name) for name in wanted):
        return value
    for name in wanted:
        turned = _turned(value, name)
        if _is(turned, name):
            return turned
    return value


def _is(value: Any, name: Any) -> bool:
    match name:
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "object":
            return isinstance(value, dict)
        case "array":
            return isinstance(value, list)
        case "null":
            return value is None
        case _:
            return False


def _turned(value: Any, name: Any) -> Any:
    match name, value:
        case "integer", float() if value.is_integer():
            return int(value)
        case (("number" | "integer"), str()) if _NUMBER.match(value.strip()):
            return _number(value.strip(), name)
        case "boolean", "true" | "false":
            return value == "true"
        case "boolean", 0 | 1:
            return value == 1
        case "string", bool():
            return "true" if value else "false"
        case "string", int() | float():
            return json.dumps(value)
        case (("object" | "array"), str()) if _looks_like(value, name):
            return _parsed(value)
        case "array", str() | bool() | int() | float():
            return [value]
        case _:
            return value


def _number(text: str, name: str) -> Any:
    number = float(text) if any(mark in text for mark in ".eE") else int(text)
    if isinstance(number, float) and name == "integer" and number.is_integer():
        return int(number)
    return number if math.isfinite(number) else text


def _looks_like(text: str, name: str) -> bool:
    return text.lstrip().startswith("{" if name == "object" else "[")


def _parsed(text: str) -> Any:
    try:
        return read_json(text)
    except ValueError:
        return text
