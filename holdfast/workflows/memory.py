"""`MemoryWorkflow`: the memory of one agent, which outlives its runs.

The first write starts it, and it never ends. It waits without a timer, so an unused memory costs
nothing; a read leaves nothing in its history. An unexpected exception fails its workflow task, not
the workflow: the stored entries survive a mistake in the code.
"""

from typing import Any

from temporalio import workflow
from temporalio.common import RawValue, VersioningBehavior

with workflow.unsafe.imports_passed_through():
    from pydantic import ValidationError

    from holdfast.schemas import names
    from holdfast.schemas.internal.memory import (
        MemoryOwner,
        MemoryRead,
        MemorySearch,
        MemoryState,
        MemoryWrite,
    )

from holdfast.workflows import input
from holdfast.workflows.engine.state.memory_store import Memory, WriteRefused
from holdfast.workflows.ui_details.markdown import prose

_NAME_BYTES = 600


@workflow.defn(name=names.MEMORY_WORKFLOW)
class MemoryWorkflow:
    """The entries that one agent stores for one principal, or for none."""

    @workflow.init
    @input.raw_payload_handler
    def __init__(self, state: RawValue = input.MISSING_PAYLOAD, *_: Any) -> None:
        self._is_invalid, self._writes = False, 0
        try:
            self._memory = Memory(MemoryState.read(input.payload_value(state)))
        except (input.InvalidInputError, ValidationError):
            self._is_invalid = True
            self._memory = Memory(MemoryState(owner=MemoryOwner(agent="nobody"), writes_a_run=1))

    @workflow.run
    @input.raw_payload_handler
    async def run(self, state: RawValue = input.MISSING_PAYLOAD, *_: Any) -> None:
        """Store writes, and continue as new before the history is long."""
        if self._is_invalid:
            input.fail(names.INVALID_REQUEST, "only the first write of a run starts a memory")

        def is_long() -> bool:
            is_suggested = workflow.info().is_continue_as_new_suggested()
            return is_suggested or self._writes >= self._memory.state.writes_a_run

        await workflow.wait_condition(lambda: is_long() and workflow.all_handlers_finished())
        workflow.continue_as_new(self._memory.state.to_json())

    @workflow.update(
        name=names.WRITE,
        description="Keep a text: {key, value, append, ifValue}; a value of null deletes it",
    )
    @input.raw_payload_handler
    def write(self, write: RawValue = input.MISSING_PAYLOAD, *_: Any) -> dict[str, Any]:
        """Apply a write; a repeated update id changes nothing."""
        receipt = self._memory.write(_write(write), input.update_id(), workflow.now())
        self._writes += 1
        return receipt

    @write.validator
    @input.raw_payload_handler
    def _check_write(self, write: RawValue = input.MISSING_PAYLOAD, *_: Any) -> None:
        try:
            self._memory.check(_write(write), input.update_id())
        except input.InvalidInputError as error:
            input.fail(names.INVALID_REQUEST, str(error))
        except WriteRefused as refusal:
            input.fail(refusal.type, str(refusal))

    @workflow.query(name=names.READ, description="Read entries: {key}, or {prefix, skip} for keys")
    @input.raw_payload_handler
    def read(self, want: RawValue = input.MISSING_PAYLOAD, *_: Any) -> dict[str, Any]:
        """Return one entry, or the keys."""
        wanted = input.parse_model(input.payload_value(want) or {}, MemoryRead, '{"key": …}')
        return self._memory.read(wanted.key, wanted.prefix, wanted.skip)

    @workflow.query(name=names.SEARCH, description="The entries that fit best: {query, limit}")
    @input.raw_payload_handler
    def search(self, want: RawValue = input.MISSING_PAYLOAD, *_: Any) -> dict[str, Any]:
        """Return entries that contain words of the query."""
        return self._memory.search(
            input.parse_model(input.payload_value(want), MemorySearch, '{"query": …}')
        )

    def details(self) -> str:
        """Return the current details that Temporal's UI shows, in Markdown."""
        owner, memory = self._memory.state.owner, self._memory
        whose = f" for {prose(owner.principal, _NAME_BYTES)}" if owner.principal else ""
        return (
            f"What the agent {prose(owner.agent, _NAME_BYTES)} keeps{whose}: {len(memory)} entries,"
            f" {memory.size_bytes} bytes. To see it, run the query `{names.READ}` (above, under"
            " **Queries**)."
        )


@workflow.defn(name=names.MEMORY_WORKFLOW, versioning_behavior=VersioningBehavior.AUTO_UPGRADE)
class MovingMemoryWorkflow(MemoryWorkflow):
    """A memory on workers that are builds of a deployment.

    It moves to the current build with the next update. No update may ever come, so that it must not
    pin a build.
    """

    @workflow.run
    @input.raw_payload_handler
    async def run(self, state: RawValue = input.MISSING_PAYLOAD, *more: Any) -> None:
        """Store writes, as any memory does."""
        await super().run(state, *more)


def _write(payload: RawValue) -> MemoryWrite:
    return input.parse_model(input.payload_value(payload), MemoryWrite, '{"key": …, "value": …}')
