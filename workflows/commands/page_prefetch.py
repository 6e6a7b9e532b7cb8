"""Handing over what is new in a run's log, to the process that the run is in.

There the activity that asks the model is most likely carried out. It is only spared a question:
nothing that a run does depends on it.
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


def hand_over(
    pointer: ConversationPointer, answer: Callable[[ConversationPageRequest], ConversationPage]
) -> None:
    """Hand over what leads to the pointer, as the run would `answer` for it, where somebody is
    there to take it."""
    take = workflow.extern_functions().get(HAND_OVER)
    if take is not None and not workflow.unsafe.is_replaying():
        take(workflow.info().workflow_id, pointer, answer)
