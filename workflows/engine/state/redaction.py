"""How what tools wrote is shown to the model, where the state stands behind the conversation.

A result that the model was not shown whole stays out of the state there, too, and a value from
outside is said to be so there as it was in its result. Both hold for a place until another value is
set there, or around it: what extends a value does not uncover what is there already.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any, Self

from holdfast.schemas.internal.continue_as_new import RedactionSnapshot
from holdfast.schemas.reference import Path
from holdfast.schemas.tool import OutputMethod

# Of one value. Beyond it, the whole value is shown as the most careful of them says.
MAX_VEILS = 1_000

_Steps = tuple[str | int, ...]


@dataclass(frozen=True)
class Redaction:
    """How a value that `tool` wrote is shown.

    `hidden` by its size and its name alone, and, where it is not `trusted`, as data from outside.
    """

    tool: str
    hidden: bool = False
    trusted: bool = True

    def over(self, other: "Redaction | None") -> "Redaction":
        """Return how a value is shown that both have a part in; this one came later."""
        if other is None:
            return self
        tool = other.tool if self.trusted and not other.trusted else self.tool
        return Redaction(tool, self.hidden or other.hidden, self.trusted and other.trusted)


class Redactions:
    """The veiled places of a run's data."""

    def __init__(self) -> None:
        self._at: dict[tuple[str, str | None], dict[_Steps, Redaction]] = {}

    @classmethod
    def resumed(cls, snapshot: Iterable[RedactionSnapshot]) -> Self:
        """Return the redactions of a snapshot."""
        veils = cls()
        for one in snapshot:
            at = veils._at.setdefault((one.kind, one.instance), {})
            at[tuple(one.steps)] = Redaction(one.tool, one.hidden, one.trusted)
        return veils

    def snapshot(self) -> list[RedactionSnapshot]:
        """Return the redactions as JSON."""
        return [
            RedactionSnapshot(
                kind=kind,
                instance=instance,
                steps=list(steps),
                tool=veil.tool,
                hidden=veil.hidden,
                trusted=veil.trusted,
            )
            for (kind, instance), at in self._at.items()
            for steps, veil in at.items()
        ]

    def write(self, path: Path, method: OutputMethod, veil: Redaction | None) -> None:
        """Take in that a place was written to."""
        at = self._at.get((path.kind, path.instance), {})
        if method == "set":
            depth = len(path.steps)
            at = {steps: old for steps, old in at.items() if steps[:depth] != path.steps}
        if veil is not None:
            at = {**at, path.steps: veil.over(at.get(path.steps))}
        if len(at) > MAX_VEILS:
            at = {(): reduce(lambda one, other: other.over(one), at.values())}
        self._at[path.kind, path.instance] = at

    def is_outside(self, path: Path) -> bool:
        """Return whether all that is at the path came from outside."""
        veil = self._at.get((path.kind, path.instance), {}).get(path.steps)
        return veil is not None and not veil.trusted

    def redact(self, value: Any, path: Path) -> Any:
        """Return the whole value of the path's kind, as it is shown.

        What is veiled for all, in each instance too.
        """
        at = {**self._at.get((path.kind, None), {}), **self._at.get((path.kind, path.instance), {})}
        return _veiled(value, path, at)


def untrusted_value(tool: str, value: Any) -> dict[str, Any]:
    """Return a value that is not to be trusted, as it is shown to a model."""
    return {"tool": tool, "trusted": False, "value": value}


def hidden_value(value: Any, path: Path) -> str:
    """Return what replaces a value that is not shown: its size, and how it is named."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"({len(text):,} characters, not shown; name them as {path})"


def _veiled(value: Any, path: Path, at: dict[_Steps, Redaction]) -> Any:
    """Return the value at a path; `at` holds the veils there and further inside."""
    veil = at.get(path.steps)
    if veil is not None and veil.hidden:
        return hidden_value(value, path)
    inside: dict[str | int, dict[_Steps, Redaction]] = {}
    for steps, each in at.items():
        if len(steps) > len(path.steps):
            inside.setdefault(steps[len(path.steps)], {})[steps] = each
    for step, veils in inside.items():
        place = Path(path.kind, (*path.steps, step), path.instance)
        value = _with_veiled(value, step, place, veils)
    return value if veil is None or veil.trusted else untrusted_value(veil.tool, value)


def _with_veiled(value: Any, step: str | int, place: Path, at: dict[_Steps, Redaction]) -> Any:
    """Return the value with what is at the next place as it is shown; nothing may be there."""
    match value, step:
        case dict(), str() if step in value:
            return {**value, step: _veiled(value[step], place, at)}
        case list(), int() if step < len(value):
            return [*value[:step], _veiled(value[step], place, at), *value[step + 1 :]]
        case _:
            return value
