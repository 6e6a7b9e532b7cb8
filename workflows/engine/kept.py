"""What one run keeps: its log, and what is computed from it as it grows."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from schemas.agent import Agent
from schemas.run import Principal
from workflows.engine.approval import Desk
from workflows.engine.budget import Meter
from workflows.engine.log import Log
from workflows.engine.state import Data


@dataclass
class Kept:
    """The parts of a run that deciding on a call looks at.

    `ended_with` says why the run is to end although calls of its turn are still open.
    """

    agent: Agent
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

    def scopes(self) -> list[str]:
        """What the principal may do in this run: never more than the agent's own bound."""
        held = self.principal.scopes if self.principal is not None else []
        most = self.agent.principal_scopes
        return held if most is None else [scope for scope in held if scope in most]
