"""Where workflows run, and what is let into it.

`workflows` stays inside, with the engine in it: a line there that asks the clock, chance or the
outside world is refused. What it only uses is not read again.
"""

import os
import time
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING

from temporalio.worker.workflow_sandbox import (
    RestrictedWorkflowAccessError,
    SandboxedWorkflowRunner,
    SandboxRestrictions,
)

from holdfast.hosting.process_exit import StartError, wrong_setup

if TYPE_CHECKING:
    from holdfast.hosting.sdk_workarounds.shared_sandbox import Sandbox

# Pure, or only ever used so.
PASSED_THROUGH = (
    "holdfast.schemas",
    "holdfast.activities",
    "holdfast.runtime",
    "holdfast.providers",
    "holdfast.catalog",
    "holdfast.validation.problems",
    "holdfast.validation.regex",
    "jsonschema",
    "jsonschema_specifications",
    "referencing",
    "rpds",
    "re2",
    "attr",
    "attrs",
)


@cache
def workflow_runner() -> SandboxedWorkflowRunner:
    """The sandbox of this process, tried.

    Raises:
        StartError: the installed `temporalio` has another sandbox than is known here.
    """
    restrictions = SandboxRestrictions.default.with_passthrough_modules(*PASSED_THROUGH)
    try:
        # It uses what may be gone in another version.
        from holdfast.hosting.sdk_workarounds.shared_sandbox import SharedSandboxRunner

        runner = SharedSandboxRunner(restrictions)
        refuses = _refuses(runner.sandbox)
    except (ImportError, AttributeError, TypeError) as error:
        raise _unknown() from error
    if not refuses:
        raise _unknown()
    return runner


def _refuses(inside: "Sandbox") -> bool:
    """Whether modules and builtins are restricted inside; nothing is done by asking."""
    with inside.entered():
        restricted = __import__("time") is not time
    # `Path.open` is restricted by another means, which writes each refusal into the log.
    with inside.entered(), suppress(RestrictedWorkflowAccessError), open(os.devnull):  # noqa: PTH123
        restricted = False
    return restricted


def _unknown() -> StartError:
    return wrong_setup(
        f"temporalio {version('temporalio')} has another sandbox for workflows than is known here",
        "install the version that stands in requirements/run.lock",
    )
