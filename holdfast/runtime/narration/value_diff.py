"""The differences between two values, place by place, and in lists entry by entry."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Any, Final, Literal

from holdfast.runtime.narration import arguments
from holdfast.runtime.narration.schema_shapes import Rules, ShapeReader
from holdfast.runtime.text_safety import as_json, clean, format_argument, one_line
from holdfast.schemas.base import canonical_json

Place = tuple[str | int, ...]


class Missing:
    """The absence of a value, such as an omitted property; null is a value."""


MISSING: Final = Missing()
MAX_DIFFERENCES: Final = 100
# Pairs of entries that are compared in all lists; beyond that, a list is shown as a whole.
MAX_COMPARED: Final = 40_000
_PLACE_CHARS: Final = 200
_SCALARS: Final = (str, int, float)
_LEFT_OUT: Final = "omitted"
_REMOVED: Final = "removed"
_NOT_THERE: Final = "absent"

DifferenceKind = Literal["other", "removed", "added", "same"]


@dataclass(frozen=True)
class Difference:
    """The values at a place before and after.

    An entry of a list can be `removed` or `added`; `same` counts the unchanged ones in `after`.
    """

    place: str
    before: str
    after: str
    kind: DifferenceKind = "other"


def differences(old: Any, new: Any, schema: Any = True) -> list[Difference]:
    """Return the differences: at most `MAX_DIFFERENCES`, and one that counts the rest.

    The schema of both names and formats the arguments, not what they contain.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        found = [*_named_differences(old, new, schema)]
    else:
        found = [*_Comparison().differences(old, new, ())]
    more = len(found) - MAX_DIFFERENCES
    return [*found[:MAX_DIFFERENCES], Difference("…", "", f"{more} more")] if more > 0 else found


def _named_differences(old: Rules, new: Rules, schema: Any) -> Iterator[Difference]:
    shapes, comparison = ShapeReader(schema), _Comparison()
    whole, formatted = shapes.read(schema), arguments.format_value
    read = {key: shapes.read(whole.property_schema(key)) for key in (*old, *new)}
    labels = arguments.labels_of(whole, read) if whole.properties else {key: key for key in read}
    for key, shape in read.items():
        ours, theirs = old.get(key, MISSING), new.get(key, MISSING)
        for one in comparison.differences(ours, theirs, (labels[key],)):
            is_money = shape.rules.get("format") == "money"
            if is_money and isinstance(ours, _SCALARS) and isinstance(theirs, _SCALARS):
                before, after = formatted(ours, shape, old), formatted(theirs, shape, new)
                one = one if before == after else replace(one, before=before, after=after)
            yield one


class _Comparison:
    def __init__(self) -> None:
        self._room = MAX_COMPARED

    def differences(self, old: Any, new: Any, place: Place) -> Iterator[Difference]:
        """Yield the differences at a place."""
        if isinstance(old, dict) and isinstance(new, dict):
            for key in dict.fromkeys([*old, *new]):
                inner = (old.get(key, MISSING), new.get(key, MISSING))
                yield from self.differences(*inner, (*place, key))
        elif isinstance(old, list) and isinstance(new, list):
            ours, theirs = [*map(canonical_json, old)], [*map(canonical_json, new)]
            blocks = self._blocks(ours, theirs)
            if blocks is None:
                yield Difference(_name(place), _shown(old), _shown(new))
                return
            for start, end, begin, stop in blocks:
                yield from self._block(old[start:end], new[begin:stop], (start, begin), place)
            others = len(old) - sum(end - start for start, end, _, _ in blocks)
            if others and any(end - start != stop - begin for start, end, begin, stop in blocks):
                text = f"{others} {'other' if others == 1 else 'others'} unchanged"
                yield Difference(_name(place), "", text, "same")
        elif MISSING in (old, new) or canonical_json(old) != canonical_json(new):
            yield Difference(_name(place), _shown(old), _shown(new))

    def _blocks(
        self, old: Sequence[bytes], new: Sequence[bytes]
    ) -> list[tuple[int, int, int, int]] | None:
        """Return the differing stretches of two lists; `None` if there is too much to compare.

        If that gives no fewer differences, entries are compared by position: the two numbers of a
        pair have not moved when both become equal.
        """
        pairs = enumerate(zip(old, new, strict=False))
        placed = [(n, n + 1, n, n + 1) for n, (one, other) in pairs if one != other]
        first = placed[0][0] if placed else min(len(old), len(new))
        ends = enumerate(zip(reversed(old[first:]), reversed(new[first:]), strict=False))
        shorter = min(len(old), len(new)) - first
        last = next((n for n, (one, other) in ends if one != other), shorter)
        ours, theirs = old[first : len(old) - last], new[first : len(new) - last]
        if len(ours) * len(theirs) > self._room:
            return placed if len(old) == len(new) else None
        self._room -= len(ours) * len(theirs)
        compared = SequenceMatcher(None, ours, theirs, autojunk=False)
        found = [
            (start + first, end + first, begin + first, stop + first)
            for tag, start, end, begin, stop in compared.get_opcodes()
            if tag != "equal"
        ]
        fewer = len(placed) <= sum(max(end - a, stop - b) for a, end, b, stop in found)
        return placed if len(old) == len(new) and fewer else found

    def _block(
        self, old: list[Any], new: list[Any], at: tuple[int, int], place: Place
    ) -> Iterator[Difference]:
        """Yield the differences of a stretch, in pairs where an entry may have become the other."""
        is_paired = len(old) == len(new) or all(isinstance(one, dict) for one in (*old, *new))
        pairs = min(len(old), len(new)) if is_paired else 0
        for n, (before, after) in enumerate(zip(old[:pairs], new[:pairs], strict=True)):
            number, now = at[0] + n + 1, at[1] + n + 1
            step = str(number) if number == now else f"{number} (now {now})"
            yield from self.differences(before, after, (*place, step))
        for n, gone in enumerate(old[pairs:], start=at[0] + pairs):
            yield Difference(_name((*place, n)), _shown(gone), _REMOVED, "removed")
        for n, come in enumerate(new[pairs:], start=at[1] + pairs):
            yield Difference(_name((*place, n)), _NOT_THERE, _shown(come), "added")


def _name(place: Place) -> str:
    named = (str(one + 1) if isinstance(one, int) else arguments.exact_name(one) for one in place)
    return one_line(" › ".join(named), _PLACE_CHARS)


def _shown(value: Any) -> str:
    """Format a value for display, so that no text can be taken for a label of the page."""
    if value is MISSING:
        return _LEFT_OUT
    if isinstance(value, dict | list):
        return "\n".join(_lines(value, "")) if value else as_json(value)
    return as_json(value) if value in (_LEFT_OUT, _REMOVED, _NOT_THERE) else format_argument(value)


def _lines(value: dict[str, Any] | list[Any], before: str) -> Iterator[str]:
    names, inner = [f"{n}." for n in range(1, len(value) + 1)], value
    if isinstance(value, dict):
        unclear = {key for key in value if clean(key) != key or "\n" in key}
        names = [f"{as_json(key) if key in unclear else key}:" for key in value]
        inner = [*value.values()]
    for name, one in zip(names, inner, strict=True):
        if isinstance(one, dict | list) and one:
            yield f"{before}{name}"
            yield from _lines(one, f"{before}  ")
        else:
            # A line end in a text would look like the start of the next entry.
            written = format_argument(one)
            several = "\n" in written
            yield f"{before}{name} {as_json(one) if several else written}"
