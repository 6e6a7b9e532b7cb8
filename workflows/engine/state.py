"""The values of a run that references read and results are written to.

A value is the fold of its writes, kept up to date as they come. Writing copies along the path and
nothing else, so a value that was read, logged or shown never changes afterwards.
"""

from typing import Any

from schemas.reference import Path
from schemas.tool import OutputMethod

MAX_INDEX = 100_000


class Missing:
    """Nothing stands there: not even a null."""


MISSING = Missing()


class CannotWrite(Exception):
    """What stands at a place does not allow this write."""


class Data:
    """The values by kind: `state`, `input`, and those of data messages."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}

    def __getitem__(self, kind: str) -> Any:
        return self._values.get(kind)

    def __contains__(self, kind: str) -> bool:
        return kind in self._values

    def copy(self) -> "Data":
        """The same values, to be written to apart from these."""
        copied = Data()
        copied._values = dict(self._values)
        return copied

    def set(self, kind: str, value: Any) -> None:
        """Put a whole value in place."""
        self._values[kind] = value

    def read(self, path: Path) -> Any:
        """What stands at the path, or `MISSING`."""
        value: Any = self._values.get(path.kind, MISSING)
        for step in path.steps:
            value = _child(value, step)
        return value

    def written(self, path: Path, method: OutputMethod, value: Any) -> Any:
        """The whole value of the path's kind as it would be after the write.

        Raises:
            CannotWrite: the method does not fit what stands there.
        """
        combined = _combine(self.read(path), method, value, path)
        return _put(self._values.get(path.kind, MISSING), path.steps, combined, path)


def _child(value: Any, step: str | int) -> Any:
    match value, step:
        case dict(), str():
            return value.get(step, MISSING)
        case list(), int() if step < len(value):
            return value[step]
        case _:
            return MISSING


def _combine(old: Any, method: OutputMethod, new: Any, path: Path) -> Any:
    if method == "push":
        return [*_list(old, path), new]
    if method == "set" or old is MISSING or old is None:
        return new
    match method, old, new:
        case "merge", dict(), dict():
            return _merge(old, new)
        case "assign", dict(), dict():
            return {**old, **new}
        case "concat", list(), list():
            return [*old, *new]
        case "concat", str(), str():
            return old + new
        case "merge" | "assign", _, _:
            return new
        case _:
            raise CannotWrite(f"{path} cannot be extended: concat takes two lists or two texts")


def _list(old: Any, path: Path) -> list[Any]:
    if old is MISSING or old is None:
        return []
    if not isinstance(old, list):
        raise CannotWrite(f"{path} is not a list: nothing can be pushed to it")
    return old


def _merge(old: Any, new: Any) -> Any:
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return new
    return {**old, **{key: _merge(old.get(key), value) for key, value in new.items()}}


def _put(value: Any, steps: tuple[str | int, ...], new: Any, path: Path) -> Any:
    if not steps:
        return new
    step, rest = steps[0], steps[1:]
    inner = _put(_child(value, step), rest, new, path)
    if isinstance(step, int):
        return _put_index(value, step, inner, path)
    if value is MISSING or value is None:
        value = {}
    if not isinstance(value, dict):
        raise CannotWrite(f"{path} cannot be written: `{step}` would have to stand in an object")
    return {**value, step: inner}


def _put_index(value: Any, index: int, inner: Any, path: Path) -> list[Any]:
    items = [] if value is MISSING or value is None else value
    if not isinstance(items, list) or index > len(items) or index > MAX_INDEX:
        raise CannotWrite(f"{path} cannot be written: there is no place [{index}] in a list there")
    return [*items[:index], inner, *items[index + 1 :]]
