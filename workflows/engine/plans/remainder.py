"""The remainder of an approved plan: calls that did not start, and the key of each.

A key covers the effect of the call: its tool, its arguments, its instance, and the places of its
result. A reference is represented by its value; a reference to a place that a remaining call will
write, by that call and by the value that it would extend. So a call with another effect has another
key.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.schemas.base import canonical_json, sha256
from holdfast.schemas.reference import Path
from holdfast.validation.arguments import InvalidArguments
from holdfast.workflows.engine.call.tool_call import (
    CallStage,
    ToolCall,
)
from holdfast.workflows.engine.execution.dependency_graph import visible_data
from holdfast.workflows.engine.execution.preparation import fit_arguments
from holdfast.workflows.engine.plans.plan import format_output_path
from holdfast.workflows.engine.state.data import MISSING, Data, MissingValue, VisibleData
from holdfast.workflows.engine.state.references import Unresolved, resolve

Keys = Mapping[ToolCall, str | None]


def identity_keys(
    calls: Sequence[ToolCall], data: Data, others: Keys | None = None
) -> dict[ToolCall, str | None]:
    """Add to `others` the key of each call that has not started; None if it is not known."""
    keys = dict(others or {})
    open_ = dict.fromkeys(calls)
    while open_:
        for call in [
            call for call in open_ if not any(each in open_ for each in call.dependencies.sources)
        ]:
            waits = [keys[source] for source in call.dependencies.sources if source in keys]
            arguments: dict[str, Any] | None = call.arguments
            if call.stage is CallStage.PENDING:
                arguments = _known_arguments(call, data, keys)
            is_known = arguments is not None and None not in waits
            keys[call] = _key(call, arguments, waits) if is_known else None
            del open_[call]
    return keys


def _key(call: ToolCall, arguments: dict[str, Any] | None, waits: list[str | None]) -> str:
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


def _known_arguments(call: ToolCall, data: Data, keys: Keys) -> dict[str, Any] | None:
    """Return the arguments of a call with the known values in place of references."""
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
    """The data that a call reads; for places that calls have yet to write, their keys."""

    view: VisibleData
    awaited: list[tuple[ToolCall, str]] = field(default_factory=list)

    def read(self, path: Path) -> Any | MissingValue:
        """Return the value at a path, or the calls that will write it."""
        by = [
            key
            for source, key in self.awaited
            if any(place.overlaps(path) for place in source.places)
        ]
        if not by:
            return self.view.read(path)
        over = self.view.data.read(path)
        return {"path": str(path), "by": by, "over": None if over is MISSING else over}

    def why(self, path: Path) -> str:
        """Explain why there is no value."""
        return self.view.why(path)
