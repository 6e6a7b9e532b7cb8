"""What is left of an approved plan: calls that were not begun, and how each is known again.

A call is known by what it would do: its tool, its arguments, whose data it is about, and where its
result is written. References count by what they stand for; one to what a call will write that is
not begun either, by that call, and by what it would extend. So whatever has changed since in what a
call reads, it is not the call that was approved.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.schemas.base import canonical_json, sha256
from holdfast.schemas.internal.continue_as_new import StepSnapshot
from holdfast.schemas.message import AskedCall
from holdfast.schemas.reference import Path
from holdfast.validation.arguments import InvalidArguments
from holdfast.workflows.engine.call.outcome import Refused, Succeeded
from holdfast.workflows.engine.call.tool_call import CallStage, ToolCall, error_of
from holdfast.workflows.engine.execution.dependency_graph import visible_data
from holdfast.workflows.engine.execution.preparation import fit_arguments
from holdfast.workflows.engine.plans.plan import format_output_path
from holdfast.workflows.engine.state.data import MISSING, Data, MissingValue, VisibleData
from holdfast.workflows.engine.state.references import Unresolved, resolve

Keys = Mapping[ToolCall, str | None]


def identity_keys(
    calls: Sequence[ToolCall], data: Data, others: Keys | None = None
) -> dict[ToolCall, str | None]:
    """What each of the calls is known by, none of which is begun, and what these others are; None
    where that cannot be said.

    No circle is among them.
    """
    keys = dict(others or {})
    open_ = dict.fromkeys(calls)
    while open_:
        for call in [
            call for call in open_ if not any(each in open_ for each in call.dependencies.sources)
        ]:
            keys[call] = _key(call, data, keys)
            del open_[call]
    return keys


def snapshot_step(call: ToolCall, keys: Keys) -> StepSnapshot:
    """A call of the approved plan, to be carried on: none of it is under way."""
    assert call.outcome is not None  # its turn is over
    error = error_of(call.outcome)
    return StepSnapshot(
        id=call.id,
        tool=call.name,
        given=call.raw_arguments,
        covered=call.covered_by_plan,
        held=call in keys,
        key=keys.get(call),
        error=error,
    )


def restore_step(step: StepSnapshot) -> ToolCall:
    """The call as far as it is still asked for: what it came to, and what was approved."""
    asked = AskedCall(id=step.id, provider_id=step.id, tool=step.tool, arguments={})
    call = ToolCall(step.id, asked, raw_arguments=step.given, covered_by_plan=step.covered)
    call.end(Succeeded(None) if step.error is None else Refused(step.error))
    return call


def _key(call: ToolCall, data: Data, keys: Keys) -> str | None:
    """What a call is known by; `keys` has those calls that are not begun and that it waits for."""
    waits = [keys[source] for source in call.dependencies.sources if source in keys]
    arguments = _meant(call, data, keys) if call.stage is CallStage.PENDING else call.arguments
    if arguments is None or None in waits:
        return None
    meant = {
        "tool": call.name,
        "arguments": arguments,
        "waits": waits,
        "instance": call.meta.instance,
        "writes": format_output_path(call.meta.output_path),
        "method": call.meta.output_method,
        "scopes": call.meta.scopes,
    }
    return sha256(canonical_json(meant))


def _meant(call: ToolCall, data: Data, keys: Keys) -> dict[str, Any] | None:
    """The arguments of a call that waits, with what is known put in for references."""
    awaited = [source for source in call.dependencies.sources if source in keys]
    seen = _Seen(visible_data(call, data), [(source, str(keys[source])) for source in awaited])
    try:
        resolved = (
            call.raw_arguments
            if call.is_literal
            else resolve(call.raw_arguments, seen, call.meta.instance)
        )
        return resolved if awaited else fit_arguments(call.tool, resolved)
    except (Unresolved, InvalidArguments):
        return None


@dataclass
class _Seen:
    """What a call reads; where calls will write that are not begun, which calls these are."""

    view: VisibleData
    awaited: list[tuple[ToolCall, str]] = field(default_factory=list)

    def read(self, path: Path) -> Any | MissingValue:
        """What stands at the path, or will."""
        by = [key for source, key in self.awaited if _writes(source, path)]
        if not by:
            return self.view.read(path)
        over = self.view.data.read(path)
        return {"path": str(path), "by": by, "over": None if over is MISSING else over}

    def why(self, path: Path) -> str:
        """Why nothing stands there."""
        return self.view.why(path)


def _writes(call: ToolCall, path: Path) -> bool:
    return any(place.overlaps(path) for place in call.places)
