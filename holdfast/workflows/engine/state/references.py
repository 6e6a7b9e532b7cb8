"""Resolving references: every `†…` in a call's arguments is replaced by the value that it names.

A value that replaced a reference is not searched again: a tool's result cannot contain references.
The total size of the values of one call's references is limited, since a few characters can name a
large value.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from holdfast.schemas.base import json_size, readable_json
from holdfast.schemas.names import CHOOSE_SKILL
from holdfast.schemas.phrases import MAX_NAMES_TOLD, first_names, quote_value, suggest_names
from holdfast.schemas.reference import (
    HOW_TO_REFER,
    ITEM,
    MARK,
    Path,
    Reference,
    malformed_references,
    parse_reference,
    replace_inside,
)
from holdfast.schemas.tool import EACH, MAX_ITEMS, ResolvedTool, Schema
from holdfast.validation.arguments import InvalidArguments
from holdfast.validation.schema_node import ValidationLimits
from holdfast.validation.validator import errors
from holdfast.workflows.engine.state.data import MISSING, Data, VisibleData

INSTANCE = "_instance"
_WHOSE = "Whose data this call is about: what its references read and where its result is written."
_EACH = (
    f"A reference to a list of at most {MAX_ITEMS} items, such as {MARK}state.order.lines: the call"
    f" runs for each item, and its result is the list of their results. {MARK}{ITEM} in the other"
    f" arguments is the item, {MARK}{ITEM}.id a field of it. Null: the call runs once."
)

MAX_RESOLVED_BYTES = 1_000_000


class Unresolved(Exception):
    """A reference names a place that does not exist, or the values are too large for a call."""


class NoSuchInstance(ValueError):
    """A run has no instance of this name."""


def check_references(value: Any) -> None:
    """Raise `Unresolved` if a text in the value begins as a reference and is none."""
    for place, text in malformed_references(value):
        where = f"{place}: " if place else ""
        raise Unresolved(f"{where}{quote_value(text)} is no reference; {HOW_TO_REFER}")


def resolve(value: Any, data: VisibleData, instance: str | None = None) -> Any:
    """Return the value with its references replaced, or raise `Unresolved`."""
    check_references(value)
    return _Reading(data, instance).of(value)


def missing_reason(paths: Sequence[Path], data: VisibleData) -> str:
    """Return why a reference to these places has no value, which is at none of them."""
    places = " or ".join(map(str, paths))
    reasons = "".join(dict.fromkeys(map(data.why, paths)))
    if any(path.kind == ITEM and data.read(replace(path, steps=())) is MISSING for path in paths):
        reasons += f" ({MARK}{ITEM} is an item of the list that a call names in `{EACH}`)"
    return f"there is no value at {places}{reasons}"


@dataclass
class _Reading:
    """One pass over a call's arguments."""

    data: VisibleData
    instance: str | None
    room_bytes: int = MAX_RESOLVED_BYTES

    def of(self, value: Any) -> Any:
        match value:
            case str() if MARK in value:
                if (reference := parse_reference(value)) is not None:
                    return self._fitting(self._named(reference))
                return replace_inside(value, lambda path: as_text(self._fitting(self._at(path))))
            case list():
                return [self.of(item) for item in value]
            case dict():
                return {key: self.of(item) for key, item in value.items()}
            case _:
                return value

    def _named(self, reference: Reference) -> Any:
        if reference.choose == "all":
            return [self._at(path) for path in reference.paths][-1]
        paths = [path.within(self.instance) for path in reference.paths]
        for path in paths:
            if (found := self.data.read(path)) is not MISSING:
                return found
        raise Unresolved(missing_reason(paths, self.data))

    def _at(self, path: Path) -> Any:
        path = path.within(self.instance)
        found = self.data.read(path)
        if found is MISSING:
            raise Unresolved(missing_reason([path], self.data))
        return found

    def _fitting(self, value: Any) -> Any:
        self.room_bytes -= json_size(value)
        if self.room_bytes < 0:
            limit = f"{MAX_RESOLVED_BYTES} bytes"
            raise Unresolved(f"the values of the references exceed {limit} in all")
        return value


def instance_of(said: Any, tool: ResolvedTool, data: Data) -> str | None:
    """Return the instance of a call with `said` as its `_instance` (None: it has none).

    A tool's own `_instance` overrides the call's. In a run without instances it is ignored, so that
    one tool serves runs of both kinds; but a call that names one gets an error, since the model
    would otherwise assume that its data is separate.

    Raises:
        InvalidArguments: The call lacks a required instance, or names an unknown one.
    """
    names = data.instances
    name = said if tool.instance is None else tool.instance
    if tool.name == CHOOSE_SKILL or (tool.instance is not None and not names):
        return None
    if name is None:
        if names:
            listed = f"[{first_names(names, MAX_NAMES_TOLD)}]"
            raise InvalidArguments(f"{INSTANCE}: this run has instances; name one of {listed}")
        return None
    try:
        check_instance(name, data)
    except NoSuchInstance as error:
        raise InvalidArguments(f"{INSTANCE}: {error}") from None
    return name


def check_instance(name: Any, data: Data) -> None:
    """Raise `NoSuchInstance` unless a run has an instance of this name."""
    names = data.instances
    if not names:
        raise NoSuchInstance("this run has no instances; name none")
    if name not in names:
        fix = suggest_names(str(name), names)
        raise NoSuchInstance(f"this run has no instance {quote_value(name)}; {fix}")


def instance_property(
    tool: ResolvedTool, instances: Sequence[str], limits: ValidationLimits | None = None
) -> dict[str, Schema]:
    """Return the property in which the model names a call's instance, if it has to."""
    if not instances or tool.instance is not None or tool.name == CHOOSE_SKILL:
        return {}
    limits, schema = limits or ValidationLimits(), tool.chosen.get(INSTANCE, True)
    open_to_it = [name for name in instances if not errors(name, schema, limits.budget())]
    names = open_to_it or list(instances)
    return {INSTANCE: {"type": "string", "enum": names, "description": _WHOSE}}


def each_property(tool: ResolvedTool) -> dict[str, Schema]:
    """Return the property in which the model names the list of a loop, if the tool runs for one."""
    return {EACH: {"type": ["string", "null"], "description": _EACH}} if tool.each else {}


def as_text(value: Any) -> str:
    """Return a value in the form that a model reads."""
    return value if isinstance(value, str) else readable_json(value)
