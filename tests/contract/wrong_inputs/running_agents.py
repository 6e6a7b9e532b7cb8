"""Runs of agents that are written in the request, and wrong."""

from typing import Any

from tests.contract.wrong_inputs.running_requests import MODEL, agent, of


def tool(**more: Any) -> dict[str, Any]:
    """A run of an agent with a tool that is written in it."""
    return agent(tools=[{"_tool": "look", "_activity": "look_up", **more}])


AGENTS = [
    of(
        "an agent without a model",
        {"agent": {"instructions": "Help."}, "input": "go"},
        "`agent`: `model` is missing; add it",
    ),
    of(
        "an endpoint that does not exist",
        agent(model={"endpoint": "fak", "name": "x"}),
        "`agent.model.endpoint`: there is no endpoint `fak`; did you mean `fake`?",
    ),
    of(
        "a model that is a text",
        agent(model="gpt-4o"),
        "`agent.model`: `gpt-4o` does not fit; write an object",
    ),
    of(
        "a key in an agent",
        agent(model={**MODEL, "apiKey": "sk-1"}),
        (
            "`agent.model.apiKey`: unknown field `apiKey`; known: `endpoint`, "
            "`maxOutputTokens`, `name`, `options`, `temperature`"
        ),
    ),
    of(
        "a name with a blank",
        agent(name="my agent"),
        (
            "`agent.name`: `my agent` does not fit; write at most 128 letters, digits, `_`,"
            " `.` and `-`, of which the first is a letter"
        ),
    ),
    of(
        "a meta-property that is misspelt",
        tool(_sideEffect=True),
        ("`agent.tools[0]`: unknown meta-property `_sideEffect`; did you mean `_sideEffects`?"),
    ),
    of(
        "a tool without a good schema",
        tool(properties={"id": {"type": "strnig"}}),
        ("`agent.tools[0].properties.id.type`: `strnig` is no type; did you mean `string`?"),
    ),
    of(
        "a policy that is misspelt",
        tool(_approval={"require": "allways"}),
        ("`agent.tools[0]._approval.require`: `allways` does not fit; did you mean `always`?"),
    ),
    of(
        "a path to nowhere",
        tool(_outputPath="state.item"),
        (
            "`agent.tools[0]._outputPath`: `state.item` names no place to write to; write "
            "it like `†state.order.id`"
        ),
    ),
    of(
        "auto for a tool it does not have",
        agent(tools=["look_up"], approval={"auto": ["pay"]}),
        (
            "`agent.approval.auto`: `approval.auto` names `pay`, which is not among the "
            "agent's tools; known: `look_up`"
        ),
    ),
    of(
        "onLimit to do nothing",
        agent(onLimit={"maxTurns": "ignore"}),
        ("`agent.onLimit.maxTurns`: `ignore` does not fit; write `finalize`, `fail` or `ask`"),
    ),
    of(
        "a calling that does not exist",
        agent(calling="compose"),
        "`agent.calling`: `compose` does not fit; did you mean `composed`?",
    ),
    of(
        "a tool that nothing carries out",
        agent(tools=[{"_tool": "lookup", "description": "Look an order up."}]),
        (
            "`agent.tools[0]`: this worker has no activity `lookup` to run the "
            "tool; name one with `_activity` (did you mean `look_up`?), an agent with `_delegate`, "
            "or have the model itself answer by `_output`"
        ),
    ),
    of(
        "a delegate that does not exist",
        agent(tools=[{"_tool": "ask", "_delegate": "helpr"}]),
        "`agent.tools[0]._delegate`: there is no agent `helpr`; did you mean `helper`?",
    ),
    of(
        "a hook that nobody registers",
        agent(_before="look_upp"),
        (
            "`agent._before`: this worker has no activity `look_upp`; did you mean `look_up`? (an "
            "activity of another worker needs its `taskQueue`)"
        ),
    ),
    of(
        "a skill twice",
        agent(skills=[{"name": "orders"}, {"name": "orders"}]),
        ("`agent.skills[1].name`: it has the skill `orders` twice; give one of them another name"),
    ),
]
