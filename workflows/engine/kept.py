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
from schemas.tool import OutputMethod
from workflows.engine.approval import Desk
from workflows.engine.budget import Meter
from workflows.engine.checking import new_errors
from workflows.engine.log import Log
from workflows.engine.state import CannotWrite, Data

# State and output of a run have to fit into its result: two megabytes, with all else in it.
MAX_STATE_BYTES = 900_000


@dataclass
class Kept:
    """The parts of a run that deciding on a call looks at.

    `ended_with` says why the run is to end although calls of its turn are still open.
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
    ended_with: str | None = None

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
    ) -> None:
        """Write a value to each of the places, and into the log; or to none of them.

        Raises:
            CannotWrite: one of the places cannot be written to like that.
        """
        trial = self.data.copy()
        for path in paths:
            trial.set(path.kind, self._written(trial, path, method, value))
        for path in paths:
            self.data.set(path.kind, trial[path.kind])
            self.log.append(WriteEntry(path=str(path), method=method, value=value, call_id=call_id))

    def _written(self, data: Data, path: Path, method: OutputMethod, value: Any) -> Any:
        whole = data.written(path, method, value)
        size_bytes = json_size(whole)
        if size_bytes > MAX_STATE_BYTES:
            raise CannotWrite(
                f"{path}: {path.kind} would have {size_bytes} bytes; at most {MAX_STATE_BYTES}"
            )
        if path.kind == "state" and self.rules.state is not None:
            broken = new_errors(whole, data["state"], self.rules.state)
            if broken:
                raise CannotWrite(
                    f"{path}: the state would not fit its schema: {'; '.join(broken)}"
                )
        return whole
