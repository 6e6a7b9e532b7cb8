"""What one run keeps: its log, and what is computed from it as it grows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

from schemas.agent import Rules
from schemas.base import json_size
from schemas.entry import WriteEntry
from schemas.reference import Path
from schemas.run import CallRequest, Principal, RunRequest
from schemas.tool import OutputMethod, Schema, Tool
from workflows.engine.approval import Desk
from workflows.engine.budget import Meter
from workflows.engine.checking import new_errors
from workflows.engine.log import Log
from workflows.engine.skills import allowed
from workflows.engine.state import MISSING, CannotWrite, Data
from workflows.engine.veils import Veil, Veils

# State and output of a run have to fit into its result: two megabytes, with all else in it.
MAX_STATE_BYTES = 900_000

# What data messages say of a kind and instance: a schema, and words.
Description = tuple[Schema | bool | None, str | None]
# A kind of data, and the instance that it is for: None is for all.
_Whose = tuple[str, str | None]


@dataclass
class Kept:
    """The parts of a run that deciding on a call looks at.

    `skill` is the skill that is in force; `described` is what the data of a kind (and instance)
    was said to be; `ended_with` says why the run is to end although calls of
    its turn are still open.
    """

    rules: Rules
    principal: Principal | None
    asks_people: bool
    clock: Callable[[], datetime]
    log: Log
    data: Data
    meter: Meter
    desk: Desk
    started: dict[str, int] = field(default_factory=dict)
    succeeded: dict[str, None] = field(default_factory=dict)
    skill: str | None = None
    veils: Veils = field(default_factory=Veils)
    described: dict[Path, Description] = field(default_factory=dict)
    ended_with: str | None = None
    _sizes: dict[_Whose, int] = field(default_factory=dict)

    @classmethod
    def new(
        cls,
        request: RunRequest | CallRequest,
        rules: Rules,
        meter: Meter,
        desk: Desk,
        clock: Callable[[], datetime],
    ) -> Self:
        """What is kept of something that begins: an empty log, and no data."""
        return cls(
            rules=rules,
            principal=request.principal,
            asks_people=request.approvals == "ask",
            clock=clock,
            log=Log(clock),
            data=Data(),
            meter=meter,
            desk=desk,
        )

    def tools(self) -> list[Tool]:
        """The tools that may be called now."""
        return allowed(self.rules, self.skill)

    def scopes(self) -> list[str]:
        """What the principal may do in this run: never more than the agent's own bound."""
        held = self.principal.scopes if self.principal is not None else []
        most = self.rules.principal_scopes
        return held if most is None else [scope for scope in held if scope in most]

    def write(
        self,
        paths: Sequence[Path],
        value: Any,
        method: OutputMethod = "set",
        call_id: str | None = None,
        veil: Veil | None = None,
    ) -> None:
        """Write a value to each of the places, and into the log; or to none of them.

        A place may be in an instance. `veil` says how the value is shown where the state stands
        behind the conversation; without one it is shown as it is.

        Raises:
            CannotWrite: one of the places cannot be written to like that.
        """
        self.data, self._sizes = self.tried(self.data, paths, value, method)
        for path in paths:
            self.veils.write(path, method, veil)
            self.log.append(
                WriteEntry(
                    path=str(path),
                    method=method,
                    value=value,
                    instance=path.instance,
                    call_id=call_id,
                )
            )

    def tried(
        self, data: Data, paths: Sequence[Path], value: Any, method: OutputMethod
    ) -> tuple[Data, dict[_Whose, int]]:
        """The data as they would be after a write to each of the places, and their sizes.

        Raises:
            CannotWrite: one of the places cannot be written to like that.
        """
        trial, sizes = data.copy(), dict(self._sizes)
        for path in paths:
            trial.set(path.kind, trial.written(path, method, value), path.instance)
            self._check(path, trial, data, sizes)
        return trial, sizes

    def _check(self, path: Path, trial: Data, before: Data, sizes: dict[_Whose, int]) -> None:
        """See that the value that a write made, and what instances see of it, can be kept.

        What is for all is seen by every instance. All of a kind has to fit into a result together.
        """
        kind = path.kind
        if kind in trial:
            sizes.setdefault((kind, None), json_size(trial[kind]))
        for instance in [None, *trial.instances()] if path.instance is None else [path.instance]:
            own = trial.own(kind, instance)
            sizes[kind, instance] = 0 if own is MISSING else json_size(own)
            if kind == "state":
                self._check_state(path, trial, before, instance)
        size_bytes = sum(size for (one, _), size in sizes.items() if one == kind)
        if size_bytes > MAX_STATE_BYTES:
            raise CannotWrite(
                f"{path}: {kind} would have {size_bytes} bytes; at most {MAX_STATE_BYTES}"
            )

    def _check_state(self, path: Path, trial: Data, before: Data, instance: str | None) -> None:
        if self.rules.state is None:
            return
        new, old = (data.seen("state", instance) for data in (trial, before))
        broken = new_errors(new, old, self.rules.state)
        if broken:
            whose = "" if instance is None else f" of {instance}"
            raise CannotWrite(
                f"{path}: the state{whose} would not fit its schema: {'; '.join(broken)}"
            )
