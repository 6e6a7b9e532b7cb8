"""Continuing as new: when a run goes on under a history of its own, and what it takes along.

History grows with what happens, and Temporal bounds it. So a run goes on as a new one, between two
turns: it takes along all that it keeps, and leaves its history behind. What it takes is the first
thing in the new history, so it is to be small beside what is left: with a log that grows for ever
and is taken along whole, each time a little later, a turn costs the same whenever it is taken.
Where the worker has a store outside of Temporal, the pages of the log are only referred to.

    is it due?          Temporal suggests it, and it is worth its while; or a bound is reached; or
                        another build of the worker is to go on with it
    does it fit?        if not, what is summarised of the log is left out, the oldest first
    is anybody waiting? an answer that someone waits for is given first, unless a bound presses
"""

import json
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from holdfast.schemas.agent import AgentSnapshot
from holdfast.schemas.base import Lenient
from holdfast.schemas.internal.continue_as_new import Continued
from holdfast.schemas.names import ErrorCode
from holdfast.schemas.run import RunRequest
from holdfast.workflows.engine.log.log import Log
from holdfast.workflows.engine.log.spans import SpansProgress
from holdfast.workflows.engine.run import Run, RunSnapshot

# Far under what Temporal allows (51,200 events, 50 MB): one turn may add much to it.
PRESSING_EVENTS = 20_000
PRESSING_BYTES = 20_000_000
# Or this many times the operator's own bound.
PATIENCE = 5
# Where this is reached all the same, nothing could be taken along: the run ends, and says so.
LAST_EVENTS = 45_000
LAST_BYTES = 45_000_000
# Temporal takes two megabytes to start a run with; a value of it is to stay under one.
MAX_CARRIED_BYTES = 1_700_000
MAX_VALUE_BYTES = 700_000
# So many times as large is the history that is left to be as what is taken along.
WORTH = 10
# What entries are compressed to, about, that are not yet.
_COMPRESSION = 3

_NOTE = "Goes on where the run before it left off. What it keeps follows, compressed."
_TASK_CHARACTERS = 200

# What ends a run that can neither stay nor leave.
_STUCK = (
    "the run's history is as long as Temporal allows, and what it keeps is too large to be taken"
    " along to a new one: start it anew where the worker has a `--store`"
)


class WorkflowSnapshot(Lenient):
    """All that a run continues from, without the pages of its log.

    The request lacks what the log holds of it; `notes` counts the notes on what was ignored;
    `spans` is there where the run is traced. One version of the worker writes it, and a later one
    may read it: a field, here or inside, is added with a default and never removed.
    """

    request: RunRequest
    snapshot: AgentSnapshot
    run: RunSnapshot
    notes: int = 0
    spans: SpansProgress | None = None

    def to_json(self) -> dict[str, Any]:
        """Return every field: what is at its default now is to be so after an update, too."""
        return self.model_dump(mode="json", by_alias=True)


@dataclass(frozen=True)
class HistoryLength:
    """How long a run's history is; `suggested`: Temporal says that it is long.

    `bound_events` is the operator's own bound. `elsewhere`: runs are to be on another build of the
    worker now.
    """

    events: int
    size_bytes: int
    is_suggested: bool = False
    bound_events: int | None = None
    build_changed: bool = False

    @property
    def is_pressing(self) -> bool:
        """Return whether there is no time to wait for anybody."""
        most = PRESSING_EVENTS
        if self.bound_events is not None:
            most = min(most, PATIENCE * self.bound_events)
        return self.events >= most or self.size_bytes >= PRESSING_BYTES

    @property
    def is_at_limit(self) -> bool:
        """Return whether nothing more can be done."""
        return self.events >= LAST_EVENTS or self.size_bytes >= LAST_BYTES


def is_due(length: HistoryLength, log: Log, *, stored: bool) -> bool:
    """Return whether the run is to continue as new.

    `stored`: the pages of its log are kept elsewhere.
    """
    if length.is_pressing:
        return True
    if length.bound_events is not None and length.events >= length.bound_events:
        return True
    taken = sum(len(page.data) for page in log.pages) + log.open_bytes // _COMPRESSION
    return length.is_suggested and (stored or length.size_bytes >= WORTH * taken)


def should_move(length: HistoryLength, run: Run) -> bool:
    """Return whether a run at rest is to continue as new so that another build goes on with it.

    One that has only just come is to stay for a turn: builds could hand it back and forth for ever.
    """
    return length.build_changed and run.has_taken_a_turn


def snapshot_of(
    run: Run,
    request: RunRequest,
    snapshot: AgentSnapshot,
    *,
    notes: int = 0,
    spans: SpansProgress | None = None,
) -> WorkflowSnapshot:
    """Return all that a run at rest takes along, besides the pages of its log.

    Everything is in these.
    """
    run.state.log.seal_all()
    without: dict[str, Any] = {
        "agent": snapshot.agent.name,
        "context": [],
        "input": None,
        "state": None,
    }
    return WorkflowSnapshot(
        request=request.model_copy(update=without),
        snapshot=snapshot,
        run=run.snapshot(),
        notes=notes,
        spans=spans,
    )


def resume(
    snapshot: WorkflowSnapshot, pages: Iterable[bytes], clock: Callable[[], datetime]
) -> Run:
    """Return the run of a snapshot.

    The mailbox and the pending approvals are those of the snapshot.
    """
    return Run(snapshot.run, snapshot.request, snapshot.snapshot.agent, clock, pages)


def is_crowded(log: Log, forgettable: int) -> bool:
    """Return whether much of what cannot be taken along is what a model still reads."""
    read = sum(len(page.data) for page in log.pages if page.last > forgettable)
    return read > MAX_CARRIED_BYTES // 8


def stay_in_history(run: Run, length: HistoryLength) -> None:
    """What a run does that cannot be taken along.

    It has its log summarised where that helps, and ends where nothing more can be done.
    """
    if length.is_at_limit:
        run.fail(ErrorCode.BLOCKED, _STUCK)
    elif is_crowded(run.state.log, run.forgettable):
        run.make_room()


def start_arguments(
    carried: WorkflowSnapshot, log: Log, *, stored: bool, forgettable: int
) -> list[Any] | None:
    """Return what the new run is started with; None where it is too large for Temporal.

    Where there is no store, pages of entries up to number `forgettable` may be left out of the log.
    """
    body = _compressed(carried)
    room = None if stored else MAX_CARRIED_BYTES - len(body)
    pages = _with_room(log, forgettable, room)
    if pages is None:
        return None
    pieces = [_pieces(each) for each in (body, *pages)]
    head = Continued(
        note=_NOTE,
        agent=carried.snapshot.agent.name,
        task=_task(carried),
        turns=carried.run.kept.meter.turns,
        entries=len(log),
        body=len(pieces[0]),
        pages=[len(each) for each in pieces[1:]],
    )
    return [head.to_json(), *(piece for each in pieces for piece in each)]


def read_start_arguments(values: Sequence[Any]) -> tuple[WorkflowSnapshot, list[bytes]]:
    """Return what a parcel holds: all but the log, and the pages of that.

    Raises:
        ValueError: it is none.
    """
    if len(values) < 2 or not all(isinstance(value, bytes) for value in values[1:]):
        raise ValueError("a run continues with what another has left it, and with nothing else")
    head, *pieces = values
    index = Continued.read(head)
    counts = [index.body, *index.pages]
    if sum(counts) != len(pieces):
        raise ValueError(f"{len(pieces)} parts of it came, of {sum(counts)}")
    left = iter(pieces)
    body, *pages = (b"".join(next(left) for _ in range(count)) for count in counts)
    try:
        return WorkflowSnapshot.read(json.loads(zlib.decompress(body))), pages
    except zlib.error as error:
        raise ValueError(f"what was left cannot be read: {error}") from None


def _task(carried: WorkflowSnapshot) -> str:
    """Return the beginning of what the run was asked for."""
    found = (one.value for one in carried.run.kept.data if one.kind == "input")
    value: Any = next(found, None)
    task = value.get("is") if isinstance(value, dict) else None
    text = task if isinstance(task, str) else json.dumps(task, ensure_ascii=False)
    return "" if task is None else text[:_TASK_CHARACTERS]


def _compressed(carried: WorkflowSnapshot) -> bytes:
    text = json.dumps(carried.to_json(), separators=(",", ":"), ensure_ascii=False)
    return zlib.compress(text.encode("utf-8", "surrogatepass"))


def _with_room(log: Log, forgettable: int, room: int | None) -> list[bytes] | None:
    """Return the pages, the oldest of them empty where there is no room.

    None if they cannot be made to fit.
    """
    pages = [page.data for page in log.pages]
    left = 0 if room is None else sum(map(len, pages)) - room
    for position, page in enumerate(log.pages):
        if left <= 0 or page.last > forgettable:
            break
        left -= len(page.data)
        pages[position] = b""
    return pages if left <= 0 else None


def _pieces(page: bytes) -> list[bytes]:
    return [page[at : at + MAX_VALUE_BYTES] for at in range(0, len(page), MAX_VALUE_BYTES)]
