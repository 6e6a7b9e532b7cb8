"""Continue a run as a new one under the same workflow id, and resume it there."""

from dataclasses import dataclass
from typing import Any

from temporalio import workflow
from temporalio.common import TypedSearchAttributes

with workflow.unsafe.imports_passed_through():
    from holdfast.schemas.agent import AgentSnapshot, WorkerFacts
    from holdfast.schemas.run import RunRequest

from holdfast.workflows.commands import publisher
from holdfast.workflows.commands.interceptors import Trace
from holdfast.workflows.engine.continue_as_new import (
    HistoryLength,
    WorkflowSnapshot,
    is_due,
    read_start_arguments,
    should_move,
    snapshot_of,
    start_arguments,
    stay_in_history,
)
from holdfast.workflows.engine.run import Run
from holdfast.workflows.input import ParsedRequest, parse_request, restart_problem

_EXAMPLE = '{"agent": …, "input": …}'
# A run that moves to another build starts on the current one.
_BUILD = workflow.ContinueAsNewVersioningBehavior.AUTO_UPGRADE


@dataclass(frozen=True)
class PreviousRun:
    """The state that the previous run of the chain passed on, with the pages of its log."""

    snapshot: WorkflowSnapshot
    pages: list[bytes]

    def resume(self) -> Run:
        """Return the run with its state, and with the input that has arrived since."""
        kept = self.snapshot
        return Run(kept.run, kept.request, kept.snapshot.agent, workflow.now, self.pages)


def read_start(
    request: Any, more: tuple[Any, ...]
) -> tuple[ParsedRequest[RunRequest], PreviousRun | None]:
    """Return the request of a run, and the previous run that it continues, if any.

    Only Temporal marks a run as a continuation; no client can. It marks automatic restarts too,
    which have the arguments of the first run: `parse_request` rejects those.
    """
    if workflow.info().continued_run_id is None or not more or restart_problem():
        return parse_request(request, more, RunRequest, _EXAMPLE), None
    try:
        previous = PreviousRun(*read_start_arguments([request, *more]))
    except ValueError as error:
        return ParsedRequest(problem=str(error)), None
    return ParsedRequest(request=previous.snapshot.request), previous


def history_length(facts: WorkerFacts) -> HistoryLength:
    """Measure the history."""
    info = workflow.info()
    return HistoryLength(
        events=info.get_current_history_length(),
        size_bytes=info.get_current_history_size(),
        is_suggested=info.is_continue_as_new_suggested(),
        build_changed=info.is_target_worker_deployment_version_changed(),
        bound_events=facts.continue_after,
    )


def should_continue_as_new(run: Run, facts: WorkerFacts) -> bool:
    """Return whether the run is between two turns and its history long or its build another."""
    now = history_length(facts)
    return run.is_between_turns and (
        should_move(now, run) or is_due(now, run.state.log, stored=facts.store)
    )


def continue_as_new(
    run: Run, request: RunRequest, snapshot: AgentSnapshot, notes: int, trace: Trace
) -> None:
    """Continue as a new run, unless the state is too large to pass on.

    Awaits nothing: input that arrived meanwhile would be lost.

    Raises:
        ContinueAsNewError: The run continues.
    """
    carried = snapshot_of(run, request, snapshot, notes=notes, spans=trace.progress)
    stored = snapshot.worker.store
    values = start_arguments(
        carried, run.state.log, stored=stored, forgettable=run.summaries.progress.since
    )
    if values is not None:
        # A copy, since the update below is for this history and not for the next run.
        attributes = TypedSearchAttributes(list(workflow.info().typed_search_attributes))
        run.continued_as_new = True
        left = publisher.continued_updates(snapshot.worker.search_attributes)
        if left:
            workflow.upsert_search_attributes(left)
        workflow.continue_as_new(
            args=values,
            search_attributes=attributes,
            initial_versioning_behavior=_BUILD
            if history_length(snapshot.worker).build_changed
            else None,
        )
    else:
        stay_in_history(run, history_length(snapshot.worker))
