"""The values of a run that references read and results are written to.

A value is the fold of its writes, kept up to date as they come. Writing copies along the path and
nothing else, so a value that was read, logged or shown never changes afterwards.

A value is for all, or one instance's own. An instance sees what is for all and, over it, what is
its own: in an object of its own, a key that it never wrote stays the key that is for all; whatever
else it wrote replaces what is there for all. So what is read after a write is what
was written, what is written for all later still shows through beside it, and nothing that is
written in one instance shows in another.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Self

from holdfast.schemas.base import canonical_json
from holdfast.schemas.internal.continue_as_new import ValueSnapshot
from holdfast.schemas.reference import Path
from holdfast.schemas.tool import OutputMethod
from holdfast.workflows.engine.state.path_index import PathIndex

MAX_INDEX = 100_000


class MissingValue:
    """Nothing is there: not even a null."""


MISSING = MissingValue()


class CannotWrite(Exception):
    """What is at a place does not allow this write."""


class _Own(dict[str, Any]):
    """An object of one instance that lets through the keys that are for all and not its own."""


class Data:
    """The values by kind: `state`, `input`, and those of data messages; and each instance's own."""

    def __init__(self, values: dict[tuple[str, str | None], Any] | None = None) -> None:
        self._values = dict(values or {})

    def __getitem__(self, kind: str) -> Any:
        return self._values.get((kind, None))

    def __contains__(self, kind: str) -> bool:
        return (kind, None) in self._values

    @classmethod
    def resumed(cls, snapshot: Iterable[ValueSnapshot]) -> Self:
        """Return the values of a snapshot."""
        return cls({(one.kind, one.instance): _resumed(one.value) for one in snapshot})

    def snapshot(self) -> list[ValueSnapshot]:
        """Return the values, as JSON."""
        return [
            ValueSnapshot(kind=kind, instance=instance, value=_carried(value))
            for (kind, instance), value in self._values.items()
        ]

    def copy(self) -> "Data":
        """Return the same values, to be written to apart from these."""
        return Data(self._values)

    def instances(self) -> list[str]:
        """Return every instance that has data, in the order in which they first had some."""
        return list(dict.fromkeys(name for _, name in self._values if name is not None))

    def set(self, kind: str, value: Any, instance: str | None = None) -> None:
        """Put a whole value in place: for all, or as an instance's own."""
        self._values[kind, instance] = value

    def read(self, path: Path) -> Any:
        """Return what is at the path, or `MISSING`: in an instance, what that sees."""
        own, shared = self._at(path)
        for step in path.steps:
            own, shared = _inside(own, shared, step)
        return _seen(own, shared)

    def visible_value(self, kind: str, instance: str | None = None) -> Any:
        """Return the whole value of a kind, as it is for all or as an instance sees it.

        None without.
        """
        found = self.read(Path(kind, (), instance))
        return None if found is MISSING else found

    def own_value(self, kind: str, instance: str | None = None) -> Any:
        """Return the value for all, or what an instance has of its own; `MISSING` without one.

        Of an object these are the keys that the instance wrote, as it sees them.
        """
        own, shared = self._at(Path(kind, (), instance))
        if not isinstance(own, _Own):
            return own
        whole = _seen(own, shared)
        return {key: whole[key] for key in own}

    def own_values(self, kind: str) -> dict[str, Any]:
        """Return what every instance has of its own of a kind.

        An empty object where that is nothing.
        """
        own = {name: self.own_value(kind, name) for name in self.instances()}
        return {name: {} if value is MISSING else value for name, value in own.items()}

    def value_after_write(self, path: Path, method: OutputMethod, value: Any) -> Any:
        """Return the whole value of the path's kind as it would be after the write: for `set`.

        In an instance, it is the instance's own. A method extends the value that is seen there.

        Raises:
            CannotWrite: the method does not fit what is there.
        """
        own, shared = self._at(path)
        if path.instance is None:
            combined = _combine(self.read(path), method, value, path)
            return _put(own, path.steps, combined, path)
        return _put_own(own, shared, path.steps, _Write(path, method, value))

    def _at(self, path: Path) -> tuple[Any, Any]:
        """Return the instance's own value, and the one for all that it lies over.

        Without an instance, the one for all, which lies over nothing.
        """
        shared = self._values.get((path.kind, None), MISSING)
        if path.instance is None:
            return shared, MISSING
        return self._values.get((path.kind, path.instance), MISSING), shared


@dataclass(frozen=True)
class _Write:
    """A write to an instance's own value, made where the steps of its path end."""

    path: Path
    method: OutputMethod
    value: Any

    def onto(self, own: Any, shared: Any) -> Any:
        """Return what is the instance's own after it."""
        lets_through = own is MISSING or isinstance(own, _Own)
        if self.method == "merge" and lets_through and isinstance(self.value, dict):
            return _merge_own(own, self.value)
        seen = _seen(own, shared)
        if self.method == "assign" and isinstance(seen, dict) and isinstance(self.value, dict):
            return _with(own, self.value) if lets_through else {**seen, **self.value}
        return _combine(seen, self.method, self.value, self.path)


def _carried(value: Any) -> dict[str, Any]:
    """Return a value as it is carried: an object that lets shared keys through is marked."""
    if isinstance(value, _Own):
        return {"own": {key: _carried(inner) for key, inner in value.items()}}
    return {"is": value}


def _resumed(carried: Any) -> Any:
    if "own" in carried:
        return _Own({key: _resumed(inner) for key, inner in carried["own"].items()})
    return carried["is"]


def _inside(own: Any, shared: Any, step: str | int) -> tuple[Any, Any]:
    """Return the same two, one step further in."""
    if own is MISSING:
        return MISSING, _child(shared, step)
    if isinstance(own, _Own):
        through = shared if isinstance(shared, dict) else MISSING
        return _child(own, step), _child(through, step)
    return _child(own, step), MISSING


def _seen(own: Any, shared: Any) -> Any:
    """Return what is there, with the own value over the one for all."""
    if own is MISSING:
        return shared
    if not isinstance(own, _Own):
        return own
    under = shared if isinstance(shared, dict) else {}
    return {**under, **{key: _seen(value, under.get(key, MISSING)) for key, value in own.items()}}


def _with(own: Any, more: dict[str, Any]) -> _Own:
    """Return an own object with more keys of its own."""
    return _Own({**(own if isinstance(own, _Own) else {}), **more})


def _merge_own(own: Any, new: Any) -> Any:
    """Return a deep merge which makes nothing the instance's own but what is in `new`."""
    if not isinstance(new, dict):
        return new
    if own is not MISSING and not isinstance(own, _Own):
        return _merge(own, new)
    return _with(own, {key: _merge_own(_child(own, key), value) for key, value in new.items()})


def _put_own(own: Any, shared: Any, steps: tuple[str | int, ...], write: _Write) -> Any:
    if not steps:
        return write.onto(own, shared)
    seen = _seen(own, shared)
    lets_through = own is MISSING or isinstance(own, _Own)
    if isinstance(steps[0], str) and lets_through and (_nothing(seen) or isinstance(seen, dict)):
        inner = _put_own(*_inside(own, shared, steps[0]), steps[1:], write)
        return _with(own, {steps[0]: inner})
    # A list is an instance's own as a whole, and whatever is inside it.
    at = seen
    for step in steps:
        at = _child(at, step)
    return _put(seen, steps, _combine(at, write.method, write.value, write.path), write.path)


def _nothing(value: Any) -> bool:
    return value is MISSING or value is None


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


@dataclass
class VisibleData:
    """What one call reads. `void` are the places that stay empty, and who was to write them."""

    data: Data
    void: PathIndex[str] = field(default_factory=PathIndex[str])

    def read(self, path: Path) -> Any | MissingValue:
        """Return what is at the path, or `MISSING`."""
        if self.void.covering(path):
            return MISSING
        return self.data.read(path)

    def why(self, path: Path) -> str:
        """Return why nothing is there, as far as that is known."""
        who = self.void.covering(path)
        return f" ({', '.join(who)} was to write it, and did not)" if who else ""


def is_same_json(some: Any, others: Any) -> bool:
    """Return whether two values are the same as JSON."""
    return canonical_json(some) == canonical_json(others)
