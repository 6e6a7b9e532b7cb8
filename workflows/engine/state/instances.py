"""Instances: the owner of the data that a call reads and writes, in a run with several owners.

A run has instances as soon as a data message names one. A call names its instance, or its tool
fixes one; no call is for all of them, since it would show one instance's data to another.
"""

from collections.abc import Sequence
from typing import Any

from holdfast.schemas.names import CHOOSE_SKILL
from holdfast.schemas.phrases import MAX_NAMES_TOLD, first_names, quote_value, suggest_names
from holdfast.schemas.tool import Schema, Tool
from holdfast.validation.arguments import InvalidArguments
from holdfast.validation.validator import errors
from holdfast.workflows.engine.state.data import Data

INSTANCE = "_instance"

_WHOSE = "Whose data this call is about: what its references read and where its result is written."


class NoSuchInstance(ValueError):
    """A run has no instance of this name."""


def instance_of(said: Any, tool: Tool, data: Data) -> str | None:
    """Return the instance of a call with `said` as its `_instance` (None: it has none).

    None in a run without instances.

    A tool's own `_instance` overrides the call's. In a run without instances it is ignored, so that
    one tool serves runs of both kinds; but a call that names one gets an error, since the model
    would otherwise assume that its data is separate.

    Raises:
        InvalidArguments: The call lacks a required instance, or names an unknown one.
    """
    names = data.instances()
    name = said if tool.instance is None else tool.instance
    if tool.name == CHOOSE_SKILL or (tool.instance is not None and not names):
        return None
    if name is None and names:
        listed = f"[{first_names(names, MAX_NAMES_TOLD)}]"
        raise InvalidArguments(f"{INSTANCE}: this run has instances; name one of {listed}")
    if name is not None:
        try:
            check_instance(name, data)
        except NoSuchInstance as error:
            raise InvalidArguments(f"{INSTANCE}: {error}") from None
    return name


def check_instance(name: Any, data: Data) -> None:
    """Check that a run has an instance.

    Raises:
        NoSuchInstance: It does not.
    """
    names = data.instances()
    if not names:
        raise NoSuchInstance("this run has no instances; name none")
    if name not in names:
        mend = suggest_names(str(name), names)
        raise NoSuchInstance(f"this run has no instance {quote_value(name)}; {mend}")


def instance_property(tool: Tool, instances: Sequence[str]) -> dict[str, Schema]:
    """Return the property in which the model names a call's instance, if it has to."""
    if not instances or tool.instance is not None or tool.name == CHOOSE_SKILL:
        return {}
    schema = tool.chosen.get(INSTANCE, True)
    open_to_it = [name for name in instances if not errors(name, schema)]
    names = open_to_it or list(instances)
    return {INSTANCE: {"type": "string", "enum": names, "description": _WHOSE}}
