"""Truncation of values that are too large to show: small parts stay whole, large ones are cut."""

from typing import Any

from holdfast.schemas.base import json_size

# The most items of a list or an object that are kept, if they fit.
ITEMS = 50
LEAST_BYTES = 200


def truncate(value: Any, room: int) -> Any:
    """Return a value cut to about `room` bytes; small parts of it stay whole."""
    if json_size(value) <= room:
        return value
    if room < LEAST_BYTES:
        return "…"
    match value:
        case str():
            return f"{_piece(value, room)} … ({len(value)} characters)"
        case list():
            items = value[:ITEMS]
            share = _share(items, room)
            return [truncate(item, share) for item in items]
        case dict():
            fields = dict(list(value.items())[:ITEMS])
            share = _share(list(fields.values()), room)
            return {key: truncate(item, share) for key, item in fields.items()}
        case _:
            return value


def _share(items: list[Any], room: int) -> int:
    """Return the room for each item that does not fit into an equal share of it."""
    sizes = [json_size(item) for item in items]
    large = [size for size in sizes if size > room // len(sizes)]
    return (room - sum(sizes) + sum(large)) // max(len(large), 1)


def _piece(text: str, room: int) -> str:
    piece = text[:room]
    while json_size(piece) > room:
        piece = piece[: len(piece) // 2]
    return piece
