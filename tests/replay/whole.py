"""Paths of whole calls: graphs, hooks, latent answers, delegates, instances, skills, memory."""

import json
from typing import Any

from tests.replay.path import Path, decides, decision_on
from tests.support import tools
from tests.support.backend import Run
from tests.support.eventually import eventually
from tests.support.model_server import Answer, call

DONE = Answer("done")
NAMED = {"type": "string"}
MAKE = {
    "_tool": "make",
    "_activity": "echo",
    "properties": {"text": NAMED, "_outputPath": NAMED},
}
GIVE = {
    "_tool": "give",
    "_activity": "refund",
    "_sideEffects": True,
    "_idempotent": True,
    "properties": {"amount": {"type": "number"}},
}
GRAPH = [
    call("give", amount="†state.item.id"),
    call("make", text="†{state.a} and †{state.b}"),
    call("make", text="a", _outputPath="†state.a"),
    call("make", text="†{state.a}b", _outputPath="†state.b"),
    call("look_up", id=7),
]
CIRCLE = [
    call("make", text="†state.b", _outputPath="†state.a"),
    call("make", text="†state.a", _outputPath="†state.b"),
]
BRANCH = [
    call("fails", _outputPath="†state.ok || †state.error"),
    call("make", text="†state.ok"),
    call("make", text="it went wrong: †{state.error.message}"),
]
FAILS = {"_tool": "fails", "_activity": "raises", "properties": {"_outputPath": NAMED}}
LOOK = {
    "_tool": "look",
    "_activity": "look_up",
    "_prepare": "tidy",
    "_repair": "mend",
    "_after": "review",
    "properties": {"id": {"type": "integer"}},
    "required": ["id"],
}
WALK = {
    "_tool": "walk",
    "_activity": {"type": "move", "input": ["from.place", "to"]},
    "properties": {"from": {"type": "object"}, "to": {"default": "home"}},
}
TIDIED = {
    "_tool": "tidied",
    "_activity": {"type": "tidy", "input": {"id": "n", "note": "note"}},
    "properties": {"n": {"type": "integer"}, "note": NAMED},
}
MOOD = {
    "_tool": "mood",
    "properties": {"text": NAMED},
    "_output": {"type": "object", "properties": {"mood": {"enum": ["good", "bad"]}}},
}
ASK = {
    "_tool": "ask",
    "description": "Answer the question.",
    "properties": {"question": NAMED},
    "_delegate": "anonymous",
    "_output": {"type": "object", "properties": {"mood": {"enum": ["good", "bad"]}}},
}
HAVE_PAID = {"_tool": "have_paid", "properties": {"task": NAMED}, "_delegate": "clerk"}
FIX_ME = {
    "_tool": "fix_me",
    "_activity": "look_up",
    "_repair": {"agent": "clerk"},
    "properties": {"id": {"type": "integer"}},
    "required": ["id"],
}
TRANSCRIPT = [
    {"content": "Which item is it?"},
    {"role": "assistant", "calls": [{"id": "a", "tool": "gone", "arguments": {"id": 7}}]},
    {"role": "tool", "callId": "a", "content": "gone is away", "isError": True},
]
INSTANCES = [
    {
        "content": [
            {"type": "data", "kind": "input", "data": {"id": number}, "_instance": name}
            for number, name in enumerate(("first", "second"), 1)
        ]
    }
]
SKILLS = [
    {"name": "items", "description": "Find items.", "instructions": "Be quick.",
     "tools": ["look_up"]},
    {"name": "talk", "activity": "echo"},
]  # fmt: skip
SHOWN = [
    {"type": "text", "text": "When does it end?"},
    {"type": "image", "mediaType": "image/png", "data": "iVBORw0KGgo="},
    {"type": "document", "data": "JVBERi0xLjc=", "name": "contract.pdf"},
]

IN_ORDER = [
    Answer(
        calls=[
            call("memory_write", key="colour", value="blue", append=True),
            call("memory_write", key="colour", value="green", append=True),
            call("memory_read", key="colour"),
            call("memory_write", key="colour", value="red", ifValue="blue"),
        ]
    ),
    DONE,
]
KINDNESS = {"name": "rules", "text": "Be kind."}
HOOKED = {"agent": {"_before": "guard"}}
MEMORY = [
    Answer(calls=[call("memory_write", key="colour", value="blue")]),
    Answer(calls=[call("memory_read", key="colour"), call("memory_search", query="blue")]),
    DONE,
]


def by_system(**said: list[Answer]) -> Any:
    """Answers turn by turn, for the runs whose instructions begin so."""

    def answer(turn: int, body: dict[str, Any]) -> Answer:
        system = body["messages"][0]["content"]
        found = next(answers for words, answers in said.items() if words in system)
        return found[min(turn, len(found)) - 1]

    return answer


def fixed(arguments: str) -> Any:
    """The clerk has these arguments for a call that does not fit."""
    asked = [Answer(calls=[call("fix_me", id="seven")]), DONE]
    return by_system(**{"You are a clerk": [Answer(arguments)], "Test": asked})


def composed(output: Any, *calls: dict[str, Any]) -> Answer:
    """One structured answer."""
    return Answer(json.dumps({"calls": list(calls), "output": output}))


def without_tools(turn: int, body: dict[str, Any]) -> Answer:
    """A model that is down, and another one, which takes no tools."""
    if body["model"] == "big":
        return Answer(status=402, body={"error": {"message": "no credit"}})
    if "tools" in body:
        return Answer(status=400, body={"error": {"message": "tiny does not support tools"}})
    return [composed(None, {"_tool": "look_up", "id": 1}), composed("a lamp")][turn - 1]


def hooked(turn: int, _: dict[str, Any]) -> Answer:
    """A model that looks something up, and then is down."""
    down = Answer(status=402, body={"error": {"message": "no credit"}})
    return Answer(calls=[call("look_up", id=1)]) if turn == 1 else down


async def sends_more(run: Run) -> None:
    """A person approves a plan, and sends a message while the first of its calls runs."""
    await run.waiting()
    await run.decide("t1-plan", "approve")

    async def has_started() -> bool:
        return "started a" in tools.read()

    await eventually(has_started)
    await run.handle.signal("message", {"content": "leave it at that"})
    tools.write("open a")


async def approves_twice(run: Run) -> None:
    """Approve a plan, and a payment in it whose amount comes from a result."""
    await run.waiting()
    await run.decide("t1-plan", "approve", by="ada")
    await run.signal("t1c1", "approve", by="ada")


async def bounds_one(run: Run) -> None:
    """A person bounds one of two later payments, and denies the other."""
    await run.waiting()
    bound = {"id": "t1c2", "bound": {"properties": {"amount": {"maximum": 9}}}}
    calls = {"calls": [{"id": "t1c1"}, bound, {"id": "t1c3"}]}
    await run.decide("t1-plan", "edit", arguments=calls)
    await run.signal("t1c3", "deny")


async def delegate_decides(run: Run) -> None:
    """A person decides in the delegate, whose call its parent shows."""

    async def shown() -> bool:
        delegates = (await run.status()).get("delegates") or []
        return any(each["pending"] for each in delegates)

    await eventually(shown)
    await run.delegate("t1c1").decide("t1c1", "approve", by="ada")


LAZY = {"agent": {"plan": "lazy"}}
HELD = {
    "_tool": "hold",
    "_activity": {"type": "held", "startToCloseTimeout": "20s"},
    "properties": {"name": NAMED, "_outputPath": NAMED},
}
PLAN = [*GRAPH[:1], *GRAPH[4:], call("make", text="hello")]
BOUND_PLAN = [
    call("look_up", id=7),
    call("give", amount="†state.item.id"),
    call("give", amount="†state.item.id"),
]
STRUCK = {
    "calls": [
        {"id": "t1c1", "arguments": {"amount": 3}},
        {"id": "t1c2", "arguments": {"id": 7}},
    ]
}
LATENT = by_system(
    **{
        "You answer one call of a tool": [Answer('{"mood": "good"}')],
        "Test": [Answer(calls=[call("mood", text="hooray")]), DONE],
    }
)
ANONYMOUS = by_system(
    **{
        "Answer the question": [Answer('{"mood": "good"}')],
        "Test": [Answer(calls=[call("ask", question="how?")]), DONE],
    }
)
PAYS = by_system(
    **{
        "You are a clerk": [Answer(calls=[call("pay", amount=5)]), Answer("paid")],
        "Test": [Answer(calls=[call("have_paid", task="pay 5")]), DONE],
    }
)

WHOLE: dict[str, Path] = {
    "picture_unseen": Path(
        [Answer("In June.")],
        request={
            "agent": {"model": {"endpoint": "fake", "name": "tiny", "accepts": ["document"]}},
            "input": None,
            "context": [{"content": SHOWN}],
        },
    ),
    "model_hooks": Path(
        hooked,
        ["look_up"],
        {"agent": {"_beforeModel": "mask", "_onModelError": "stand_in"}, "input": "Ask Ann."},
    ),
    "activity_input": Path(
        [Answer(calls=[call("walk", **{"from": {"place": "work"}}), call("tidied", n=7)]), DONE],
        [WALK, TIDIED],
    ),
    "from_the_end": Path(
        [
            Answer(
                calls=[
                    call("make", text="†state.names[-1]", _outputPath="†state.tags['of all']"),
                    call("make", text='†{state.tags["of all"]}, †{state.names[-2]}'),
                ]
            ),
            DONE,
        ],
        [MAKE],
        {"state": {"names": ["Ada", "Bob"]}},
    ),
    "answer_reviewed": Path(
        [Answer(calls=[call("look_up", id=7)]), Answer("Ann has it."), Answer("It came.")],
        ["look_up"],
        {
            "agent": {
                "_afterAnswer": "proofread",
                "answer": {"id": "†state.item.id", "text": "†output"},
            },
            "principal": {"id": "ann", "scopes": ["orders"]},
        },
    ),
    "next_model_without_tools": Path(
        without_tools,
        ["look_up"],
        {"agent": {"model": [{"endpoint": "fake", "name": name} for name in ("big", "tiny")]}},
    ),
    "graph": Path(
        [Answer(calls=GRAPH), DONE],
        [GIVE, MAKE, "look_up"],
        people=decides(decision_on("t1c1", "approve")),
    ),
    "graph_in_a_circle": Path([Answer(calls=CIRCLE), DONE], [MAKE]),
    "graph_branches": Path([Answer(calls=BRANCH), DONE], [FAILS, MAKE]),
    "hooks": Path([Answer(calls=[call("look", n="x")]), DONE], [LOOK], HOOKED),
    "hook_blocks": Path([Answer(calls=[call("look", id=13)]), DONE], [LOOK], HOOKED),
    "hook_stops": Path([Answer(calls=[call("look", id=99)]), DONE], [LOOK], HOOKED),
    "plan_approved": Path(
        [Answer(calls=PLAN), DONE],
        [GIVE, MAKE, "look_up"],
        LAZY,
        approves_twice,
    ),
    "plan_bound": Path(
        [Answer(calls=BOUND_PLAN), DONE],
        [GIVE, "look_up"],
        LAZY,
        bounds_one,
    ),
    "plan_edited": Path(
        [Answer(calls=PLAN), DONE],
        [GIVE, MAKE, "look_up"],
        LAZY,
        decides(decision_on("t1-plan", "edit", arguments=STRUCK)),
    ),
    "plan_denied": Path(
        [Answer(calls=PLAN), DONE],
        [GIVE, MAKE, "look_up"],
        LAZY,
        decides(decision_on("t1-plan", "deny", reason="not today")),
    ),
    "plan_replaced": Path(
        [
            Answer(
                calls=[
                    call("hold", name="a", _outputPath="†state.a"),
                    call("make", text="†state.a"),
                ]
            ),
            DONE,
        ],
        [HELD, MAKE],
        LAZY,
        sends_more,
    ),
    "latent": Path(LATENT, [MOOD]),
    "composed": Path(
        [
            composed(
                None,
                {"_tool": "look_up", "id": 7},
                {"_tool": "mood", "text": "hooray", "_output": {"mood": "good"}},
            ),
            composed("Hello"),
        ],
        ["look_up", MOOD],
        {"agent": {"calling": "composed"}},
    ),
    "delegated": Path(ANONYMOUS, [ASK]),
    "delegate": Path(ANONYMOUS, [ASK], other=lambda run: f"{run.id}.t1c1"),
    "delegated_waits": Path(PAYS, [HAVE_PAID], people=delegate_decides),
    "delegate_waits": Path(
        PAYS, [HAVE_PAID], people=delegate_decides, other=lambda run: f"{run.id}.t1c1"
    ),
    "share_used_up": Path(
        by_system(
            **{
                "You are a clerk": [
                    Answer(calls=[call("look_up", id=1)]),
                    Answer("So far.", calls=[call("look_up", id=2)]),
                ],
                "Test": [Answer(calls=[call("have_paid", task="look")]), DONE],
            }
        ),
        [HAVE_PAID],
        {"agent": {"budget": {"maxTurns": 4}}},
        other=lambda run: f"{run.id}.t1c1",
    ),
    "instances": Path(
        [
            Answer(
                calls=[
                    call("look_up", id="†input.id", _instance="first"),
                    call("look_up", id="†input.id", _instance="second"),
                    call("look_up", id="†input.id"),
                ]
            ),
            DONE,
        ],
        ["look_up"],
        {"context": INSTANCES},
    ),
    "skill_chosen": Path(
        [
            Answer(calls=[call("choose_skill", skill="items")]),
            Answer(calls=[call("look_up", id=7), call("pay", amount=1)]),
            DONE,
        ],
        request={"agent": {"skills": SKILLS}},
    ),
    "skill_pays": Path(
        [DONE],
        request={
            "agent": {"skills": [{"name": "payout", "activity": "pay"}]},
            "input": {"amount": 5},
        },
        people=decides(decision_on("t1c1", "approve")),
    ),
    "skill_by_an_activity": Path(
        [DONE], request={"agent": {"skills": SKILLS}, "skill": "talk", "input": {"text": "hi"}}
    ),
    "skill_by_rule": Path(
        [DONE],
        request={
            "agent": {"skills": [{"name": "numbers", "when": {"type": "object"}}, *SKILLS]},
            "input": {"number": 7},
        },
    ),
    "skill_explained": Path(
        [
            Answer(
                calls=[
                    call(
                        "choose_skill",
                        skill="items",
                        confidence=0.9,
                        _reasoningForCall="It names one.",
                    )
                ]
            ),
            DONE,
        ],
        request={"agent": {"skills": SKILLS}},
    ),
    "continued": Path(
        [Answer("So it is item 7.", calls=[call("look_up", id=7)]), DONE],
        ["look_up"],
        {"input": None, "context": TRANSCRIPT},
    ),
    "repaired_by_an_agent": Path(fixed('{"id": 7}'), [FIX_ME]),
    "repair_changes_nothing": Path(fixed('{"id": "seven"}'), [FIX_ME]),
    "knowledge": Path(
        [Answer(calls=[call("rules")]), DONE],
        request={"agent": {"knowledge": [KINDNESS]}},
    ),
    "knowledge_used": Path(
        [Answer(calls=[call("rules"), call("now")]), DONE],
        request={"agent": {"knowledge": [KINDNESS, {"name": "now", "activity": "tidy"}]}},
    ),
    "memory_in_order": Path(IN_ORDER, request={"agent": {"memory": True, "name": "scribe"}}),
    "memory_kept": Path(
        IN_ORDER,
        request={"agent": {"memory": True, "name": "writer"}},
        other=lambda run: "memory-inline.writer",
    ),
    "memory_used": Path(MEMORY, request={"agent": {"memory": True}}),
    "memory": Path(
        MEMORY,
        request={"agent": {"memory": True, "name": "keeper"}},
        other=lambda run: "memory-inline.keeper",
    ),
}
