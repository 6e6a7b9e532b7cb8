"""Pages: the answers to the activity that calls the model: the conversation, and the settings."""

from holdfast.schemas.agent import Agent
from holdfast.schemas.internal.model_request import (
    Ask,
    ConversationPage,
    ConversationPageRequest,
    ToolOffer,
)
from holdfast.workflows.engine.budget_limits import BudgetLimits
from holdfast.workflows.engine.conversation.summaries import Summaries
from holdfast.workflows.engine.model import prompt, state_context
from holdfast.workflows.engine.model.latent_calls import Latent
from holdfast.workflows.engine.model.tool_choice import ToolChoiceState
from holdfast.workflows.engine.plans.planning import Planning
from holdfast.workflows.engine.run_state import RunState


class RequestPages:
    """The pages of one run.

    `latents` are the calls that the model answers now, each in a request of its own.
    """

    def __init__(
        self,
        agent: Agent,
        state: RunState,
        planning: Planning,
        choice: ToolChoiceState,
        limits: BudgetLimits,
        summaries: Summaries,
    ) -> None:
        self._agent = agent
        self._state = state
        self._planning = planning
        self._choice = choice
        self._limits = limits
        self._summaries = summaries
        self.latents: dict[str, Latent] = {}

    @property
    def offers(self) -> list[ToolOffer]:
        """Return the tools that are offered to the model now."""
        return prompt.offers(self._agent, self._state.skill, self._state.data.instances())

    def page(self, want: ConversationPageRequest) -> ConversationPage:
        """Return a part of the conversation.

        For a latent call, it is a part of that call's conversation, while it is open.
        """
        if want.call is not None:
            latent = self.latents.get(want.call)
            return ConversationPage(items=[]) if latent is None else latent.page(want)
        items, cut = self._state.log.page(want)
        if want.offset:
            return ConversationPage(items=items, cut=cut)
        ask = self._summaries.ask(self.ask()) if want.summary else self.ask()
        return ConversationPage(items=items, cut=cut, ask=ask)

    def ask(self) -> Ask:
        """Return the settings of the model's next turn."""
        choice = self._choice.now() if self._limits.finalizing is None else "none"
        skill, instances = self._state.skill, self._state.data.instances()
        tail = state_context.tail(self._state, self._planning.describe_progress())
        return prompt.ask(self._agent, self.offers, choice, tail, skill, instances)
