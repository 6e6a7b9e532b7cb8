"""`MemoryWorkflow`: one memory, kept for as long as anybody may want it.

It is started by its first write and never ends. It waits without a timer, so that it costs nothing
while nobody writes; what is read of it leaves nothing in its history. An exception that nobody
planned stops its workflow task and not the workflow: what is kept outlives a mistake of ours.
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

from holdfast.workflows.engine.memory_store import Memory, MemoryFull
from holdfast.workflows.handler_input import (
    MISSING_PAYLOAD,
    NotUnderstoodError,
    fail,
    raw_payload_handler,
    received,
    understood,
    update_id,
)
from holdfast.workflows.ui_details.markdown import prose

_NAME_BYTES = 600


@workflow.defn(name=names.MEMORY_WORKFLOW)
class MemoryWorkflow:
    """What one agent keeps for one principal, or for nobody in particular."""

    @workflow.init
    @raw_payload_handler
    def __init__(self, state: RawValue = MISSING_PAYLOAD, *_: Any) -> None:
        self._memory, self._wrong = _begun(state)
        self._writes = 0

    @workflow.run
    @raw_payload_handler
    async def run(self, state: RawValue = MISSING_PAYLOAD, *_: Any) -> None:
        """Keep what is written, and continue as new before history is long."""
        if self._wrong:
            fail(names.INVALID_REQUEST, "a memory is started by its first write, and by nobody")
        await workflow.wait_condition(lambda: self._is_long() and workflow.all_handlers_finished())
        workflow.continue_as_new(self._memory.state().to_json())

    @workflow.update(
        name=names.WRITE, description="Keep a text: {key, value}; a value of null deletes it"
    )
    @raw_payload_handler
    def write(self, write: RawValue = MISSING_PAYLOAD, *_: Any) -> dict[str, Any]:
        """Let a write take effect; one that comes again under its id changes nothing."""
        said = self._memory.write(_write(write), update_id(), workflow.now())
        self._writes += 1
        return said

    @write.validator
    @raw_payload_handler
    def _check_write(self, write: RawValue = MISSING_PAYLOAD, *_: Any) -> None:
        try:
            self._memory.check(_write(write), update_id())
        except NotUnderstoodError as error:
            fail(names.INVALID_REQUEST, str(error))
        except MemoryFull as error:
            fail(names.MEMORY_FULL, str(error))

    @workflow.query(name=names.READ, description="What is kept: {key}, or {} for the keys")
    @raw_payload_handler
    def read(self, want: RawValue = MISSING_PAYLOAD, *_: Any) -> dict[str, Any]:
        """One entry, or the keys."""
        return self._memory.read(understood(received(want) or {}, MemoryRead, '{"key": …}').key)

    @workflow.query(name=names.SEARCH, description="The entries that fit best: {query, limit}")
    @raw_payload_handler
    def search(self, want: RawValue = MISSING_PAYLOAD, *_: Any) -> dict[str, Any]:
        """Entries in which words of the query occur."""
        return self._memory.search(understood(received(want), MemorySearch, '{"query": …}'))

    def details(self) -> str:
        """What Temporal's UI shows as current details."""
        owner, kept = self._memory.owner, self._memory
        whose = f" for {prose(owner.principal, _NAME_BYTES)}" if owner.principal else ""
        return (
            f"What the agent {prose(owner.agent, _NAME_BYTES)} keeps{whose}: {len(kept)} entries,"
            f" {kept.size_bytes} bytes. To see it, run the query `{names.READ}` (above, under"
            " **Queries**)."
        )

    def _is_long(self) -> bool:
        suggested = workflow.info().is_continue_as_new_suggested()
        return suggested or self._writes >= self._memory.writes_a_run


@workflow.defn(name=names.MEMORY_WORKFLOW, versioning_behavior=VersioningBehavior.AUTO_UPGRADE)
class MovingMemoryWorkflow(MemoryWorkflow):
    """A memory of workers that are builds of a deployment: it goes to the current one with whatever
    comes next. Nothing may ever come, so that it cannot have a build wait for it."""

    @workflow.init
    @raw_payload_handler
    def __init__(self, state: RawValue = MISSING_PAYLOAD, *more: Any) -> None:
        super().__init__(state, *more)

    @workflow.run
    @raw_payload_handler
    async def run(self, state: RawValue = MISSING_PAYLOAD, *more: Any) -> None:
        """Keep what is written, as any memory does."""
        await super().run(state, *more)


def _begun(state: RawValue) -> tuple[Memory, bool]:
    """The memory that it is started with, and whether there was none."""
    try:
        return Memory(MemoryState.read(received(state))), False
    except (NotUnderstoodError, ValidationError):
        return Memory(MemoryState(owner=MemoryOwner(agent="nobody"), writes_a_run=1)), True


def _write(given: RawValue) -> MemoryWrite:
    return understood(received(given), MemoryWrite, '{"key": …, "value": …}')
