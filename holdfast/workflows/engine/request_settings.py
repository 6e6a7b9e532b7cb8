"""The settings of a request to the model: the model, its tools and tool choice, pages of the log.

    the agent's first model ─► the next of its list, where one fails or is given too much
    native calling ─► composed calling, where a model takes no tools

Both hold for the rest of the run: the model that failed would fail again in the next turn.

A forced call applies to the first turn with the run's skill; before that, the model has to choose
the skill. `none` applies to all turns. A tool with `_limits.forceAtStep` is forced from that turn
on until it was called.
"""

from typing import Any

from pydantic import Field

from holdfast.schemas import names
from holdfast.schemas.agent import ForcedTool, ModelSettings, ResolvedAgent
from holdfast.schemas.base import Lenient
from holdfast.schemas.budget import BudgetName
from holdfast.schemas.internal import model_request
from holdfast.schemas.internal.solution import Usage
from holdfast.schemas.log_entry import SkillChooser
from holdfast.schemas.run import ModelUsage
from holdfast.validation.schema_node import ValidationLimits
from holdfast.workflows.engine.conversation.summaries import Summaries
from holdfast.workflows.engine.log.log import Log
from holdfast.workflows.engine.model import prompt
from holdfast.workflows.engine.model.answer import (
    InvalidOutput,
    ParsedAnswer,
    answer_output,
    cut_off,
    is_copied_error,
    written_call,
)
from holdfast.workflows.engine.model.latent_calls import Latent
from holdfast.workflows.engine.model.request_hooks import ChangedRequest
from holdfast.workflows.engine.plans.approved_plan import ApprovedPlan
from holdfast.workflows.engine.run_state import RunState

# Why the next model is asked, where the one before did not fail.
TOO_LONG = "the conversation is too long for it"
MAX_REASON_CHARACTERS = 300
# A hook may choose another model for every request; the rest is counted together.
MAX_COUNTED_MODELS = 32
_OTHERS = "others"


class ModelProgress(Lenient):
    """The state of a choice of models.

    `model` answers in place of the agent's first; `skipped` of its fallbacks were tried. `used`
    has the usage by model, of an agent with more than one.
    """

    model: ModelSettings | None = None
    skipped: int = 0
    composed: bool = False
    used: list[ModelUsage] = Field(default_factory=list)


class ModelChoice:
    """The model of one run: `agent` is the run's agent with the model and calling of now.

    `written` is the agent that the run started with. If it has an `answer`, the output that fits
    its schema is made of that, and the model's own is a text.
    """

    def __init__(self, agent: ResolvedAgent, log: Log, progress: ModelProgress) -> None:
        self._log = log
        self.progress = progress
        hooks = agent.hooks
        is_hooked = hooks.before_model is not None or hooks.on_model_error is not None
        self._has_several = bool(agent.fallbacks) or is_hooked
        self.written = agent
        self._change()

    def next_model(self, failed: ModelSettings, why: str) -> bool:
        """Go to the next model of the list; return whether there is one."""
        if fallbacks := self.agent.fallbacks:
            self._change(skipped=self.progress.skipped + 1)
            self.use(fallbacks[0], failed, why)
        return bool(fallbacks)

    def use(self, model: ModelSettings, failed: ModelSettings, why: str) -> None:
        """Go to a model, since another one did not answer."""
        short = why if len(why) <= MAX_REASON_CHARACTERS else f"{why[:MAX_REASON_CHARACTERS]} …"
        text = f"{failed.label} did not answer ({short}): {model.label} is used from now on"
        self._log.add_notice(text)
        self._change(model=model)

    def compose_calls(self, model: ModelSettings) -> None:
        """Change to composed calling, since a model takes no tools."""
        text = (
            f"{model.label} does not support tools: from now on its calls are a part of its answers"
            " (composed calling)"
        )
        self._log.add_notice(text)
        self._change(composed=True)

    def count(self, model: ModelSettings, usage: Usage, *, turns: int) -> None:
        """Count the usage of an answer, if the agent has more than one model."""
        if not self._has_several:
            return
        used = {each.model: each for each in self.progress.used}
        label = model.label
        label = label if label in used or len(used) < MAX_COUNTED_MODELS else _OTHERS
        used[label] = used.get(label, ModelUsage(model=label)).plus(usage, turns)
        self._change(used=list(used.values()))

    def label(self, model: ModelSettings) -> str | None:
        """Return a model for the log; None if the agent has one model."""
        return model.label if self._has_several else None

    def _change(self, **fields: object) -> None:
        agent = self.written
        progress = self.progress = self.progress.model_copy(update=fields)
        present = {
            "model": progress.model or agent.model,
            "fallbacks": agent.fallbacks[progress.skipped :],
            "calling": "composed" if progress.composed else agent.calling,
            "output": agent.model_output,
        }
        self.agent = agent.model_copy(update=present)


class RequestSettings:
    """The settings of a run's requests to the model, and what an answer to them must have.

    `latents` are the calls that the model answers now, each in a request of its own.
    """

    def __init__(
        self, state: RunState, choice: ModelChoice, plan: ApprovedPlan, summaries: Summaries
    ) -> None:
        self._state = state
        self._progress = state.progress
        self.choice = choice
        self._plan = plan
        self.summaries = summaries
        self.latents: dict[str, Latent] = {}
        # The present request as a hook changed it.
        self._changed: ChangedRequest | None = None
        # The instructions and the tools of the last request, by what they depend on.
        self._made: tuple[object, tuple[str, list[model_request.ToolOffer]]] | None = None

    @property
    def agent(self) -> ResolvedAgent:
        """Return the agent of the present request: with its model, its tools and its calling."""
        return self.choice.agent if self._changed is None else self._changed.agent

    def change(self, changed: ChangedRequest | None) -> None:
        """Use a request as a hook changed it; with None, that of the agent."""
        self._changed = changed
        self._state.offer_tools(self.agent)

    def take_skill(self, name: str, by: SkillChooser, **why: Any) -> None:
        """Activate a skill; the first one has the first turn, to which a forced call applies."""
        state, choice = self._state, self._progress.choice
        is_first = state.is_choosing_skill
        self._plan.discard()  # another skill may have other tools of these names
        state.take_skill(name, by, **why)
        if not is_first:
            return
        if isinstance(choice, ForcedTool) and not self._offers_tool(choice.name, state.limits):
            lacking, choice = f"the skill `{name}` has no tool `{choice.name}`", "auto"
            state.log.add_notice(f"{lacking}: the first call is not forced")
        self._progress.settle(state.meter.turns, choice)

    def offers(self, limits: ValidationLimits) -> list[model_request.ToolOffer]:
        state = self._state
        return prompt.offers(self.agent, state.skill, state.data.instances, limits)

    def read_output(self, answer: ParsedAnswer, *, called: bool) -> Any:
        """Return the output of an answer, with or without calls, or raise `InvalidOutput`."""
        state, progress = self._state, self._progress
        if (refused := answer.solution.refused) is not None:
            raise InvalidOutput(f"invalid_output: {refused}. Call a tool, or answer.")
        last = progress.finalizing is not None
        if state.is_choosing_skill and not last:
            known = ", ".join(skill.name for skill in self.agent.skills)
            raise InvalidOutput(
                f"No skill is chosen yet. Call `{names.CHOOSE_SKILL}` first, with one of: {known}."
            )
        # The first turn with the skill has to make a forced call.
        choice = progress.choice
        named = isinstance(choice, ForcedTool) and self._offers_tool(choice.name, state.limits)
        forced = choice == "required" or named
        first = state.meter.turns == progress.settled_after + 1
        if forced and first and not called and self.offers(state.limits):
            raise InvalidOutput("A call of a tool was required, and none was made. Call one.")
        if not last and (due := self._due_tool(state.meter.turns)) is not None:
            raise InvalidOutput(f"A call of `{due}` was required, and none was made. Call it.")
        output = answer_output(answer, self.agent, state.data, state.limits, last=last)
        if isinstance(output, str) and is_copied_error(output, state.log):
            raise InvalidOutput(
                "invalid_output: the answer is only a copy of a call's error."
                " Describe in your own words what was not done, and why."
            )
        is_text = self.agent.calling == "native" and self.agent.output is None
        cut = cut_off(answer.solution) if is_text else None
        if cut and not (last or progress.cut_told):
            progress.note_cut(is_told=True)
            raise InvalidOutput(f"invalid_output: {cut}.")
        may_call = self.agent.calling == "native" and not last and progress.choice != "none"
        if may_call and (name := written_call(answer.solution.text, state.tools)):
            text = f"the answer seems to be a call of `{name}` as a text, which stays the output"
            state.log.add_notice(f"{text}; set up its server's parser, or `calling: composed`")
        if cut:  # a part of an answer is more than none
            state.log.add_notice(cut)
        progress.note_cut(is_told=False)
        return output

    def lacks_final_answer(self, answer: ParsedAnswer) -> BudgetName | None:
        """Return the budget that forced a final answer, if that answer has no text."""
        is_text = self.agent.calling == "native" and self.agent.output is None
        if self._progress.finalizing is None or not is_text or answer.solution.text.strip():
            return None
        return self._state.meter.limit_reached() or "maxIterations"

    def _due_tool(self, turn: int) -> str | None:
        """Return the tool that the model must call in a turn, by `_limits.forceAtStep`.

        A tool whose `_limits.after` have yet to succeed is not due.
        """
        state = self._state
        for tool in state.tools if self._progress.choice != "none" else ():
            step, after = tool.limits.force_at_step, tool.limits.after
            is_due = step is not None and turn >= step and tool.name not in state.started
            if is_due and all(one in state.succeeded for one in after):
                return tool.name
        return None

    def page(self, want: model_request.ConversationPageRequest) -> model_request.ConversationPage:
        """Return a part of the conversation, or of an open latent call's own one."""
        if want.call is not None:
            latent = self.latents.get(want.call)
            return model_request.ConversationPage(items=[]) if latent is None else latent.page(want)
        items, cut = self._state.log.page(want)
        if want.offset:
            return model_request.ConversationPage(items=items, cut=cut)
        ask = self.ask()
        if want.summary:
            edits = ask.edits.model_copy(update={"added": []})
            ask = self.summaries.ask(ask).model_copy(update={"edits": edits})
        return model_request.ConversationPage(items=items, cut=cut, ask=ask)

    def ask(self) -> model_request.Ask:
        """Return the settings of the model's next turn."""
        state, choice = self._state, self._progress.choice
        first = state.meter.turns == self._progress.settled_after
        if not first and choice != "none":
            choice = "auto"
        due = self._due_tool(state.meter.turns + 1)
        if due is not None and not isinstance(choice, ForcedTool):
            choice = ForcedTool(name=due)
        if state.is_choosing_skill:
            choice = "required"
        if self._progress.finalizing is not None:
            choice = "none"
        limits = ValidationLimits()  # in a query, which may use no budget of the run
        if isinstance(choice, ForcedTool) and not self._offers_tool(choice.name, limits):
            choice = "auto"
        tail = prompt.tail(state, self._plan.describe_progress())
        text, offers = self._present(limits)
        instances, scopes = state.data.instances, state.budget_scopes
        ask = prompt.ask(self.agent, text, offers, choice, tail, state.skill, instances, scopes)
        return (
            ask if self._changed is None else ask.model_copy(update={"edits": self._changed.edits})
        )

    def _present(self, limits: ValidationLimits) -> tuple[str, list[model_request.ToolOffer]]:
        """Return the instructions and the tools, which are made again only when they change.

        A hook may change them from turn to turn; else they depend on these parts of the run.
        """
        state, agent = self._state, self.agent
        parts = (agent.calling, state.skill, *state.data.instances)
        if self._changed is None and self._made is not None and self._made[0] == parts:
            return self._made[1]
        made = prompt.instructions(agent, state.skill), self.offers(limits)
        self._made = (parts, made) if self._changed is None else None
        return made

    def _offers_tool(self, name: str, limits: ValidationLimits) -> bool:
        return name in [offer.name for offer in self.offers(limits)]
