"""The graph of one turn: which call waits for which, and what each of them reads.

A call that refers to what another call of its turn writes waits for it, wherever the two stand in
the answer. Where several calls write one place, they go one after the other, in source order, and
a reader between two of them sees the first: a later call is not waited for where it only writes
again what an earlier one has written.

What a call reads is the data as it was when the turn began and, over it, what the calls that it
waits for have written, in source order. So it never matters which of the others ends first. Where
every call that was to write a place has failed, nothing stands there, whatever stood there before:
nobody acts on an old value in the place of the new one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from schemas.reference import Path
from workflows.engine.kept import Kept
from workflows.engine.references import nothing_at, references
from workflows.engine.state import MISSING, CannotWrite, Data, Missing
from workflows.engine.turn import Call, Stage, writes_of


def connect(calls: Sequence[Call]) -> None:
    """Find what each call waits for among the others."""
    writers = [
        _Writer(index, call, places)
        for index, call in enumerate(calls)
        if (places := _places(call))
    ]
    for index, call in enumerate(calls):
        places = _places(call)
        before = [writer for writer in writers if writer.index < index]
        call.earlier = [writer.call for writer in before if _cross(writer.places, places)]
        reads = list(dict.fromkeys(places_read(call)))
        call.sources = [writer.call for writer in _read_from(index, reads, writers)]
        for other in _awaited(call):
            other.awaited = True


def places_read(call: Call) -> Iterator[Path]:
    """Every place that a call's arguments refer to, as often as they do."""
    if call.literal:
        return
    for reference in references(call.given, call.instance):
        yield from reference.paths


def circles(calls: Sequence[Call]) -> dict[Call, str]:
    """The open calls that wait for each other in a circle, each with the circle in words.

    What is left after taking away, again and again, calls that wait for none of those left and
    calls that none of those left waits for, stands in a circle or between two of them.
    """
    left = dict.fromkeys(call for call in calls if call.stage is not Stage.ENDED)
    while True:
        needed = {other for call in left for other in _awaited(call) if other in left}
        free = [
            call
            for call in left
            if call not in needed or not any(other in left for other in _awaited(call))
        ]
        if not free:
            return {call: _circle(call, left) for call in left}
        for call in free:
            del left[call]


def hopeless(call: Call, data: Data) -> str | None:
    """Why a call that waits for others can never have all that it refers to, if so."""
    view = View(data, [])
    for reference in references(call.given, call.instance):
        hopes = [_may_come(call, path, view) for path in reference.paths]
        if not (all(hopes) if reference.choose == "all" else any(hopes)):
            lost = [path for path, hope in zip(reference.paths, hopes, strict=True) if not hope]
            return nothing_at(lost, view)
    return None


@dataclass
class View:
    """What one call reads. `void` are the places that stay empty, and who was to write them."""

    data: Data
    void: list[tuple[Path, str]] = field(default_factory=list)

    def read(self, path: Path) -> Any | Missing:
        """What stands at the path, or `MISSING`."""
        if any(place.covers(path) for place, _ in self.void):
            return MISSING
        return self.data.read(path)

    def why(self, path: Path) -> str:
        """Why nothing stands there, as far as that is known."""
        who = dict.fromkeys(call for place, call in self.void if place.covers(path))
        return f" ({', '.join(who)} was to write it, and did not)" if who else ""


def view(call: Call, data: Data) -> View:
    """What a call reads, now that those that it waits for have ended."""
    seen, written = data, list[Path]()
    for source in call.sources:
        seen, places = _with(seen, source)
        written += places
    void = [
        (place, source.id)
        for source in call.sources
        for place in _places(source)
        if not any(place.overlaps(other) for other in written)
    ]
    return View(seen, void)


def try_write(call: Call, kept: Kept) -> None:
    """Make sure that what a call returned can be written, before others read it.

    Raises:
        CannotWrite: it cannot.
    """
    seen = kept.data
    for earlier in call.earlier:
        seen, _ = _with(seen, earlier)
    paths, value = writes_of(call, call.outcome)
    kept.tried(seen, paths, value, call.output_method)


def _with(seen: Data, call: Call) -> tuple[Data, list[Path]]:
    """The data with what a call has written, and where it has."""
    paths, value = writes_of(call, call.outcome)
    trial = seen.copy()
    try:
        for path in paths:
            trial.set(path.kind, trial.written(path, call.output_method, value), path.instance)
    except CannotWrite:
        return seen, []
    return trial, list(paths)


def _places(call: Call) -> tuple[Path, ...]:
    """Every place that a call may write to."""
    output = call.output_path
    return () if output is None else (*output.result, *output.error)


def _meet(some: Sequence[Path], others: Sequence[Path]) -> bool:
    return any(one.overlaps(other) for one in some for other in others)


def _cross(some: Sequence[Path], others: Sequence[Path]) -> bool:
    """Whether it matters which of two calls writes first. Places in one list are made in order."""
    return any(one.overlaps(other) or one.beside(other) for one in some for other in others)


def _awaited(call: Call) -> list[Call]:
    return [*call.sources, *call.earlier]


@dataclass(frozen=True)
class _Writer:
    """A call that writes, and where it stands in its answer."""

    index: int
    call: Call
    places: tuple[Path, ...]


def _read_from(index: int, reads: Sequence[Path], writers: Sequence[_Writer]) -> Iterator[_Writer]:
    """The calls that write what the `index`-th reads, in source order."""
    upto = [place for writer in writers if writer.index <= index for place in writer.places]
    for writer in writers:
        later = writer.index > index
        if writer.index == index or (later and _meet(writer.places, upto)):
            continue
        if _meet(writer.places, reads):
            yield writer


def _may_come(call: Call, path: Path, view: View) -> bool:
    if view.read(path) is not MISSING:
        return True
    return any(path.overlaps(place) for source in call.sources for place in _places(source))


def _circle(call: Call, left: dict[Call, None]) -> str:
    """A way from a call along what it waits for, until it comes back to where it was."""
    way = [call]
    while True:
        after = next(other for other in _awaited(way[-1]) if other in left)
        if after in way:
            circle = [*way[way.index(after) :], after]
            return " → ".join(each.id for each in circle)
        way.append(after)
