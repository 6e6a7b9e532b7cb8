"""What each provider takes of JSON Schema where it forces an answer into a schema, by its own docs.

Written from the docs alone and not from our code, one function a provider: each gives what the
provider would refuse or pass over in silence; nothing is good.
"""

from collections.abc import Iterator
from typing import Any

Schema = dict[str, Any]
# Of a schema: itself and all within it, each with its place and how many objects and lists hold it.
Parts = list[tuple[str, Schema, int]]

_WORDS = {
    *("type", "title", "description", "properties", "required", "additionalProperties"),
    *("items", "anyOf", "enum", "const", "minItems", "maxItems"),
}
_TYPES = {"string", "number", "integer", "boolean", "object", "array", "null"}


def openai(schema: Schema) -> list[str]:
    """OpenAI, "Structured model outputs", "Supported schemas" (platform docs, guides): strict mode.

    Types are String, Number, Boolean, Integer, Object, Array, Enum and anyOf; the root is an object
    and no anyOf; all fields are required; `additionalProperties: false` is set in every object; at
    most 5,000 properties, 10 levels, 120,000 characters of names, enum and const values, 1,000 enum
    values, and 15,000 characters in an enum of more than 250 texts. `allOf`, `not`, `if` and their
    kind are not supported; bounds and patterns are not by fine-tuned models, so none is taken here.
    """
    parts = _parts(schema)
    wrong = [*_beyond(parts, _WORDS), *_open(parts), *_mixed(parts)]
    wrong += [f"{at}: a property is not required" for at, part, _ in parts if _optional(part)]
    wrong += [] if schema.get("type") == "object" and "anyOf" not in schema else ["its root"]
    wrong += [f"{at}: {level} levels" for at, _, level in parts if level > 10]
    names = [name for _, part, _ in parts for name in part.get("properties", ())]
    values = [str(each) for _, part, _ in parts for each in _values(part)]
    characters = sum(map(len, [*names, *values]))
    wrong += [f"{len(names)} properties"] if len(names) > 5_000 else []
    wrong += [f"{characters} characters"] if characters > 120_000 else []
    enums = [part["enum"] for _, part, _ in parts if "enum" in part]
    wrong += ["enum values"] if sum(map(len, enums)) > 1_000 else []
    long = [enum for enum in enums if len(enum) > 250]
    return wrong + ["a long enum" for enum in long if sum(len(str(each)) for each in enum) > 15_000]


def anthropic(schema: Schema) -> list[str]:
    """Anthropic, "Structured outputs" (API docs, build with Claude): "JSON Schema limitations" and
    "Schema complexity limits".

    All basic types; `enum` (strings, numbers, bools or nulls only), `const`, `anyOf`, `required`,
    `additionalProperties` (must be false for all objects), `default`, string formats; `minItems`
    only 0 and 1. No recursion, no bounds of numbers and of lengths. At most 24 properties that are
    not in `required`, and 16 that use `anyOf` or a list of types.
    """
    parts = _parts(schema)
    wrong = [*_beyond(parts, _WORDS - {"maxItems"}), *_open(parts), *_mixed(parts)]
    wrong += [f"{at}: minItems" for at, part, _ in parts if part.get("minItems", 0) not in (0, 1)]
    wrong += [f"{at}: its enum" for at, part, _ in parts if not all(map(_is_plain, _values(part)))]
    unions = [at for at, part, _ in parts if "anyOf" in part or isinstance(part.get("type"), list)]
    optional = [name for _, part, _ in parts for name in _optional(part)]
    wrong += [f"{len(unions)} unions: {unions}"] if len(unions) > 16 else []
    return wrong + ([f"{len(optional)} optional: {optional}"] if len(optional) > 24 else [])


def gemini(schema: Schema) -> list[str]:
    """Google, Gemini API reference, `GenerationConfig.responseJsonSchema`.

    Only these are supported: `$id`, `$defs`, `$ref`, `$anchor`, `type`, `format`, `title`,
    `description`, `enum` (for strings and numbers), `items`, `prefixItems`, `minItems`, `maxItems`,
    `minimum`, `maximum`, `anyOf`, `oneOf`, `properties`, `additionalProperties`, `required`. And
    "Structured outputs": a property may be null by a list of its type and `null`.
    """
    parts = _parts(schema)
    words = (_WORDS - {"const"}) | {"format", "minimum", "maximum"}
    wrong = [*_beyond(parts, words), *_mixed(parts)]
    kinds = [(at, part["type"]) for at, part, _ in parts if isinstance(part.get("type"), list)]
    wrong += [f"{at}: {kind}" for at, kind in kinds if len(kind) != 2 or kind[1] != "null"]
    enums = [(at, each) for at, part, _ in parts for each in part.get("enum", ())]
    return wrong + [
        f"{at}: {each!r} in an enum" for at, each in enums if not _is_text_or_number(each)
    ]


def llama_cpp(schema: Schema) -> list[str]:
    """llama.cpp, `grammars/README.md`, "JSON Schemas → GBNF", and with it Ollama's `format`, which
    is turned into a grammar by the same code.

    What is not supported is skipped in silence: `uniqueItems`, `contains`, `$anchor`, `not`,
    conditionals, `patternProperties`; bounds of a `number`. `properties` cannot be mixed with
    `anyOf` in one type, `prefixItems` and nested `$ref`s are broken, a `pattern` must be anchored;
    `additionalProperties` is slow, and false by default.
    """
    parts = _parts(schema)
    return [*_beyond(parts, _WORDS), *_open(parts), *_mixed(parts)]


def _parts(schema: Any) -> Parts:
    return list(_within(schema, "", 0))


def _within(schema: Any, at: str, level: int) -> Iterator[tuple[str, Schema, int]]:
    assert isinstance(schema, dict), f"{at}: a schema that is no object"
    level += schema.get("type") in ("object", "array")
    yield at, schema, level
    for name, each in schema.get("properties", {}).items():
        yield from _within(each, f"{at}.{name}", level)
    for index, each in enumerate(schema.get("anyOf", ())):
        yield from _within(each, f"{at}|{index}", level)
    if "items" in schema:
        yield from _within(schema["items"], f"{at}[]", level)


def _beyond(parts: Parts, words: set[str]) -> list[str]:
    """Words that are not supported, and types that are none."""
    wrong = [f"{at}: {word}" for at, part, _ in parts for word in part if word not in words]
    for at, part, _ in parts:
        kinds = part.get("type", [])
        wrong += [f"{at}: {each}" for each in _listed(kinds) if each not in _TYPES]
        wrong += [f"{at}: no type"] if not {"type", "anyOf", "enum", "const"} & set(part) else []
    return wrong


def _open(parts: Parts) -> list[str]:
    objects = [(at, part) for at, part, _ in parts if "object" in _listed(part.get("type", []))]
    return [f"{at}: open" for at, part in objects if part.get("additionalProperties") is not False]


def _mixed(parts: Parts) -> list[str]:
    """A choice of branches that is beside what else the value must be, or lists of nothing."""
    beside = {"type", "properties", "items", "enum", "const", "required"}
    wrong = [f"{at}: mixed" for at, part, _ in parts if "anyOf" in part and beside & set(part)]
    lists = [(at, part) for at, part, _ in parts if "array" in _listed(part.get("type", []))]
    return wrong + [f"{at}: a list of anything" for at, part in lists if "items" not in part]


def _optional(part: Schema) -> list[str]:
    required = part.get("required", ())
    return [name for name in part.get("properties", ()) if name not in required]


def _values(part: Schema) -> list[Any]:
    return [*part.get("enum", ()), *([part["const"]] if "const" in part else [])]


def _listed(kinds: Any) -> list[Any]:
    return kinds if isinstance(kinds, list) else [kinds]


def _is_plain(value: Any) -> bool:
    return not isinstance(value, dict | list)


def _is_text_or_number(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)
