"""The dependency graph of one turn: which call needs which, and the data of each.

A call with a reference to a place that another call of its turn writes needs that call, at any
position in the answer. Calls that write to one place run one after the other, in source order, and
a reader between two of them reads the first: a later call is not needed if it only repeats a write
of an earlier one. So do writes to the agent's memory, and reads of it after a write.

A call reads the data as it was when the turn started, overlaid with the writes of the calls that it
needs, in source order. So the order in which other calls end never matters. If every call that was
to write a place has failed, the place is empty: no call uses an old value in place of a new one.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from holdfast.schemas.reference import ITEM, Path, references_in
from holdfast.workflows.engine.call.states import Dependencies, ToolCall
from holdfast.workflows.engine.execution.preparation import paths_read
from holdfast.workflows.engine.run_state import RunState
from holdfast.workflows.engine.state.data import MISSING, CannotWrite, Data, PathIndex, VisibleData
from holdfast.workflows.engine.state.references import missing_reason

MAX_CYCLE_CALLS = 20
# Maps each call to the calls that it needs.
_Graph = dict[ToolCall, list[ToolCall]]


def connect(calls: Sequence[ToolCall], *, is_sequential: bool = False) -> None:
    """Set the dependencies of each call on the others; in a sequential turn, on earlier ones."""
    writers, repeats = PathIndex[int](), list[int]()
    earlier: list[list[ToolCall]] = []
    # The last write to the memory, and the reads after it.
    written, read = list[ToolCall](), list[ToolCall]()
    for index, call in enumerate(calls):
        earlier.append([calls[i] for i in sorted(writers.crossing(call.places))])
        match call.proposed.tool and call.proposed.tool.memory_use:
            case "write":
                earlier[index] += written + read
                written, read = [call], []
            case "read":
                earlier[index] += written
                read.append(call)
        repeats.append(min(writers.meeting(call.places), default=index))
        for place in call.places:
            writers.add(place, index)
    graph = []
    for index, call in enumerate(calls):
        # A refused call reads nothing.
        arguments = {} if call.has_ended else call.prepared.raw_arguments
        reads = dict.fromkeys(paths_read(arguments, call.prepared))
        sources = [
            calls[i]
            for i in sorted(writers.meeting(reads))
            # A later call is needed unless it only repeats a write of an earlier one.
            if i < index or (i > index and repeats[i] > index and not is_sequential)
        ]
        needed = list(dict.fromkeys((*sources, *earlier[index])))
        graph.append(Dependencies(sources, earlier[index], needed))
    dependents = {other for each in graph for other in each.needed}
    for call, on in zip(calls, graph, strict=True):
        is_needed = call in dependents or call.dependencies.has_dependents
        call.depend(replace(on, has_dependents=is_needed))


def find_cycles(calls: Sequence[ToolCall], *, by_references: bool) -> dict[ToolCall, str]:
    """Find the open calls in a cycle, each with a description of the cycle.

    The edges are the references alone, or also the order of writes to one place. A call is in a
    cycle, or between two, if it remains after repeatedly removing the calls that need none of the
    rest, and the calls that none of the rest needs.
    """
    open_ = dict.fromkeys(call for call in calls if not call.has_ended)
    graph = {
        call: [
            other
            for other in (call.dependencies.sources if by_references else call.dependencies.needed)
            if other in open_
        ]
        for call in open_
    }
    graph = _reduced(graph)
    cyclic = _reduced(_reversed(graph))
    following = {
        call: next(one for one in graph[call] if one in cyclic) for call in graph if call in cyclic
    }
    # The first call of a cycle that each call leads to.
    entries: dict[ToolCall, ToolCall] = {}
    for begin in following:
        path, call = dict[ToolCall, None](), begin
        while call not in path and call not in entries:
            path[call] = None
            call = following[call]
        while call not in entries:
            entries[call] = call
            call = following[call]
        for passed in path:
            entries.setdefault(passed, entries[call])
    return {call: _cycle_text(entries[call], following) for call in following}


def explain_unresolvable(
    call: ToolCall, data: Data, is_gone: Callable[[ToolCall], bool] = lambda call: False
) -> str | None:
    """Explain why a pending call can never be resolved; one that `is_gone` writes an error."""
    sources = call.dependencies.sources
    coming, lost = PathIndex[str](), PathIndex[str]()
    for source in sources:
        output = source.meta.output_path
        may_write = source.places if not is_gone(source) else output.error if output else ()
        for place in may_write:
            coming.add(place, source.id)
    for source in sources:
        for place in source.places if is_gone(source) else ():
            if not coming.meets(place):
                lost.add(place, source.id)
    seen = VisibleData(data, lost)
    for reference in references_in(call.prepared.raw_arguments, call.meta.instance):
        paths = reference.paths
        missing = [
            path
            for path in paths
            if not (coming.meets(path) or (path.kind == ITEM and call.is_loop))
            and seen.read(path) is MISSING
        ]
        if missing and (reference.choose == "all" or len(missing) == len(paths)):
            return missing_reason(missing, seen)
    return None


def visible_data(call: ToolCall, data: Data) -> VisibleData:
    """Build the data that a call reads, once the calls that it needs have ended."""
    sources = call.dependencies.sources
    seen, written, void = data, PathIndex[str](), PathIndex[str]()
    for source in sources:
        seen, places = _with_writes(seen, source)
        for place in places:
            written.add(place, source.id)
    for source in sources:
        for place in source.places:
            if not written.meets(place):
                void.add(place, source.id)
    return VisibleData(seen, void)


def write_problem(call: ToolCall, state: RunState) -> str | None:
    """Return why the outcome of a call cannot be written, before others read it, if so."""
    seen = state.data
    for earlier in call.dependencies.earlier_writers:
        seen, _ = _with_writes(seen, earlier)
    paths, value = call.writes
    try:
        state.trial_write(seen, paths, value, call.meta.output_method)
    except CannotWrite as error:
        return str(error)
    return None


def _with_writes(data: Data, call: ToolCall) -> tuple[Data, Sequence[Path]]:
    """Return the data with the writes of a call, and their places; a closed call's are included."""
    paths, value = call.writes
    if call.is_closed:
        return data, paths
    trial, method = data.copy(), call.meta.output_method
    try:
        for path in paths:
            trial.set(path.kind, trial.value_after_write(path, method, value), path.instance)
    except CannotWrite:
        return data, ()
    return trial, paths


def _reversed(graph: _Graph) -> _Graph:
    needed_by: _Graph = {call: [] for call in graph}
    for call, others in graph.items():
        for other in others:
            needed_by[other].append(call)
    return needed_by


def _reduced(graph: _Graph) -> _Graph:
    """Return the graph after repeatedly removing the calls that need none of the rest."""
    count = {call: len(others) for call, others in graph.items()}
    needed_by = _reversed(graph)
    free = [call for call, others in count.items() if not others]
    while free:
        for call in needed_by[free.pop()]:
            count[call] -= 1
            if not count[call]:
                free.append(call)
    return {call: [other for other in graph[call] if count[other]] for call in graph if count[call]}


def _cycle_text(entry: ToolCall, following: dict[ToolCall, ToolCall]) -> str:
    ids, call = [entry.id], following[entry]
    while call is not entry and len(ids) < MAX_CYCLE_CALLS:
        ids.append(call.id)
        call = following[call]
    ids += [entry.id] if call is entry else ["…", entry.id]
    return " → ".join(ids)
