"""The random seed with which a run begins: a reset, of which it is the only sign, changes it."""

from dataclasses import replace
from functools import partial

from temporalio.worker import WorkflowInstanceDetails

from holdfast.schemas import names


def with_first_seed(details: WorkflowInstanceDetails) -> WorkflowInstanceDetails:
    """Add a function that returns it to those that a workflow may call."""
    first_seed = {names.FIRST_SEED: partial(int, details.randomness_seed)}
    return replace(details, extern_functions={**details.extern_functions, **first_seed})
