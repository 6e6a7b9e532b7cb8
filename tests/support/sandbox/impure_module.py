"""A workflow whose module asks chance when it is read."""

import random

from temporalio import workflow

NUMBER = random.random()


@workflow.defn
class ImpureModule:
    """A workflow that would be another in every worker."""

    @workflow.run
    async def run(self) -> float:
        """The number."""
        return NUMBER
