"""The scenarios that faults are tried on."""

from tests.faults.stage.people import Person
from tests.faults.stage.scenario import Scenario
from tests.support.model_server import Answer, call

DONE = Answer("done")
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
    """Somebody asks twice, once by each way, and hangs up."""
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

SINGLE = Scenario(
    {},
    output={"paid": 5},
    effects={"run/t1c1": "pay"},
    request={"tool": "pay", "arguments": {"amount": 5}},
    workflow="CallWorkflow",
)

SCENARIOS: dict[str, Scenario] = {
    "payment": PAYMENT,
    "refund": REFUND,
    "graph": GRAPH,
    "delegate": DELEGATE,
    "plan": PLAN,
    "chain": CHAIN,
    "conversation": CONVERSATION,
    "mixed": MIXED,
    "single": SINGLE,
}
