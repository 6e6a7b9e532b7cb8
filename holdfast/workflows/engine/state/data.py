"""The values of a run that references read and results are written to.

A value is the fold of its writes, updated with each write. A write copies only along its path, so a
value that was read, logged or shown never changes afterwards.

A value is shared, or an instance's own. An instance sees its own values merged over the shared
ones: in an own object, a key that the instance never wrote shows the shared key; any other own
value replaces the shared one. So a read after a write returns what was written, a later shared
write is visible beside it, and a write in one instance is not visible in another.

`PathIndex` finds the calls that write near a place. A model may write thousands of places and
references into one answer, and a comparison of all pairs would exceed the time of a workflow task.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

from holdfast.schemas.base import canonical_json
from holdfast.schemas.internal.continue_as_new import ValueSnapshot
from holdfast.schemas.reference import Path
from holdfast.schemas.tool import OutputMethod

T = TypeVar("T")
_Step = str | int
# A place or one of its prefixes: a kind, an instance, and the steps so far.
_Key = tuple[str, str | None, tuple[_Step, ...]]


class PathIndex(Generic[T]):
    """An index from places to their writers, searched by nearby places."""

    def __init__(self) -> None:
        self._at: dict[_Key, dict[T, None]] = {}
        self._inside: dict[_Key, dict[T, None]] = {}
        self._next: dict[_Key, dict[_Step, None]] = {}

    def add(self, place: Path, who: T) -> None:
        """Add a writer of a place."""
        for key, step in zip(_around(place), place.steps, strict=True):
            self._inside.setdefault(key, {})[who] = None
            self._next.setdefault(key, {})[step] = None
        self._inside.setdefault(_key(place), {})[who] = None
        self._at.setdefault(_key(place), {})[who] = None

    def covering(self, place: Path) -> dict[T, None]:
        """Return the writers of this place, or of one that contains it.

        An index from the end may be of any item that was written.
        """
        if (certain := place.certain) != place:
            return self.meeting([certain])
        return self._united(self._at, [*_around(place), _key(place)])

    def meets(self, place: Path) -> bool:
        """Return whether any writer's place is this one, contains it, or is inside it."""
        place = place.certain
        return _key(place) in self._inside or any(key in self._at for key in _around(place))

    def meeting(self, places: Collection[Path]) -> dict[T, None]:
        """Return the writers of one of these places, or of one that contains it or is inside it."""
        places = [place.certain for place in places]
        own = dict.fromkeys(map(_key, places))
        around = dict.fromkeys(key for place in places for key in _around(place))
        # A place inside another of the places is found with that one.
        widest = [_key(place) for place in places if not any(key in own for key in _around(place))]
        return self._united(self._at, around) | self._united(self._inside, dict.fromkeys(widest))

    def crossing(self, places: Collection[Path]) -> dict[T, None]:
        """Return the writers that meet one of these places, or diverge from it within a list."""
        steps: dict[_Key, dict[_Step, None]] = {}
        for place in places:
            for key, step in zip(_around(place), place.steps, strict=True):
                steps.setdefault(key, {})[step] = None
        parting = []
        for key, asked in steps.items():
            # In a list, the places after this one that differ from each of the steps.
            is_list = any(isinstance(step, int) for step in asked)
            if is_list and len(asked) > 1:
                parting.append(key)  # every step differs from at least one of these
                continue
            for step in self._next.get(key, ()):
                if step not in asked and (is_list or isinstance(step, int)):
                    kind, instance, before = key
                    parting.append((kind, instance, (*before, step)))
        return self.meeting(places) | self._united(self._inside, parting)

    def _united(self, groups: dict[_Key, dict[T, None]], keys: Iterable[_Key]) -> dict[T, None]:
        return {who: None for key in keys for who in groups.get(key, ())}


def _key(place: Path) -> _Key:
    return place.kind, place.instance, place.steps


def _around(place: Path) -> Iterator[_Key]:
    """Yield the places that contain a place, from the whole value of its kind."""
    return ((place.kind, place.instance, place.steps[:n]) for n in range(len(place.steps)))


MAX_INDEX = 100_000


class MissingValue:
    """The type of `MISSING`: there is no value, not even null."""


MISSING = MissingValue()


class CannotWrite(Exception):
    """The value at a place does not allow this write."""


class _Own(dict[str, Any]):
    """An object of one instance that shows shared keys which the instance does not own."""


class Data:
    """The values by kind: `state`, `input`, and those of data messages; and each instance's own."""

    def __init__(self, values: dict[tuple[str, str | None], Any] | None = None) -> None:
        self._values = dict(values or {})
        # Every instance that has data, in the order of their first data.
        self.instances = list(dict.fromkeys(name for _, name in self._values if name is not None))

    def __getitem__(self, kind: str) -> Any:
        return self._values.get((kind, None))

    @classmethod
    def resumed(cls, snapshot: Iterable[ValueSnapshot]) -> Self:
        return cls({(one.kind, one.instance): _resumed(one.value) for one in snapshot})

    def snapshot(self) -> list[ValueSnapshot]:
        """Return the values, as JSON."""
        return [
            ValueSnapshot(kind=kind, instance=instance, value=_carried(value))
            for (kind, instance), value in self._values.items()
        ]

    def copy(self) -> "Data":
        return Data(self._values)

    def set(self, kind: str, value: Any, instance: str | None = None) -> None:
        """Replace a whole value: the shared one, or an instance's own."""
        self._values[kind, instance] = value
        if instance is not None and instance not in self.instances:
            self.instances.append(instance)

    def read(self, path: Path) -> Any:
        """Return the value at the path, or `MISSING`: in an instance, as the instance sees it."""
        own, shared = self._at(path)
        for step in path.steps:
            own, shared = _inside(own, shared, step)
        return _seen(own, shared)

    def visible_value(self, kind: str, instance: str | None = None) -> Any:
        """Return the whole value of a kind, shared or as an instance sees it; None without one."""
        found = self.read(Path(kind, (), instance))
        return None if found is MISSING else found

    def own_value(self, kind: str, instance: str | None = None) -> Any:
        """Return an own value as its instance sees it, or the shared one, or `MISSING`."""
        own, shared = self._at(Path(kind, (), instance))
        if not isinstance(own, _Own):
            return own
        whole = _seen(own, shared)
        return {key: whole[key] for key in own}

    def own_values(self, kind: str) -> dict[str, Any]:
        """Return the own value of each instance for a kind; an empty object if it has none."""
        own = {name: self.own_value(kind, name) for name in self.instances}
        return {name: {} if value is MISSING else value for name, value in own.items()}

    def value_after_write(self, path: Path, method: OutputMethod, value: Any) -> Any:
        """Return the value of the path's kind after the write: for `set`; or raise `CannotWrite`.

        In an instance, it is the instance's own. A method extends the value that the instance sees.
        """
        own, shared = self._at(path)
        if path.instance is None:
            combined = _combine(self.read(path), method, value, path)
            return _put(own, path.steps, combined, path)
        return _put_own(own, shared, path.steps, path, method, value)

    def _at(self, path: Path) -> tuple[Any, Any]:
        """Return the instance's own value and the shared one under it, or the shared one alone."""
        shared = self._values.get((path.kind, None), MISSING)
        if path.instance is None:
            return shared, MISSING
        return self._values.get((path.kind, path.instance), MISSING), shared


def _carried(value: Any) -> dict[str, Any]:
    """Return a value for a snapshot: an object that shows shared keys is marked."""
    if isinstance(value, _Own):
        return {"own": {key: _carried(inner) for key, inner in value.items()}}
    return {"is": value}


def _resumed(carried: Any) -> Any:
    if "own" in carried:
        return _Own({key: _resumed(inner) for key, inner in carried["own"].items()})
    return carried["is"]


def _inside(own: Any, shared: Any, step: str | int) -> tuple[Any, Any]:
    if own is MISSING:
        return MISSING, _child(shared, step)
    if isinstance(own, _Own):
        through = shared if isinstance(shared, dict) else MISSING
        return _child(own, step), _child(through, step)
    return _child(own, step), MISSING


def _seen(own: Any, shared: Any) -> Any:
    """Return the visible value: the own one merged over the shared one."""
    if own is MISSING:
        return shared
    if not isinstance(own, _Own):
        return own
    under = shared if isinstance(shared, dict) else {}
    return {**under, **{key: _seen(value, under.get(key, MISSING)) for key, value in own.items()}}


def _with(own: Any, more: dict[str, Any]) -> _Own:
    return _Own({**(own if isinstance(own, _Own) else {}), **more})


def _merge_own(own: Any, new: Any) -> Any:
    """Return a deep merge that makes only the content of `new` the instance's own."""
    if not isinstance(new, dict):
        return new
    if own is not MISSING and not isinstance(own, _Own):
        return _merge(own, new)
    return _with(own, {key: _merge_own(_child(own, key), value) for key, value in new.items()})


def _put_own(
    own: Any,
    shared: Any,
    steps: tuple[str | int, ...],
    path: Path,
    method: OutputMethod,
    value: Any,
) -> Any:
    """Return the instance's own value after a write at the end of the steps."""
    seen = _seen(own, shared)
    lets_through = own is MISSING or isinstance(own, _Own)
    if not steps:
        if method == "merge" and lets_through and isinstance(value, dict):
            return _merge_own(own, value)
        if method == "assign" and isinstance(seen, dict) and isinstance(value, dict):
            return _with(own, value) if lets_through else {**seen, **value}
        return _combine(seen, method, value, path)
    is_open = seen is MISSING or isinstance(seen, dict | None)
    if isinstance(steps[0], str) and lets_through and is_open:
        inner = _put_own(*_inside(own, shared, steps[0]), steps[1:], path, method, value)
        return _with(own, {steps[0]: inner})
    # A list is an instance's own as a whole, with its content.
    at = seen
    for step in steps:
        at = _child(at, step)
    return _put(seen, steps, _combine(at, method, value, path), path)


def _child(value: Any, step: str | int) -> Any:
    match value, step:
        case dict(), str():
            return value.get(step, MISSING)
        case list(), int() if -len(value) <= step < len(value):
            return value[step]
        case _:
            return MISSING


def _combine(old: Any, method: OutputMethod, new: Any, path: Path) -> Any:
    if method == "push":
        items = [] if old is MISSING or old is None else old
        if not isinstance(items, list):
            raise CannotWrite(f"{path} is not a list: nothing can be pushed to it")
        return [*items, new]
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


def _merge(old: Any, new: Any) -> Any:
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return new
    return {**old, **{key: _merge(old.get(key), value) for key, value in new.items()}}


def _put(value: Any, steps: tuple[str | int, ...], new: Any, path: Path) -> Any:
    if not steps:
        return new
    step, rest = steps[0], steps[1:]
    inner = _put(_child(value, step), rest, new, path)
    if value in (MISSING, None):
        value = [] if isinstance(step, int) else {}
    if isinstance(step, int):
        if not isinstance(value, list) or step > len(value) or step > MAX_INDEX:
            raise CannotWrite(f"{path} cannot be written: the list has no place [{step}]")
        return [*value[:step], inner, *value[step + 1 :]]
    if not isinstance(value, dict):
        raise CannotWrite(
            f"{path} cannot be written: `{step}` is a key, and its place is not an object"
        )
    return {**value, step: inner}


NOTHING_VOID = PathIndex[str]()


@dataclass
class VisibleData:
    """The data that one call reads; `void` maps the places that stay empty to their writers."""

    data: Data
    void: PathIndex[str] = NOTHING_VOID

    def read(self, path: Path) -> Any | MissingValue:
        return MISSING if self.void.covering(path) else self.data.read(path)

    def why(self, path: Path) -> str:
        who = self.void.covering(path)
        return f" ({', '.join(who)} should have written it, and did not)" if who else ""


def is_same_json(some: Any, others: Any) -> bool:
    """Return whether two values are equal as JSON."""
    return canonical_json(some) == canonical_json(others)
