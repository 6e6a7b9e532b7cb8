"""Fields of JSON that a server sent: one of another form counts as absent."""

from typing import Any


def read_count(value: Any) -> int | None:
    """Return the count, such as a number of tokens, if the value is one."""
    is_count = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value) if is_count and value >= 0 and value == value // 1 else None


def read_counts(value: Any) -> dict[str, int]:
    """Return the counts in an object, by their names."""
    counts = {name: read_count(each) for name, each in read_object(value).items()}
    return {name: count for name, count in counts.items() if count is not None}


def read_place(value: Any) -> str | None:
    """Return the place that an index names, which some servers send as a text; None without one."""
    return str(value) if isinstance(value, int | str) and value != "" else None


def read_text(value: Any) -> str:
    """Return the text, if the value is one."""
    return value if isinstance(value, str) else ""


def read_object(value: Any) -> dict[str, Any]:
    """Return the object, if the value is one."""
    return value if isinstance(value, dict) else {}


def read_objects(value: Any) -> list[dict[str, Any]]:
    """Return the objects in a list, if the value is one."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
