"""The tool choice of a run: whether the model may call, or must, and when that holds.

What forces a call holds for the first turn with the run's skill; until there is one, the model has
to choose it. `none` holds for all of them.
"""

from collections.abc import Sequence

from holdfast.schemas.agent import Agent, ForcedTool, ToolChoice
from holdfast.schemas.internal.model_request import ToolOffer
from holdfast.workflows.engine.run_state import RunState


class ToolChoiceState:
    """The tool choice of one run.

    `settled_after` are the turns that were taken when it was settled which skill the run has.
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
        """Return whether the model is to choose a skill before anything else."""
        return bool(self._agent.skills) and self._state.skill is None

    @property
    def may_call(self) -> bool:
        """Return whether calls are run.

        A server may hand on calls that it was asked not to make for.
        """
        return self.choosing or self.wanted != "none"

    def demands_call(self, offers: Sequence[ToolOffer]) -> bool:
        """Return whether this turn, the first with its skill, had to make a call."""
        forced = self.wanted == "required" or isinstance(self.wanted, ForcedTool)
        first = self._state.meter.turns == self.settled_after + 1
        return forced and first and bool(offers)

    def settle(self, turns: int, offers: Sequence[ToolOffer]) -> str | None:
        """Return the run has its skill, with these tools.

        What it lacks that was to be called, if that is so.
        """
        self.settled_after = turns
        forced = self.wanted.name if isinstance(self.wanted, ForcedTool) else None
        if forced is None or forced in [offer.name for offer in offers]:
            return None
        self.wanted = "auto"
        return forced

    def now(self) -> ToolChoice:
        """Return what holds for the next request."""
        if self.choosing:
            return "required"
        first = self._state.meter.turns == self.settled_after
        return self.wanted if first or self.wanted == "none" else "auto"
