"""Which model answers a run's requests, and in which way it is called.

    the agent's first model ─► the next of its list, where one fails or is given too much
    native calling ─► composed calling, where a model takes no tools

Both hold for the rest of the run: the model that failed would fail again in the next turn.
"""

from pydantic import Field

from holdfast.schemas.agent import ModelSettings, ResolvedAgent
from holdfast.schemas.base import Lenient
from holdfast.schemas.internal.solution import Usage
from holdfast.schemas.run import ModelUsage
from holdfast.workflows.engine.log.log import Log

# Why the next model is asked, where the one before did not fail.
TOO_LONG = "the conversation is too long for it"
MAX_REASON_CHARACTERS = 300
# A hook may choose another model for every request; the rest is counted together.
MAX_COUNTED_MODELS = 32
_OTHERS = "others"


class ModelProgress(Lenient):
    """The state of a choice.

    `model` answers in place of the agent's first; `skipped` of its fallbacks were tried. `used`
    has the usage by model, of an agent with more than one.
    """

    model: ModelSettings | None = None
    skipped: int = 0
    composed: bool = False
    used: list[ModelUsage] = Field(default_factory=list)


class ModelChoice:
    """The model of one run: `agent` is the run's agent with the model and calling of now."""

    def __init__(self, agent: ResolvedAgent, log: Log, progress: ModelProgress) -> None:
        self._log = log
        self.progress = progress
        hooks = agent.hooks
        is_hooked = hooks.before_model is not None or hooks.on_model_error is not None
        self._has_several = bool(agent.fallbacks) or is_hooked
        self._given = agent
        self._change()

    def next_model(self, failed: ModelSettings, why: str) -> bool:
        """Go to the next model of the list; return whether there is one."""
        fallbacks = self.agent.fallbacks
        if fallbacks:
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
        agent = self._given
        progress = self.progress = self.progress.model_copy(update=fields)
        present = {
            "model": progress.model or agent.model,
            "fallbacks": agent.fallbacks[progress.skipped :],
            "calling": "composed" if progress.composed else agent.calling,
        }
        self.agent = agent.model_copy(update=present)
