"""Fields of JSON that a server sent: one of another form counts as absent."""

from typing import Any


def read_counts(value: Any) -> dict[str, int]:
    """Return the counts in an object, such as numbers of tokens, by their names."""
    return {
        name: int(each)
        for name, each in read_object(value).items()
        if type(each) in (int, float) and each >= 0 and each == each // 1
    }


def read_place(value: Any) -> str | None:
    """Return the place that an index names, which some servers send as a text; None without one."""
    return str(value) if isinstance(value, int | str) and value != "" else None


def read_text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def read_object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def read_objects(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
