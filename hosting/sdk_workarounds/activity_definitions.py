"""The definition that `@activity.defn` attaches to a function, which has no public reader."""

from typing import Any

from temporalio import activity

from holdfast.catalog.python_module import ActivityDefinition


def activity_definition(value: Any) -> ActivityDefinition | None:
    """Return the definition of an activity, or None if the value is no activity."""
    try:
        found = activity._Definition.from_callable(value)
    except Exception:
        return None  # an object of a user's module may raise on any attribute
    return found if isinstance(found, activity._Definition) else None
