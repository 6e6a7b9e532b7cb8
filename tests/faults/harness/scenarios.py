"""The scenarios that faults are tried on."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.faults.harness.people import Person
from tests.faults.harness.plans import DEADLINE
from tests.faults.harness.points import RUN
from tests.support.model_server import Answer, call, turn_of

if TYPE_CHECKING:
    from tests.faults.harness.people import Person

# How the engine begins its text to a model that is to answer one call.
_LATENT = "You answer one call of a tool"

Models = Mapping[str, Sequence[Answer]]


@dataclass(frozen=True)
class Scenario:
    """`models` is the script of each part of it, turn by turn: `run`, `latent`, and every agent
    whose instructions are its name. `effects` are those that it has, `{part/call: tool}`. The model
    of the name `DOWN` never answers.

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
            return [("", "t1-plan"), ("", "t1c2")]  # what it pays is known later
        keys = [key.removeprefix(RUN).split("/") for key in self.effects]
        # One question is for all items of a loop.
        return list(dict.fromkeys((part, call_id.partition(".")[0]) for part, call_id in keys))

    def asked_for(self, name: str) -> dict[str, Any]:
        """The request that begins it, of an agent of this name."""
        if self.workflow != "AgentWorkflow":
            return dict(self.request)
        agent = {
            "name": name,
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
        """Return the model's answer to a request: the same one for the same request."""
        if body["model"] == DOWN:
            return NO_CREDIT
        said = self.models[self.speaker(body)]
        return said[min(turn_of(body), len(said)) - 1]


DONE = Answer("done")
DOWN = "down"
NO_CREDIT = Answer(status=402, body={"error": {"message": "the account has no credit"}})
MANY = {"budget": {"maxTurns": 50, "maxIterations": 50, "maxCalls": 100}}
# One turn takes about ten events: every second turn begins under a new run id.
OFTEN = {"continue_after": 20}

PAYMENT = Scenario(
    {
        "run": [
            Answer("let me see", calls=[call("look_up", id=7)]),
            Answer(calls=[call("pay", amount="†state.item.price", to="ada")]),
            DONE,
        ]
    },
    output="done",
    effects={"run/t2c1": "pay"},
    tools=["look_up", "pay"],
)

REFUND = Scenario(
    {"run": [Answer(calls=[call("refund", amount=250)]), DONE]},
    output="done",
    effects={"run/t1c1": "refund"},
    tools=["refund"],
    agent={"approval": {"approvers": ["finance"], "quorum": 2}},
)

_JOIN = {
    "_tool": "put",
    "_activity": {"type": "join", "retry": {"initialInterval": "100ms"}},
    "properties": {"text": {"type": "string"}, "_outputPath": {"type": "string"}},
}
GRAPH = Scenario(
    {
        "run": [
            Answer(
                calls=[
                    call("pay", amount="†state.item.price", to="†state.c"),
                    call("put", text="†{state.b}c", _outputPath="†state.c"),
                    call("put", text="a", _outputPath="†state.a"),
                    call("put", text="b", _outputPath="†state.b"),
                    call("look_up", id=7),
                    call("refund", amount=3),
                ]
            ),
            DONE,
        ]
    },
    output="done",
    effects={"run/t1c1": "pay", "run/t1c6": "refund"},
    tools=["pay", "refund", "look_up", _JOIN],
)

DELEGATE = Scenario(
    {
        "run": [Answer(calls=[("ask", {})]), Answer("thanks")],
        "helper": [Answer(calls=[call("pay", amount=5)]), Answer("I did")],
    },
    output="thanks",
    effects={"run.t1c1/t1c1": "pay"},
    tools=[{"_tool": "ask", "description": "Have it done.", "_delegate": "helper"}],
    agents={"helper": {"tools": ["pay"]}},
    parts=("", ".t1c1"),
)

REPAIR = Scenario(
    {
        "run": [Answer(calls=[call("pay", amount="five")]), DONE],
        "fixer": [Answer(calls=[call("look_up", id=1)]), Answer('{"amount": 5}')],
    },
    output="done",
    effects={"run/t1c1": "pay"},
    tools=["pay"],
    agent={"_repair": {"agent": "fixer"}},
    agents={"fixer": {"tools": ["look_up"]}},
    parts=("", ".t1c1-repair"),
)

PLAN = Scenario(
    {
        "run": [
            Answer(
                calls=[
                    call("look_up", id=4),
                    call("pay", amount="†state.item.price"),
                    call("refund", amount=8),
                ]
            ),
            DONE,
        ]
    },
    output="done",
    effects={"run/t1c2": "pay", "run/t1c3": "refund"},
    tools=["look_up", "pay", "refund"],
    agent={"plan": "lazy"},
)

# Each half of it is run at a time; one payment for each item, and no other.
_PAY_EACH = {
    "_tool": "pay",
    "_activity": {"type": "pay", "retry": {"initialInterval": "100ms"}},
    "_sideEffects": True,
    "_each": True,
    "properties": {"amount": {"type": "number"}},
}
LOOP = Scenario(
    {"run": [Answer(calls=[call("pay", _each="†state.due", amount="†item.price")]), DONE]},
    output="done",
    effects={f"run/t1c1.{n}": "pay" for n in range(4)},
    tools=[_PAY_EACH],
    request={"state": {"due": [{"price": price} for price in (10, 20, 30, 40)]}},
    agent={"concurrency": 2},
    settings=OFTEN,
)

CHAIN = Scenario(
    {
        "run": [
            Answer(calls=[call("refund", amount=1)]),
            Answer(calls=[call("pay", amount=2)]),
            Answer(calls=[call("refund", amount=3)]),
            Answer(calls=[call("pay", amount=4)]),
            DONE,
        ]
    },
    output="done",
    effects={"run/t1c1": "refund", "run/t2c1": "pay", "run/t3c1": "refund", "run/t4c1": "pay"},
    tools=["pay", "refund"],
    agent=MANY,
    settings=OFTEN,
)


async def _converse(person: Person) -> None:
    """A client asks twice, once by each way, and hangs up."""
    await person.until("awaiting_message")
    assert await person.send("pay her") == "paid"
    await person.until("awaiting_message")
    await person.message("and now?")
    await person.answered(3)
    await person.close()


CONVERSATION = Scenario(
    {
        "run": [
            Answer("hello"),
            Answer(calls=[call("pay", amount=9)]),
            Answer("paid"),
            Answer("nothing more"),
        ]
    },
    output="nothing more",
    effects={"run/t2c1": "pay"},
    tools=["pay"],
    request={"conversation": True},
    settings=OFTEN,
    visit=_converse,
)

_MOOD = {
    "_tool": "mood",
    "description": "The mood of a text.",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "_output": {"type": "object", "properties": {"mood": {"enum": ["good", "bad"]}}},
    "_outputPath": "†state.mood",
}
MIXED = Scenario(
    {
        "run": [
            Answer(
                calls=[
                    call("mood", text="hooray"),
                    call("shout", text="hi"),
                    call("refund", amount=6),
                ]
            ),
            DONE,
        ],
        "latent": [Answer('{"mood": "good"}')],
    },
    output="done",
    effects={"run/t1c3": "refund"},
    tools=[_MOOD, "shout", "refund"],
    agent={"_before": "guard", "_after": "review"},
)

MODELS = Scenario(
    {
        "run": [
            Answer(
                calls=[
                    call("rules"),
                    call("memory_write", key="paid", value="7", append=True),
                    call("pay", amount=7),
                ]
            ),
            # A write that was made twice would leave another text.
            Answer(calls=[call("memory_write", key="paid", value="8", ifValue="7")]),
            DONE,
        ]
    },
    output="done",
    effects={"run/t1c3": "pay"},
    tools=["pay"],
    agent={
        "model": [{"endpoint": "fake", "name": name} for name in (DOWN, "fake")],
        "knowledge": [{"name": "rules", "activity": "rules"}],
        "memory": True,
        "_beforeModel": "mask",
        "_onModelError": "insist",
    },
)

# Within its time, a forward and reminders come due in an outage, and so does its end.
DEADLINES = Scenario(
    {"run": [Answer(calls=[call("refund", amount=90)]), DONE]},
    output="done",
    effects={"run/t1c1": "refund"},
    tools=["refund"],
    agent={
        "approval": {
            "approvers": ["finance"],
            "quorum": 2,
            "timeout": "30s",
            "remind": "8s",
            "forward": [{"after": "12s", "to": ["board"]}],
        }
    },
)

SINGLE = Scenario(
    {},
    output={"paid": 5},
    effects={"run/t1c1": "pay"},
    request={"tool": "pay", "arguments": {"amount": 5}},
    workflow="CallWorkflow",
)


async def _fork_and_close(person: Person) -> None:
    """A person forks the open run after its first turn; once the fork has ended, they hang up."""
    await person.until("awaiting_message")
    await person.fork("helper", turn=1)
    await person.close()


# What the run paid, its fork has as a result: it refunds something, and pays nothing.
FORK = Scenario(
    {
        "run": [Answer(calls=[call("pay", amount=9)]), Answer("paid")],
        "helper": [DONE, Answer(calls=[call("refund", amount=8)]), Answer("refunded")],
    },
    output="paid",
    effects={"run/t1c1": "pay", "run.fork/t2c1": "refund"},
    tools=["pay"],
    request={"conversation": True},
    agents={"helper": {"tools": ["pay", "refund"]}},
    parts=("", ".fork"),
    visit=_fork_and_close,
)

SCENARIOS: dict[str, Scenario] = {
    "payment": PAYMENT,
    "refund": REFUND,
    "graph": GRAPH,
    "delegate": DELEGATE,
    "repair": REPAIR,
    "plan": PLAN,
    "loop": LOOP,
    "chain": CHAIN,
    "conversation": CONVERSATION,
    "mixed": MIXED,
    "models": MODELS,
    "single": SINGLE,
    "fork": FORK,
    DEADLINE: DEADLINES,
}
