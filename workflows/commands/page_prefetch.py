"""Pass new log entries to the process that the run is in.

The activity that calls the model most likely runs there, and then needs no query. Nothing that a
run does depends on it.
"""

from collections.abc import Callable

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from holdfast.schemas.internal.model_request import (
        HAND_OVER,
        ConversationPage,
        ConversationPageRequest,
        ConversationPointer,
    )


def prefetch_page(
    pointer: ConversationPointer, answer: Callable[[ConversationPageRequest], ConversationPage]
) -> None:
    """Offer the page up to the pointer, if the process accepts it."""
    take = workflow.extern_functions().get(HAND_OVER)
    if take is not None and not workflow.unsafe.is_replaying():
        take(workflow.info().workflow_id, pointer, answer)
