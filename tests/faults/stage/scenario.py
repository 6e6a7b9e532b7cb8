"""A scenario: what is asked for, what models say, what people do, and what must come of it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.faults.stage.points import RUN
from tests.support.model_server import Answer, turn_of

if TYPE_CHECKING:
    from tests.faults.stage.people import Person

# How the engine begins what it says to a model that is to answer one call.
_LATENT = "You answer one call of a tool"

Models = Mapping[str, Sequence[Answer]]


@dataclass(frozen=True)
class Scenario:
    """`models` is what is said in each part of it, turn by turn: `run`, `latent`, and every agent
    whose instructions are its name. `effects` are those that it has, `{part/call: tool}`.

    `parts` are its workflows, by what follows the id of the first. `visit` is what people do
    besides deciding.
    """

    models: Models
    output: Any
    effects: Mapping[str, str]
    request: Mapping[str, Any] = field(default_factory=dict)
    agent: Mapping[str, Any] = field(default_factory=dict)
    tools: Sequence[Any] = ()
    agents: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    parts: Sequence[str] = ("",)
    workflow: str = "AgentWorkflow"
    visit: "Callable[[Person], Awaitable[None]] | None" = None

    @property
    def asks(self) -> list[tuple[str, str]]:
        """What people are asked about: the part and the id of each question."""
        if self.agent.get("plan") == "lazy":
            return [("", "t1-plan")]
        keys = [key.removeprefix(RUN).split("/") for key in self.effects]
        return [(part, call_id) for part, call_id in keys]

    def asked_for(self) -> dict[str, Any]:
        """The request that begins it."""
        if self.workflow != "AgentWorkflow":
            return dict(self.request)
        agent = {
            "name": "tester",
            "instructions": RUN,
            "model": {"endpoint": "fake", "name": "fake"},
            "tools": list(self.tools),
            **self.agent,
        }
        return {"agent": agent, "input": "go", **self.request}

    def speaker(self, body: dict[str, Any]) -> str:
        """Whose request to a model it is."""
        system = str(body["messages"][0]["content"])
        if _LATENT in system:
            return "latent"
        return next((name for name in self.agents if system.startswith(name)), RUN)

    def answer(self, body: dict[str, Any]) -> Answer:
        """What the model says to a request: to the same one the same, whoever makes it."""
        said = self.models[self.speaker(body)]
        return said[min(turn_of(body), len(said)) - 1]
