"""Loops: a call with `_each` runs its tool for each item of a list, and has one result, a list.

    the list is known ─► items prepared ─► one question, if one of them needs it ─► run ─► collected

The loop is one call of its turn: it has the dependencies, the approval, the places and the result.
Each item is a `ToolCall` of its own, in which `†item` is replaced: it counts, has hooks, runs, and
its outcome may be unknown, as of any other call. The arguments of a loop are those of its items, in
order, and null for an item that does not run. A failed item has its error at its place in the
result; the loop has failed if all of its items have.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from holdfast.schemas.base import Stored, json_size
from holdfast.schemas.message import AskedCall
from holdfast.schemas.names import ErrorCode, item_id
from holdfast.schemas.reference import ITEM, Path
from holdfast.schemas.tool import EACH, MAX_ITEMS
from holdfast.workflows.engine.call import outcomes
from holdfast.workflows.engine.call.activities import CallRefused
from holdfast.workflows.engine.call.states import PreparedCall, ProposedCall, ToolCall
from holdfast.workflows.engine.execution.preparation import MAX_ARGUMENT_BYTES, uncount_call
from holdfast.workflows.engine.run_state import RunState
from holdfast.workflows.engine.state.data import Data, MissingValue, VisibleData, is_same_json
from holdfast.workflows.engine.state.references import Unresolved, resolve

# The results of all items in one list.
MAX_RESULT_BYTES = 2_000_000
LEFT_OUT = "A person left this item out."


@dataclass
class _ItemData(VisibleData):
    """The data that the call for one item reads: that of its loop, and the item."""

    item: Any = None

    def read(self, path: Path) -> Any | MissingValue:
        if path.kind != ITEM:
            return super().read(path)
        return Data({(ITEM, None): self.item}).read(path.within(None))


def unsettled_items(call: ToolCall, state: RunState, seen: VisibleData) -> Sequence[ToolCall]:
    """Return the items that have yet to be settled: all, or those that a person has changed.

    Raises `CallRefused` if the loop is refused as a whole.
    """
    is_edited = bool(call.items)
    if not is_edited:
        _expand(call, state, seen)
    for item in call.open_items:
        cover(item, call.prepared)
    return [item for item in call.open_items if item.is_pending or not is_edited]


def _expand(call: ToolCall, state: RunState, seen: VisibleData) -> None:
    values = _items_of(call, seen)
    _count(call, state, len(values))
    items, room_bytes = list[ToolCall](), MAX_ARGUMENT_BYTES
    template = {name: one for name, one in call.prepared.raw_arguments.items() if name != EACH}
    for n, value in enumerate(values):
        arguments, unresolved = dict[str, Any](), ""
        try:
            data = _ItemData(seen.data, seen.void, value)
            arguments = resolve(template, data, call.meta.instance)
        except Unresolved as error:
            unresolved = str(error)
        room_bytes -= json_size(arguments)
        _check_room(room_bytes)
        own = item_id(call.id, n)
        proposal = AskedCall(id=own, provider_id=own, tool=call.name, arguments=arguments)
        item = ToolCall(ProposedCall(proposal, call.tool, is_literal=True, is_item=True))
        meta = replace(call.meta, output_path=None)
        item.revise(replace(item.prepared, meta=meta, raw_arguments=arguments))
        if unresolved:
            item.end(outcomes.refuse(ErrorCode.UNRESOLVED_REFERENCE, unresolved))
        items.append(item)
    uncount_call(call, state)
    call.expand(items)


def settle(call: ToolCall) -> None:
    """Set the arguments of a loop whose items are prepared; end it if none of them is to run.

    It is approved if each of them is. Raises `CallRefused` if the arguments are too large.
    """
    items = call.items
    arguments = {EACH: [None if item.has_ended else item.arguments for item in items]}
    _check_room(MAX_ARGUMENT_BYTES - json_size(arguments))
    is_approved = all(item.prepared.is_approved for item in items if not item.has_ended)
    known = replace(call.prepared, arguments=arguments)
    call.revise(known.covered(is_approved=known.is_approved and is_approved))
    if all(item.has_ended for item in items):
        call.end(collect(items))


def cover(item: ToolCall, loop: PreparedCall) -> None:
    """Let an approval of a loop cover one of its items."""
    known = replace(item.prepared, is_approved=loop.is_approved, approver=loop.approver)
    item.revise(replace(known, decision=loop.decision, bound=loop.bound))


def edited_items(call: ToolCall) -> Iterator[tuple[ToolCall, dict[str, Any] | None]]:
    """Yield the open items that a person has changed, with their new arguments, or left out."""
    for item, own in zip(call.items, call.arguments[EACH] if call.items else (), strict=True):
        if not (item.has_ended or is_same_json(own, item.arguments)):
            yield item, own


def collect(items: Sequence[ToolCall]) -> outcomes.Final:
    """Return the outcome of a loop whose items have ended."""
    ends = [item.ended for item in items]
    for end in ends:
        if isinstance(end, outcomes.Stopped):
            return end
    values, room_bytes = list[Any](), MAX_RESULT_BYTES
    for end in ends:
        value: Any = end.value if end.error is None else {"error": end.error.to_json()}
        stored = Stored.of(value)
        size_bytes = json_size(value) if stored is None else stored.size_bytes
        if stored is not None or size_bytes > room_bytes:
            why = f"its result has {size_bytes} bytes, too many for the list of all results"
            lost = outcomes.fail(ErrorCode.INVALID_OUTPUT, f"{outcomes.WAS_RUN}{why}")
            value = {"error": lost.error.to_json()}
        room_bytes -= json_size(value)
        values.append(value)
    errors = [end.error for end in ends if end.error is not None]
    if not errors or len(errors) < len(ends):
        return outcomes.Succeeded(values, terminate=outcomes.all_request_stop(ends))
    code = errors[0].code if len({error.code for error in errors}) == 1 else ErrorCode.TOOL_ERROR
    told = "; ".join(f"[{n}] {error.message}" for n, error in enumerate(errors))
    message = f"no item of {len(errors)} succeeded: {told}"
    if all(isinstance(end, outcomes.Refused) for end in ends):
        return outcomes.refuse(ErrorCode(code), message)
    return outcomes.fail(ErrorCode(code), message)


def _items_of(call: ToolCall, seen: VisibleData) -> list[Any]:
    try:
        found = resolve(call.prepared.raw_arguments[EACH], seen, call.meta.instance)
    except Unresolved as error:
        raise CallRefused(ErrorCode.UNRESOLVED_REFERENCE, f"`{EACH}`: {error}") from None
    if not isinstance(found, list):
        message = f"`{EACH}` is no list; refer to a list of at most {MAX_ITEMS} items"
        raise CallRefused(ErrorCode.INVALID_ARGUMENTS, message)
    if len(found) > MAX_ITEMS:
        message = f"`{EACH}` has {len(found)} items; a loop runs for at most {MAX_ITEMS}"
        raise CallRefused(ErrorCode.INVALID_ARGUMENTS, message)
    return found


def _count(call: ToolCall, state: RunState, number: int) -> None:
    """Check the limits for all items."""
    most, made = call.tool.limits.per_run, state.started.get(call.name, 0)
    if most is not None and made - call.prepared.is_counted + number > most:
        message = f"`{call.name}` may be called {most} times in a run: no item of {number} is run"
        raise CallRefused(ErrorCode.BLOCKED, message)
    if (why := state.meter.refuse_items(call.name, number)) is not None:
        raise CallRefused(ErrorCode.BLOCKED, f"{why}: no item of {number} is run")


def _check_room(room_bytes: int) -> None:
    if room_bytes < 0:
        message = f"the arguments of all items have more than {MAX_ARGUMENT_BYTES} bytes"
        raise CallRefused(ErrorCode.INVALID_ARGUMENTS, message)
