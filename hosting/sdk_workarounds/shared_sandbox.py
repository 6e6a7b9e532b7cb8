"""One sandbox for all runs of a worker.

Temporal's own sandbox reads the modules of a workflow anew for each run: tens of milliseconds, and
megabytes that stay for as long as the run is cached. Here they are read once, under the same
restrictions, and a run is an instance of the class that was read. What is refused stays refused, at
import and at work: a line that asks the clock, chance or the outside world. What a run no longer
has is modules of its own, so these must keep nothing of a run; a test looks after that.

Runs are carried on in several threads at once. What the SDK puts in place of `sys.modules`,
`__import__` and builtins, it puts there for one thread. That leaves what restrictions ask of their
context: is this work, or still the import? Here it is the import in the thread that reads modules,
for as long as it does, and work in every other.

This is the one file that uses parts of `temporalio` which are not public: `Importer`, `InSandbox`,
`RestrictionContext` and `unsafe._set_in_sandbox`. `hosting.sdk_workarounds.workflow_runner` sees to
it that a worker for which they are not what they were does not start.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import get_ident
from types import ModuleType
from typing import Any

from temporalio import workflow
from temporalio.worker import UnsandboxedWorkflowRunner, WorkflowInstance, WorkflowInstanceDetails
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions
from temporalio.worker.workflow_sandbox._importer import Importer
from temporalio.worker.workflow_sandbox._in_sandbox import InSandbox
from temporalio.worker.workflow_sandbox._restrictions import RestrictionContext

from holdfast.hosting.sdk_workarounds.query_divergence import DivergenceDetector


class _Context(RestrictionContext):
    """Work, but for the thread that reads modules."""

    def __init__(self) -> None:
        self.reader: int | None = None

    @property
    def is_runtime(self) -> bool:  # type: ignore[override]  # nobody else is to set it
        """Whether what is restricted at work is refused."""
        return get_ident() != self.reader

    @property
    def in_activation(self) -> bool:  # type: ignore[override]
        """Whether a module that is read now comes late."""
        return self.is_runtime


class Sandbox:
    """The modules that runs share, and the way in."""

    def __init__(self, restrictions: SandboxRestrictions) -> None:
        self._context = _Context()
        self._importer = Importer(restrictions, self._context)
        self._classes: dict[type, type] = {}

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Be inside, in this thread."""
        workflow.unsafe._set_in_sandbox(True)
        try:
            with self._importer.applied():
                yield
        finally:
            workflow.unsafe._set_in_sandbox(False)

    def modules(self) -> dict[str, ModuleType]:
        """What was read inside, by name."""
        inside = self._importer.new_modules
        return {name: one for name, one in inside.items() if sys.modules.get(name) is not one}

    def inside(self, outside: type) -> type:
        """A workflow's class as it is read inside; the first time, it is read."""
        if outside not in self._classes:
            self._classes[outside] = self._read(outside)
        return self._classes[outside]

    def _read(self, outside: type) -> type:
        self._context.reader = get_ident()
        try:
            with self.entered():
                module = __import__(outside.__module__, fromlist=[outside.__name__])
        finally:
            self._context.reader = None
        inside: type = getattr(module, outside.__name__)
        if inside is outside:
            raise ValueError(f"{outside.__module__} is passed through: it would not be restricted")
        return inside


class _Run(WorkflowInstance):
    """One run, inside whenever it is carried on."""

    def __init__(self, sandbox: Sandbox, details: WorkflowInstanceDetails) -> None:
        self._sandbox = sandbox
        self._info = details.info
        self._thread_id: int | None = None
        self._ahead = DivergenceDetector()
        class_ = sandbox.inside(details.defn.cls)
        with sandbox.entered():
            self._inside = InSandbox(details, UnsandboxedWorkflowRunner, class_)

    def activate(self, act: Any) -> Any:
        self._thread_id = get_ident()
        try:
            self._ahead.check(act)
            with self._sandbox.entered():
                completion = self._inside.activate(act)
            self._ahead.note(act, completion)
            return completion
        finally:
            self._thread_id = None

    # The SDK's own, without a line of the workflow's: nobody need go inside for it.

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
    """Runs workflows in one sandbox that is theirs together."""

    sandbox: Sandbox = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """Make the sandbox; the SDK makes a runner anew where it is to debug."""
        object.__setattr__(self, "sandbox", Sandbox(self.restrictions))

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        """A run; the SDK makes one of each class when a worker is built, which reads them all."""
        return _Run(self.sandbox, det)
