"""Instances: whose data a call reads and writes, in a run whose data belongs to several.

A run has instances as soon as a data message names one. A call says which is its own, or its tool
does once and for all; there is no call for all of them, or one would see another's data through it.
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
    """Return the instance of a call whose `_instance` is `said` (None: it says nothing).

    None in a run without instances.

    A tool's own `_instance` goes before what a call says. Where a run has no instances it means
    nothing, so that one tool serves runs of both kinds; but a call that names one gets the error
    that there is none, or the model would go on as if its data were kept apart.

    Raises:
        InvalidArguments: it names none although it must, or one that there is not.
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
    """See that a run has an instance.

    Raises:
        NoSuchInstance: it has not.
    """
    names = data.instances()
    if not names:
        raise NoSuchInstance("this run has no instances; name none")
    if name not in names:
        mend = suggest_names(str(name), names)
        raise NoSuchInstance(f"this run has no instance {quote_value(name)}; {mend}")


def instance_property(tool: Tool, instances: Sequence[str]) -> dict[str, Schema]:
    """Return the property by which the model says whose a call is, where it has to."""
    if not instances or tool.instance is not None or tool.name == CHOOSE_SKILL:
        return {}
    schema = tool.chosen.get(INSTANCE, True)
    open_to_it = [name for name in instances if not errors(name, schema)]
    names = open_to_it or list(instances)
    return {INSTANCE: {"type": "string", "enum": names, "description": _WHOSE}}
