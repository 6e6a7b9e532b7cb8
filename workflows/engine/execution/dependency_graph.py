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

from collections.abc import Callable, Collection, Iterator, Sequence

from holdfast.schemas.reference import Path
from holdfast.workflows.engine.call.tool_call import CallStage, ToolCall, writes_of
from holdfast.workflows.engine.run_state import RunState
from holdfast.workflows.engine.state.data import MISSING, CannotWrite, Data, VisibleData
from holdfast.workflows.engine.state.path_index import PathIndex
from holdfast.workflows.engine.state.references import nothing_at, references

MAX_CIRCLE_TOLD = 20
# For each call those that it waits for.
_Waits = dict[ToolCall, list[ToolCall]]


def connect(calls: Sequence[ToolCall], *, sequential: bool = False) -> None:
    """Find what each call waits for among the others; in a sequential turn, among those before."""
    writers, again = PathIndex[int](), list[int]()
    for index, call in enumerate(calls):
        places = _places(call)
        call.earlier_writers = [calls[i] for i in sorted(writers.crossing(places))]
        again.append(min(writers.meeting(places), default=index))
        if sequential:
            call.sources = [calls[i] for i in sorted(writers.meeting(_reads(call)))]
        for place in places:
            writers.add(place, index)
    for index, call in enumerate(() if sequential else calls):
        found = sorted(writers.meeting(_reads(call)))
        # A later call is waited for where it does not write again what one up to here has written.
        call.sources = [calls[i] for i in found if i < index or (i > index and again[i] > index)]
    for other in dict.fromkeys(other for call in calls for other in _awaited(call)):
        other.has_dependents = True


def paths_read(call: ToolCall) -> Iterator[Path]:
    """Every place that a call's arguments refer to, as often as they do."""
    if call.is_literal:
        return
    for reference in references(call.raw_arguments, call.instance):
        yield from reference.paths


def find_cycles(calls: Sequence[ToolCall], *, references: bool) -> dict[ToolCall, str]:
    """The open calls that wait for each other in a circle, each with the circle in words: by what
    they refer to alone, or also since one writes after the other.

    What is left after taking away, again and again, calls that wait for none of those left and
    calls that none of those left waits for, stands in a circle or between two of them.
    """
    open_ = dict.fromkeys(call for call in calls if call.stage is not CallStage.ENDED)
    waits = _among(open_, {call: call.sources if references else _awaited(call) for call in open_})
    waits = _among(_entangled(waits), waits)
    left = _entangled(_reversed(waits))
    after = {
        call: next(one for one in waits[call] if one in left) for call in waits if call in left
    }
    return {call: _circle(begin, after) for call, begin in _entries(after).items()}


def explain_unresolvable(
    call: ToolCall, data: Data, gone: Callable[[ToolCall], bool] = lambda call: False
) -> str | None:
    """Why a call that waits for others can never have all that it refers to, if so; of those that
    are `gone`, nothing comes but their error."""
    coming = PathIndex(
        (place, source.id) for source in call.sources for place in _coming(source, gone)
    )
    lost = PathIndex(
        (place, source.id)
        for source in call.sources
        if gone(source)
        for place in _places(source)
        if not coming.meets(place)
    )
    seen = VisibleData(data, lost)
    for reference in references(call.raw_arguments, call.instance):
        paths = reference.paths
        hopes = [coming.meets(path) or seen.read(path) is not MISSING for path in paths]
        if not (all(hopes) if reference.choose == "all" else any(hopes)):
            vain = [path for path, hope in zip(paths, hopes, strict=True) if not hope]
            return nothing_at(vain, seen)
    return None


def visible_data(call: ToolCall, data: Data) -> VisibleData:
    """What a call reads, now that those that it waits for have ended."""
    seen, written = data, PathIndex[str]()
    for source in call.sources:
        seen, places = _with(seen, source)
        for place in places:
            written.add(place, source.id)
    void = PathIndex(
        (place, source.id)
        for source in call.sources
        for place in _places(source)
        if not written.meets(place)
    )
    return VisibleData(seen, void)


def check_write(call: ToolCall, state: RunState) -> None:
    """Make sure that what a call returned can be written, before others read it.

    Raises:
        CannotWrite: it cannot.
    """
    seen = state.data
    for earlier in call.earlier_writers:
        seen, _ = _with(seen, earlier)
    paths, value = writes_of(call, call.outcome)
    state.trial_write(seen, paths, value, call.output_method)


def _with(seen: Data, call: ToolCall) -> tuple[Data, list[Path]]:
    """The data with what a call has written, and where it has. What one that is closed has written
    is there already."""
    paths, value = writes_of(call, call.outcome)
    if call.is_closed:
        return seen, list(paths)
    trial = seen.copy()
    try:
        for path in paths:
            trial.set(path.kind, trial.written(path, call.output_method, value), path.instance)
    except CannotWrite:
        return seen, []
    return trial, list(paths)


def _places(call: ToolCall) -> tuple[Path, ...]:
    """Every place that a call may write to."""
    output = call.output_path
    return () if output is None else (*output.result, *output.error)


def _coming(call: ToolCall, gone: Callable[[ToolCall], bool]) -> tuple[Path, ...]:
    """Every place that a call may still write to."""
    if not gone(call):
        return _places(call)
    return () if call.output_path is None else call.output_path.error


def _reads(call: ToolCall) -> list[Path]:
    """Every place that a call refers to; one that is refused reads nothing."""
    return [] if call.stage is CallStage.ENDED else list(dict.fromkeys(paths_read(call)))


def _awaited(call: ToolCall) -> list[ToolCall]:
    return [*call.sources, *call.earlier_writers]


def _among(calls: Collection[ToolCall], waits: _Waits) -> _Waits:
    """What is left of who waits for whom, among some of the calls."""
    return {call: [other for other in waits[call] if other in calls] for call in calls}


def _reversed(waits: _Waits) -> _Waits:
    """For each call those that wait for it."""
    waited: _Waits = {call: [] for call in waits}
    for call, others in waits.items():
        for other in others:
            waited[other].append(call)
    return waited


def _entangled(waits: _Waits) -> dict[ToolCall, None]:
    """The calls that stay after taking away, again and again, those that wait for none left."""
    count = {call: len(others) for call, others in waits.items()}
    waited = _reversed(waits)
    free = [call for call, others in count.items() if not others]
    while free:
        for call in waited[free.pop()]:
            count[call] -= 1
            if not count[call]:
                free.append(call)
    return {call: None for call, others in count.items() if others}


def _entries(after: dict[ToolCall, ToolCall]) -> dict[ToolCall, ToolCall]:
    """For each call the first of a circle that it comes to, going on from one to the next."""
    entries: dict[ToolCall, ToolCall] = {}
    for begin in after:
        way, call = dict[ToolCall, None](), begin
        while call not in way and call not in entries:
            way[call] = None
            call = after[call]
        while call not in entries:
            entries[call] = call
            call = after[call]
        for passed in way:
            entries.setdefault(passed, entries[call])
    return {call: entries[call] for call in after}


def _circle(begin: ToolCall, after: dict[ToolCall, ToolCall]) -> str:
    """The calls of a circle, from one back to it."""
    told, call = [begin.id], after[begin]
    while call is not begin and len(told) < MAX_CIRCLE_TOLD:
        told.append(call.id)
        call = after[call]
    told += [begin.id] if call is begin else ["…", begin.id]
    return " → ".join(told)
