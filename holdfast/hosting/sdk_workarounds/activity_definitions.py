"""The definition that `@activity.defn` attaches to a function, which has no public reader."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from temporalio import activity
from temporalio.common import RawValue

from holdfast.catalog.python_module import ActivityDefinition, decode_arguments, takes_context


def activity_definition(value: Any) -> ActivityDefinition | None:
    """Return the definition of an activity, or None if the value is no activity."""
    try:
        found = activity._Definition.from_callable(value)
    except Exception:
        return None  # an object of a user's module may raise on any attribute
    if not isinstance(found, activity._Definition):
        return None
    return ActivityDefinition(found.name, found.arg_types)


def activity_name(run: Callable[..., Any]) -> str:
    """Return the name of an activity; empty for a dynamic one."""
    definition = activity_definition(run)
    return "" if definition is None else definition.name or ""


def place_of(run: Callable[..., Any]) -> Any:
    """Return the place of an activity's code, which is one if its module was loaded twice."""
    code = getattr(inspect.unwrap(run), "__code__", None)
    return run if code is None else (code.co_filename, code.co_firstlineno)


def with_raw_arguments(
    run: Callable[..., Any], *, only_with_context: bool = False
) -> Callable[..., Any]:
    """Return the activity, which decodes its arguments itself: any, or one that takes a context.

    The SDK decodes them before any interceptor, and encoded again they may be other bytes.
    """
    definition = activity._Definition.from_callable(run)
    if definition is None or not (types := definition.arg_types):
        return run
    if only_with_context and not takes_context(types):
        return run

    def decode(arguments: Sequence[Any]) -> Sequence[Any]:
        # Of another number than the parameters, the SDK decodes them without types.
        if not all(isinstance(each, RawValue) for each in arguments):
            return arguments
        return decode_arguments([each.payload for each in arguments], types)

    async def run_async(*arguments: Any) -> Any:
        return await run(*decode(arguments))

    def run_sync(*arguments: Any) -> Any:
        return run(*decode(arguments))

    raw = run_async if definition.is_async else run_sync
    changed = replace(definition, fn=raw, arg_types=[RawValue] * len(types))
    raw.__dict__["__temporal_activity_definition"] = changed
    return raw
