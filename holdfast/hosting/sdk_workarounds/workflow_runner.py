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
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from typing import Final

from temporalio.worker.workflow_sandbox import (
    RestrictedWorkflowAccessError,
    SandboxedWorkflowRunner,
    SandboxRestrictions,
)

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
    "the order of what Temporal applies again after a reset: a call may run twice, a run get stuck",
    "no walk over payloads that changes nothing: each turn takes a millisecond more",
)

logger = logging.getLogger("holdfast")


def is_own_workflow(cls: type) -> bool:
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


def _shared_runner(restrictions: SandboxRestrictions) -> SandboxedWorkflowRunner | None:
    """Return the shared sandbox if it restricts modules and builtins; trying has no effect."""
    try:
        from holdfast.hosting.sdk_workarounds.payload_passes import skip_idle_passes
        from holdfast.hosting.sdk_workarounds.shared_sandbox import SharedSandboxRunner

        runner = SharedSandboxRunner(restrictions)
        with runner.sandbox.entered:
            restricted = __import__("time") is not time
        # `Path.open` is restricted by another means, which logs each refusal.
        with (
            runner.sandbox.entered,
            suppress(RestrictedWorkflowAccessError),
            open(os.devnull),  # noqa: PTH123
        ):
            restricted = False
    except (ImportError, AttributeError, TypeError):
        return None
    if not restricted:
        return None
    skip_idle_passes()
    return runner
