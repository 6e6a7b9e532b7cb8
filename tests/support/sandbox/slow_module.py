"""A workflow whose module takes its time to be read."""

import time

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from tests.support.sandbox.meeting import meet

# A module may ask the clock while it is read; a running workflow may not.
READ_AT = time.time()
meet()


@workflow.defn
class SlowModule:
    """A workflow that is not run."""

    @workflow.run
    async def run(self) -> None:
        """Do nothing."""
