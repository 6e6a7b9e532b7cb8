"""An index of the places that calls write to, with their writers, searched by nearby places.

A model may write thousands of places and references into one answer. A comparison of all pairs
would exceed the time of a workflow task; here each is looked up, step by step.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Generic, TypeVar

from holdfast.schemas.reference import Path

T = TypeVar("T")
_Step = str | int
# A place or one of its prefixes: a kind, an instance, and the steps so far.
_Key = tuple[str, str | None, tuple[_Step, ...]]


class PathIndex(Generic[T]):
    """An index from places to their writers."""

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
        """Return the writers of this place, or of one that contains it."""
        return self._united(self._at, [*_around(place), _key(place)])

    def meets(self, place: Path) -> bool:
        """Return whether any writer's place is this one, contains it, or is inside it."""
        return _key(place) in self._inside or any(key in self._at for key in _around(place))

    def meeting(self, places: Collection[Path]) -> dict[T, None]:
        """Return the writers of one of these places, or of one that contains it or is inside it."""
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
