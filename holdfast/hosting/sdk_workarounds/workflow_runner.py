"""The workflow runner of a worker, by the version of `temporalio`.

On a known minor version, workflows run in one shared sandbox, which rejects what Temporal's own
rejects, with the workarounds for sdk-python issue 1591. On another version, or if the shared
sandbox does not reject what it must, all of them are off: workflows run in Temporal's own sandboxed
runner, and a warning names each workaround that is missing.

`workflows`, with the engine in it, is never passed through: a line there that reads the clock,
randomness or the outside world is rejected.
"""

import logging
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final, Self

from temporalio.api.common.v1 import Payload
from temporalio.worker import Worker, WorkflowInstance, WorkflowInstanceDetails, WorkflowRunner
from temporalio.worker.workflow_sandbox import (
    RestrictedWorkflowAccessError,
    SandboxedWorkflowRunner,
    SandboxRestrictions,
)

if TYPE_CHECKING:
    from holdfast.hosting.sdk_workarounds.shared_sandbox import SharedSandboxRunner
    from holdfast.hosting.worker_parts import WorkerParts

# The minor versions with which every workaround was tested.
KNOWN_VERSIONS: Final = ("1.34", "1.35")
# Modules that are pure, or whose impure parts workflows do not use.
PASSED_THROUGH: Final = (
    "holdfast.schemas",
    "holdfast.activities",
    "holdfast.runtime",
    "holdfast.providers",
    "holdfast.catalog",
    "holdfast.validation",
    "re2",
)
_WORKAROUNDS: Final = (
    "one sandbox for all runs: each run in the cache uses some megabytes more",
    "the check for a run that got ahead of its history (temporalio/sdk-python#1591)",
    "the removal of such a run from the cache",
    "a long time limit of the deadlock detector: a starved worker fails workflow tasks every 2 s",
)

logger = logging.getLogger("holdfast")


@dataclass(frozen=True)
class HoldfastRunner(SandboxedWorkflowRunner):
    """Run Holdfast's workflows with a runner of ours, and all others as before.

    The others run in Temporal's sandbox with these `restrictions`, which other plugins replace, or
    with `theirs` if the worker had another kind of runner.
    """

    ours: WorkflowRunner = field(kw_only=True)
    theirs: WorkflowRunner | None = field(default=None, kw_only=True)
    parts: "WorkerParts | None" = field(default=None, kw_only=True)
    """What the plugin has added to the worker."""

    @classmethod
    def beside(cls, theirs: WorkflowRunner) -> Self:
        """Return a runner for one worker, which had another one."""
        ours: WorkflowRunner = workflow_runner()
        if type(ours) is not SandboxedWorkflowRunner:
            from holdfast.hosting.sdk_workarounds.cached_runs import TrackingRunner

            ours = TrackingRunner(ours)
        if type(theirs) is SandboxedWorkflowRunner:
            # Modules of their workflows may import us: a client, an agent, a type.
            restrictions = theirs.restrictions.with_passthrough_modules("holdfast")
            return cls(restrictions, theirs.runner_class, ours=ours)
        return cls(ours=ours, theirs=theirs)

    def attach(self, worker: Worker) -> None:
        """Complete the workarounds with their worker, in whose event loop this is called."""
        if type(self.ours) is not SandboxedWorkflowRunner:
            self.ours.attach(worker)  # type: ignore[attr-defined]  # not imported before

    def query(
        self, workflow_id: str, name: str, arguments: Sequence[Payload]
    ) -> tuple[tuple[str, int], Payload] | None:
        """Answer a query of a run in the cache; see `TrackingRunner`. None: it is not there."""
        run = getattr(self.ours, "runs", {}).get(workflow_id)
        return run and run.query(name, arguments)

    def prepare_workflow(self, defn: Any) -> None:
        """Prepare a workflow; the SDK calls this."""
        runner = self._runner_of(defn)
        super().prepare_workflow(defn) if runner is None else runner.prepare_workflow(defn)

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        """Create a run; the SDK calls this."""
        runner = self._runner_of(det.defn)
        if runner is self.ours:
            # What fails a run of the user's is a defect in one of ours: its task is repeated.
            det = replace(det, worker_level_failure_exception_types=[])
        return super().create_instance(det) if runner is None else runner.create_instance(det)

    def set_worker_level_failure_exception_types(self, types: Any) -> None:
        """Pass on the types of the worker; the SDK calls this."""
        super().set_worker_level_failure_exception_types(types)
        if self.theirs is not None:
            self.theirs.set_worker_level_failure_exception_types(types)

    def _runner_of(self, defn: Any) -> WorkflowRunner | None:
        return self.ours if is_own_workflow(defn.cls) else self.theirs


def is_own_workflow(cls: type) -> bool:
    """Return whether a workflow is one of Holdfast's."""
    return cls.__module__.startswith("holdfast.workflows.")


@cache
def workflow_runner() -> SandboxedWorkflowRunner:
    """Return the one runner of this process: the shared sandbox, or else Temporal's own."""
    restrictions = SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH)
    installed = version("temporalio")
    if installed.rpartition(".")[0] in KNOWN_VERSIONS and (runner := _shared_runner(restrictions)):
        return runner
    for workaround in _WORKAROUNDS:
        logger.warning("off with temporalio %s, which is not supported: %s", installed, workaround)
    return SandboxedWorkflowRunner(restrictions=restrictions)


def _shared_runner(restrictions: SandboxRestrictions) -> "SharedSandboxRunner | None":
    """Return the shared sandbox if it restricts modules and builtins; trying has no effect."""
    try:
        from holdfast.hosting.sdk_workarounds.shared_sandbox import SharedSandboxRunner

        runner = SharedSandboxRunner(restrictions)
        with runner.sandbox.entered():
            restricted = __import__("time") is not time
        # `Path.open` is restricted by another means, which logs each refusal.
        with (
            runner.sandbox.entered(),
            suppress(RestrictedWorkflowAccessError),
            open(os.devnull),  # noqa: PTH123
        ):
            restricted = False
    except (ImportError, AttributeError, TypeError):
        return None
    return runner if restricted else None
