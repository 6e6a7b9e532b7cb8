"""The tool choice of a run: whether the model may call tools, or must, and for which turns.

A forced call applies to the first turn with the run's skill; before that, the model has to choose
the skill. `none` applies to all turns.
"""

from collections.abc import Sequence

from holdfast.schemas.agent import Agent, ForcedTool, ToolChoice
from holdfast.schemas.internal.model_request import ToolOffer
from holdfast.workflows.engine.run_state import RunState


class ToolChoiceState:
    """The tool choice of one run.

    `settled_after` is the number of turns at the time when the run's skill was chosen.
    """

    def __init__(
        self, state: RunState, agent: Agent, wanted: ToolChoice, settled_after: int
    ) -> None:
        self._state = state
        self._agent = agent
        self.wanted = wanted
        self.settled_after = settled_after

    @property
    def choosing(self) -> bool:
        """Return whether the model has to choose a skill first."""
        return bool(self._agent.skills) and self._state.skill is None

    @property
    def may_call(self) -> bool:
        """Return whether calls run.

        A server may return calls although the request forbids them.
        """
        return self.choosing or self.wanted != "none"

    def demands_call(self, offers: Sequence[ToolOffer]) -> bool:
        """Return whether this turn, the first with its skill, had to make a call."""
        forced = self.wanted == "required" or isinstance(self.wanted, ForcedTool)
        first = self._state.meter.turns == self.settled_after + 1
        return forced and first and bool(offers)

    def settle(self, turns: int, offers: Sequence[ToolOffer]) -> str | None:
        """Record that the run has its skill, with these tools.

        Returns:
            The name of the forced tool if it is not among them.
        """
        self.settled_after = turns
        forced = self.wanted.name if isinstance(self.wanted, ForcedTool) else None
        if forced is None or forced in [offer.name for offer in offers]:
            return None
        self.wanted = "auto"
        return forced

    def now(self) -> ToolChoice:
        """Return the tool choice of the next request."""
        if self.choosing:
            return "required"
        first = self._state.meter.turns == self.settled_after
        return self.wanted if first or self.wanted == "none" else "auto"
