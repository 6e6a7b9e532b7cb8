"""Python values as the files of a catalog have them: schemas, durations, models, names."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal, TypeVar, get_args

from pydantic import BaseModel, JsonValue, PydanticUserError, TypeAdapter, ValidationError

from holdfast.schemas.base import format_duration
from holdfast.schemas.json_schema import UntitledSchema
from holdfast.schemas.phrases import suggest_names
from holdfast.validation.problems import problems_of

T = TypeVar("T")


def mentions(kind: object, what: type) -> bool:
    """Return whether an annotation is this type, or has it in a union, a list and so on."""
    return kind is what or any(mentions(each, what) for each in get_args(kind))


def type_schema(
    kind: Any, what: str, mode: Literal["validation", "serialization"] = "validation"
) -> Any:
    """Return the JSON Schema of a type, or the schema that is given in its place.

    Raises:
        TypeError: JSON lacks some of the type's values; the error names `what`.
    """
    if isinstance(kind, Mapping | bool):
        return kind
    try:
        return TypeAdapter(kind).json_schema(mode=mode, schema_generator=UntitledSchema)
    except PydanticUserError as error:
        reason = f"{what} has no JSON Schema: {str(error).splitlines()[0]}"
        raise TypeError(f"{reason}; use types that JSON has") from error


def arguments_schema(kind: type[Any], what: str) -> dict[str, Any]:
    """Return the JSON Schema of a tool's arguments from their model or dataclass.

    Raises:
        TypeError: as `type_schema` does.
    """
    schema: dict[str, Any] = type_schema(kind, what)
    # A model that contains itself is a reference to one of its own `$defs`.
    reference = schema.pop("$ref", None)
    if reference is not None:
        schema = {**schema["$defs"][reference.removeprefix("#/$defs/")], **schema}
    for inner in schema.get("$defs", {}).values():
        for key in [key for key in inner if key.startswith("_")]:
            del inner[key]  # a nested model is not a tool, even if it is one elsewhere
    if getattr(kind, "model_config", {}).get("title") is None:
        schema.pop("title", None)
    return schema


def read_as(kind: type[T], value: JsonValue) -> T:
    """Return a value of JSON as a value of a type.

    Raises:
        pydantic.ValidationError: it does not fit.
    """
    return TypeAdapter(kind).validate_json(json.dumps(value))


def as_written(value: Any) -> Any:
    """Return a value as a file has it."""
    match value:
        case timedelta():
            return format_duration(value)
        case BaseModel():
            return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
        case Mapping():
            return {str(name): as_written(each) for name, each in value.items()}
        case str():
            return value
        case Sequence():
            return [as_written(each) for each in value]
    return value


def check_form(model: type[BaseModel], form: Mapping[str, Any], what: str) -> None:
    """Check a definition by itself; the catalog checks what it refers to.

    Raises:
        ValueError: a field does not fit; the error names it and its fix.
    """
    try:
        model.model_validate(form, by_alias=True, by_name=False, strict=True)
    except ValidationError as error:
        raise ValueError(f"{what}: {problems_of(error, form, model)[0]}") from None


def check_names(given: Iterable[str], known: Iterable[str], what: str) -> None:
    """Check the names of keyword arguments.

    Raises:
        TypeError: one is unknown.
    """
    for name in {*given} - {*known}:
        raise TypeError(f"{what}: unknown argument `{name}`; {suggest_names(name, known)}")
