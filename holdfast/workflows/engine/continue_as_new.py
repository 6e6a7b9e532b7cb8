"""Continue-as-new: when a run continues under a new history, and the snapshot that it passes on.

History grows with each event, and Temporal limits it. So a run continues as new between two turns:
it passes on its whole state and leaves its history behind. The snapshot is the first event of the
new history, so it has to be small compared with the old history: if a growing log is copied whole
each time, the cost per turn stays constant only if the interval grows with the log. If the worker
has an external store, the snapshot only refers to the pages of the log.

    due?            Temporal suggests it and the saving is large enough, a bound is reached,
                    or another build of the worker has to continue the run
    does it fit?    if not, pages that a summary covers are left out, the oldest first
    callers?        an answer that a caller waits for is sent first, unless a bound is near
"""

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.schemas.agent import AgentSnapshot, ResolvedAgent
from holdfast.schemas.base import Lenient
from holdfast.schemas.internal.continue_as_new import Continued
from holdfast.schemas.names import ErrorCode
from holdfast.schemas.run import RunRequest
from holdfast.schemas.tool import ResolvedTool
from holdfast.validation.content_cache import cached_by_content
from holdfast.workflows.engine.log.log import Log, decompress
from holdfast.workflows.engine.log.spans import SpansProgress
from holdfast.workflows.engine.run import AgentRun, RunSnapshot
from holdfast.workflows.engine.state.references import as_text

# Far under Temporal's limits (51,200 events, 50 MB): one turn may add many events.
PRESSING_EVENTS = 20_000
PRESSING_BYTES = 20_000_000
# Or this multiple of the operator's own bound.
PATIENCE = 5
# At this length the state could not be passed on: the run ends with an error.
LAST_EVENTS = 45_000
LAST_BYTES = 45_000_000
# Temporal accepts two megabytes of start arguments; each value has to stay under one.
MAX_CARRIED_BYTES = 1_700_000
MAX_VALUE_BYTES = 700_000
# The history must be this many times as large as the snapshot.
WORTH = 10
# The estimated compression ratio of entries that are not compressed yet.
_COMPRESSION = 3

_NOTE = "Continues the previous run. Its state follows, compressed."
_TASK_CHARACTERS = 200

# The error of a run that can neither stay in its history nor continue as new.
_STUCK = (
    "the run's history is as long as Temporal allows, and its state is too large to pass on to a"
    " new one: start the run again on a worker with a `--store`"
)


class WorkflowSnapshot(Lenient):
    """The state from which a run continues, without the pages of its log.

    The request lacks the values that the log holds; `notes` counts the notes on ignored input;
    `spans` is set if the run is traced. One version of the worker writes it, and a later one may
    read it: a field, here or nested, is added with a default and never removed.
    """

    request: RunRequest
    snapshot: AgentSnapshot
    run: RunSnapshot
    notes: int = 0
    spans: SpansProgress | None = None

    def to_json(self) -> dict[str, Any]:
        """Return every field, so that a changed default does not change a stored snapshot."""
        return self.model_dump(mode="json", by_alias=True)


@dataclass(frozen=True)
class HistoryLength:
    """The length of a run's history.

    `is_suggested`: Temporal suggests to continue as new. `bound_events` is the operator's own
    bound. `build_changed`: runs have to continue on another build of the worker.
    """

    events: int
    size_bytes: int
    is_suggested: bool = False
    bound_events: int | None = None
    build_changed: bool = False

    @property
    def is_pressing(self) -> bool:
        """Return whether the run must continue as new without waiting for callers."""
        most = PRESSING_EVENTS
        if self.bound_events is not None:
            most = min(most, PATIENCE * self.bound_events)
        return self.events >= most or self.size_bytes >= PRESSING_BYTES


def is_due(length: HistoryLength, run: AgentRun, *, stored: bool) -> bool:
    """Return whether a run between two turns has to continue as new.

    A run that has just moved to another build stays for a turn: otherwise two builds could move it
    back and forth forever. `stored`: a store has its log's pages.
    """
    log, has_moved = run.state.log, run.state.meter.turns == run.turns_before
    is_full = length.bound_events is not None and length.events >= length.bound_events
    if length.is_pressing or is_full or (length.build_changed and not has_moved):
        return True
    taken = sum(len(page.data) for page in log.pages) + log.open_bytes // _COMPRESSION
    return length.is_suggested and (stored or length.size_bytes >= WORTH * taken)


# Runs of one definition share what it is read as: with fifty tools it takes half a megabyte.
_SHARED = {
    "agent": cached_by_content(ResolvedAgent.read),
    "tool": cached_by_content(ResolvedTool.read),
}


def with_shared_definition(snapshot: dict[str, Any]) -> dict[str, Any]:
    """Return a snapshot of an agent or a tool as JSON with the object that its runs share."""
    shared = {key: read(snapshot[key]) for key, read in _SHARED.items() if key in snapshot}
    return {**snapshot, **shared}


def without_values(request: RunRequest, agent: ResolvedAgent) -> RunRequest:
    """Return a request without the values that its run has in its state and its log."""
    update: dict[str, Any] = {"agent": agent.name, "context": [], "input": None, "state": None}
    update["fork"] = None
    return request.model_copy(update=update)


def snapshot_of(
    run: AgentRun,
    request: RunRequest,
    snapshot: AgentSnapshot,
    notes: int,
    spans: SpansProgress | None,
) -> WorkflowSnapshot:
    """Seal the log, and return the state that a run between two turns passes on besides it.

    The new history begins with the principal as they are now.
    """
    run.state.log.seal_all()
    left = without_values(request, snapshot.agent)
    return WorkflowSnapshot(
        request=left.model_copy(update={"principal": run.state.principal}),
        snapshot=snapshot,
        run=run.snapshot(),
        notes=notes,
        spans=spans,
    )


def stay_in_history(run: AgentRun, length: HistoryLength) -> None:
    """Summarise a log that cannot be passed on; fail at the limit of the history."""
    if length.events >= LAST_EVENTS or length.size_bytes >= LAST_BYTES:
        run.fail(ErrorCode.BLOCKED, _STUCK)
        return
    # What the model still reads cannot be left out.
    read = [page for page in run.state.log.pages if page.last > run.summaries.progress.since]
    if sum(len(page.data) for page in read) > MAX_CARRIED_BYTES // 8:
        run.summaries.make_room()


def start_arguments(
    carried: WorkflowSnapshot, log: Log, *, stored: bool, forgettable: int
) -> list[Any] | None:
    """Return start arguments, without a store up to Temporal's size: None if that is exceeded."""
    text = json.dumps(carried.to_json(), separators=(",", ":"), ensure_ascii=False)
    body = zlib.compress(text.encode("utf-8", "surrogatepass"))
    pages = [page.data for page in log.pages]
    excess = 0 if stored else sum(map(len, pages)) + len(body) - MAX_CARRIED_BYTES
    for position, page in enumerate(log.pages):
        if excess <= 0 or page.last > forgettable:
            break
        excess -= len(page.data)
        pages[position] = b""
    if excess > 0:
        return None
    pieces = [
        [each[at : at + MAX_VALUE_BYTES] for at in range(0, len(each), MAX_VALUE_BYTES)]
        for each in (body, *pages)
    ]
    values: dict[str, Any] = {one.kind: one.value for one in reversed(carried.run.kept.data)}
    task = values.get("input")
    task = task.get("is") if isinstance(task, dict) else None
    head = Continued(
        note=_NOTE,
        agent=carried.snapshot.agent.name,
        task="" if task is None else as_text(task)[:_TASK_CHARACTERS],
        turns=carried.run.kept.meter.turns,
        entries=len(log),
        body=len(pieces[0]),
        pages=[len(each) for each in pieces[1:]],
    )
    return [head.to_json(), *(piece for each in pieces for piece in each)]


def read_start_arguments(values: Sequence[Any]) -> tuple[WorkflowSnapshot, list[bytes]]:
    """Return the snapshot and pages of start arguments; `ValueError` if they have none."""
    if len(values) < 2 or not all(isinstance(value, bytes) for value in values[1:]):
        raise ValueError("a run continues only with the state that another run has passed on")
    head, *pieces = values
    index = Continued.read(head)
    counts = [index.body, *index.pages]
    if sum(counts) != len(pieces):
        raise ValueError(f"{len(pieces)} of its {sum(counts)} parts are present")
    left = iter(pieces)
    body, *pages = (b"".join(next(left) for _ in range(count)) for count in counts)
    carried = json.loads(decompress(body))
    carried["snapshot"] = with_shared_definition(carried["snapshot"])
    return WorkflowSnapshot.read(carried), pages
