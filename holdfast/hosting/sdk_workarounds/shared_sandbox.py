"""One sandbox for all runs of a worker.

Temporal's own sandbox imports the modules of a workflow again for each run: this takes tens of
milliseconds, and megabytes for as long as the run is cached. Here they are imported once, under the
same restrictions, and a run is an instance of the imported class. This sandbox rejects what
Temporal's rejects, while modules are imported and while a run works. Runs share their modules, so
that these must not keep state of a run; a test checks that.

Runs work in several threads at once. The SDK replaces `sys.modules`, `__import__` and builtins for
one thread each. Restrictions also depend on whether modules are being imported: here, that is true
in the importing thread alone, for as long as it imports.

Private: `Importer` with its overrides, `InSandbox`, `RestrictionContext`, `unsafe._set_in_sandbox`,
`_apply_update_random_seed`.
"""

import builtins
import sys
from dataclasses import dataclass, field
from threading import get_ident, local
from typing import Any

from temporalio import workflow
from temporalio.worker import UnsandboxedWorkflowRunner, WorkflowInstance, WorkflowInstanceDetails
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions
from temporalio.worker.workflow_sandbox._importer import (
    Importer,
    _thread_local_import,
    _thread_local_sys_modules,
)
from temporalio.worker.workflow_sandbox._in_sandbox import InSandbox
from temporalio.worker.workflow_sandbox._restrictions import RestrictionContext

from holdfast.hosting.sdk_workarounds.first_seed import with_first_seed

_TYPE_CHECKS = ("isinstance", "issubclass")


class _Context(RestrictionContext):
    """A restriction context that exempts imports in the importing thread alone."""

    def __init__(self) -> None:
        self.importing_thread: int | None = None

    @property
    def is_runtime(self) -> bool:  # type: ignore[override]  # read-only
        return get_ident() != self.importing_thread

    @property
    def in_activation(self) -> bool:  # type: ignore[override]
        """Return whether a module imported now is imported late."""
        return self.is_runtime


class _Entered:
    """This thread inside the sandbox, as with the SDK's `Importer.applied`.

    That makes thirteen generators each time, a tenth of what a turn takes of this thread.
    """

    def __init__(self, importer: Importer) -> None:
        self._importer = importer
        self._overrides: list[tuple[Any, str, Any, Any]] = [
            (sys, "modules", _thread_local_sys_modules, importer.new_modules),
            (builtins, "__import__", _thread_local_import, importer.import_func),
            *((builtins, *restricted) for restricted in importer.restricted_builtins),
        ]
        # In each thread, what the entries before were inside of.
        self._outer = local()

    def __enter__(self) -> None:
        workflow.unsafe._set_in_sandbox(True)
        current = Importer._thread_local_current.__dict__
        before = [current.get("importer")]
        current["importer"] = self._importer
        for place, name, override, use in self._overrides:
            with override.applied_counter_lock:
                override.applied_counter += 1
                if getattr(place, name) is not override:
                    setattr(place, name, override)
            before.append(override.maybe_current)
            override.current = use
        self._outer.__dict__.setdefault("stack", []).append(before)

    def __exit__(self, *_: object) -> None:
        importer, *before = self._outer.stack.pop()
        for (place, name, override, _use), outer in zip(self._overrides, before, strict=True):
            if outer is None:
                del override.current
            else:
                override.current = outer
            with override.applied_counter_lock:
                override.applied_counter -= 1
                if override.applied_counter == 0:
                    setattr(place, name, override.orig)
        Importer._thread_local_current.importer = importer
        workflow.unsafe._set_in_sandbox(False)


class Sandbox:
    """The imported modules that runs share."""

    def __init__(self, restrictions: SandboxRestrictions) -> None:
        self._context = _Context()
        self._importer = Importer(restrictions, self._context)
        # A turn makes hundreds of type checks. Our workflows make none with a restricted class,
        # which Temporal unwraps in each: without that, a turn takes a tenth less of this thread.
        self._importer.restricted_builtins = [
            each for each in self._importer.restricted_builtins if each[0] not in _TYPE_CHECKS
        ]
        self._classes: dict[type, type] = {}
        self.entered = _Entered(self._importer)
        """A context in which this thread is inside the sandbox."""

    def sandboxed_class(self, outside: type) -> type:
        """Return the class of a workflow as imported inside, importing it the first time."""
        if outside in self._classes:
            return self._classes[outside]
        self._context.importing_thread = get_ident()
        try:
            with self.entered:
                module = __import__(outside.__module__, fromlist=[outside.__name__])
        finally:
            self._context.importing_thread = None
        inside: type = getattr(module, outside.__name__)
        if inside is outside:
            raise ValueError(f"{outside.__module__} is passed through: it would not be restricted")
        self._classes[outside] = inside
        return inside


class _SandboxedRun(WorkflowInstance):
    def __init__(self, sandbox: Sandbox, details: WorkflowInstanceDetails) -> None:
        self._sandbox = sandbox
        self._info = details.info
        self._thread_id: int | None = None
        class_ = sandbox.sandboxed_class(details.defn.cls)
        with sandbox.entered:
            self._inside: Any = InSandbox(details, UnsandboxedWorkflowRunner, class_)

    def activate(self, act: Any) -> Any:
        self._thread_id = get_ident()
        try:
            with self._sandbox.entered:
                # The seed is the only sign of a reset: later, what Temporal applies again would
                # start calls that may have run. Of that, signals come first, as they do at replay.
                if len(act.jobs) > 1:
                    for job in [each for each in act.jobs if each.HasField("update_random_seed")]:
                        self._inside.instance._apply_update_random_seed(job.update_random_seed)
                        act.jobs.remove(job)
                    act.jobs.sort(key=lambda job: job.HasField("do_update"))
                return self._inside.activate(act)
        finally:
            self._thread_id = None

    # These run no line of the workflow, so that they need not enter the sandbox.

    def get_serialization_context(self, command_info: Any) -> Any:
        return self._inside.get_serialization_context(command_info)

    def get_external_store_context(self, command_info: Any) -> Any:
        return self._inside.get_external_store_context(command_info)

    def get_info(self) -> workflow.Info:
        return self._info

    def get_thread_id(self) -> int | None:
        return self._thread_id


@dataclass(frozen=True)
class SharedSandboxRunner(SandboxedWorkflowRunner):
    """Run all workflows in one sandbox."""

    sandbox: Sandbox = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """Make the sandbox; the SDK makes another runner in debug mode."""
        object.__setattr__(self, "sandbox", Sandbox(self.restrictions))

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        """Create a run; building a worker makes one of each class, which imports all of them."""
        return _SandboxedRun(self.sandbox, with_first_seed(det))
