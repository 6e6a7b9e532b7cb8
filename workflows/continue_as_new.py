"""The chain of runs under one workflow id: how one leaves what it has to the next, and finds it."""

from dataclasses import dataclass
from typing import Any

from temporalio import workflow
from temporalio.common import TypedSearchAttributes

with workflow.unsafe.imports_passed_through():
    from holdfast.schemas.agent import AgentSnapshot, WorkerFacts
    from holdfast.schemas.run import RunRequest

from holdfast.workflows.engine.continue_as_new import (
    HistoryLength,
    WorkflowSnapshot,
    carried_from,
    is_due,
    moves,
    parcel,
    resumed,
    stay,
    unpacked,
)
from holdfast.workflows.engine.run import Run
from holdfast.workflows.handler_input import ParsedRequest, begins_again, read
from holdfast.workflows.publishing import search_attributes
from holdfast.workflows.publishing.trace import Trace

_EXAMPLE = '{"agent": …, "input": …}'
# On which build a run that moves begins: on the one that runs are to be on now.
_BUILD = workflow.ContinueAsNewVersioningBehavior.AUTO_UPGRADE


@dataclass(frozen=True)
class Left:
    """What the run before this one has left to it: all but the log, and the pages of that."""

    carried: WorkflowSnapshot
    pages: list[bytes]

    def resumed(self) -> Run:
        """The run, as it was left, with what its mailbox and approvals received since."""
        return resumed(self.carried, self.pages, workflow.now)


def begun_with(
    request: Any, more: tuple[Any, ...]
) -> tuple[ParsedRequest[RunRequest], Left | None]:
    """What a run is asked for, and what another has left to it, if one did.

    Only Temporal itself says that a run continues another: nobody can start one so. It says so as
    well of one that it began again by itself, with what somebody had started the first one with;
    `read` refuses those.
    """
    if workflow.info().continued_run_id is None or not more or begins_again():
        return read(request, more, RunRequest, _EXAMPLE), None
    try:
        left = Left(*unpacked([request, *more]))
    except ValueError as error:
        return ParsedRequest(wrong=str(error)), None
    return ParsedRequest(request=left.carried.request), left


def length(facts: WorkerFacts) -> HistoryLength:
    """How long the history is."""
    info = workflow.info()
    return HistoryLength(
        events=info.get_current_history_length(),
        size_bytes=info.get_current_history_size(),
        suggested=info.is_continue_as_new_suggested(),
        elsewhere=info.is_target_worker_deployment_version_changed(),
        bound_events=facts.continue_after,
    )


def is_to_go_on(run: Run, facts: WorkerFacts) -> bool:
    """Whether the run is to go on as a new one, now that it is between two turns: under a history
    of its own, or on another build of its worker."""
    now = length(facts)
    return run.at_rest and (moves(now, run) or is_due(now, run.state.log, stored=facts.store))


def leave(run: Run, request: RunRequest, snapshot: AgentSnapshot, notes: int, trace: Trace) -> None:
    """Go on as a new run, if what is to be taken along can be.

    Nothing may be awaited in here: what arrived meanwhile would stay behind.

    Raises:
        ContinueAsNewError: it goes on as a new one.
    """
    carried = carried_from(run, request, snapshot, notes=notes, spans=trace.progress)
    stored = snapshot.worker.store
    values = parcel(carried, run.state.log, stored=stored, forgettable=run.forgettable)
    if values is not None:
        # A copy: what is shown of this history is no longer true of the run.
        attributes = TypedSearchAttributes(list(workflow.info().typed_search_attributes))
        run.gone_on = True
        left = search_attributes.left(snapshot.worker.search_attributes)
        if left:
            workflow.upsert_search_attributes(left)
        workflow.continue_as_new(
            args=values,
            search_attributes=attributes,
            initial_versioning_behavior=_BUILD if length(snapshot.worker).elsewhere else None,
        )
    else:
        stay(run, length(snapshot.worker))
