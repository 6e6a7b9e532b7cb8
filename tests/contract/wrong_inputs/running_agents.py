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
        "an agent without an endpoint",
        agent(model={"name": "gpt-4o"}),
        "`agent.model`: `endpoint` is missing; add it",
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
        "a temperature that is too high",
        agent(model={**MODEL, "temperature": 5}),
        "`agent.model.temperature`: `5` does not fit; write 2 or less",
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
        "a field that is misspelt",
        agent(instruction="Help."),
        "`agent.instruction`: unknown field `instruction`; did you mean `instructions`?",
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
        "a tool that does not exist",
        agent(tools=["lookup"]),
        "`agent.tools[0]`: there is no tool `lookup`; did you mean `look_up`?",
    ),
    of(
        "tools that are a text",
        agent(tools="look_up"),
        "`agent.tools`: `look_up` does not fit; write a list, like [look_up]",
    ),
    of(
        "a tool that is a number",
        agent(tools=[7]),
        "`agent.tools[0]`: `7` does not fit; write a text, or an object",
    ),
    of(
        "a tool twice",
        agent(tools=["look_up", "look_up"]),
        "`agent.tools[1]`: it has `look_up` twice; keep one of them",
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
        "an approval timeout of days",
        tool(_approval={"timeout": 7}),
        (
            "`agent.tools[0]._approval.timeout`: `7` does not fit; a duration is a number "
            'and a unit: "500ms", "30s", "5m", "24h", "7d"'
        ),
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
        "a duration that is none",
        tool(_activity={"type": "look_up", "startToCloseTimeout": "soon"}),
        (
            "`agent.tools[0]._activity.startToCloseTimeout`: `soon` does not fit; a "
            'duration is a number and a unit: "500ms", "30s", "5m", "24h", "7d"'
        ),
    ),
    of(
        "an output that is no schema",
        agent(output={"type": "objekt"}),
        "`agent.output.type`: `objekt` is no type; did you mean `object`?",
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
        "onLimit for no budget",
        agent(onLimit={"maxTurn": "ask"}),
        "`agent.onLimit.maxTurn`: `maxTurn` does not fit; did you mean `maxTurns`?",
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
        "a plan that does not exist",
        agent(plan="lasy"),
        "`agent.plan`: `lasy` does not fit; did you mean `lazy`?",
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
        "a delegate besides an activity",
        tool(_delegate="helper"),
        (
            "`agent.tools[0]._delegate`: `_delegate` and `_activity` each say what carries the "
            "tool out; keep one of them"
        ),
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
        "a local hook",
        tool(_before={"type": "look_up", "local": True}),
        "`agent.tools[0]._before.local`: this option is not for hooks; leave it out",
    ),
    of(
        "a skill without a name",
        agent(skills=[{"tools": ["look_up"]}]),
        "`agent.skills[0]`: `name` is missing; add it",
    ),
    of(
        "a skill twice",
        agent(skills=[{"name": "orders"}, {"name": "orders"}]),
        ("`agent.skills[1].name`: it has the skill `orders` twice; give one of them another name"),
    ),
    of(
        "a tool of a skill that does not exist",
        agent(skills=[{"name": "orders", "tools": ["lookup"]}]),
        "`agent.skills[0].tools[0]`: there is no tool `lookup`; did you mean `look_up`?",
    ),
    of(
        "instructions for an activity",
        agent(skills=[{"name": "a", "activity": "look_up", "instructions": "Be quick."}]),
        (
            "`agent.skills[0].instructions`: an activity does the work of this skill, without a "
            "model; leave it out, or leave out `activity`"
        ),
    ),
    of(
        "knowledge from two places",
        agent(knowledge=[{"name": "faq", "text": "Five days.", "url": "https://x/y"}]),
        "`agent.knowledge[0]`: knowledge has one source; write `file`, `url` or `text`",
    ),
    of(
        "no concurrency",
        agent(concurrency=0),
        "`agent.concurrency`: `0` does not fit; write 1 or more",
    ),
]
