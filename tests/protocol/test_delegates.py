"""§8: a call that a run of its own carries out, in a fresh context."""

import json

from tests.protocol.stage import Stage, agent, calls
from tests.support.model_server import Answer

HOST = agent("""
name: host
model: {endpoint: fake, name: host}
instructions: You look after guests.
tools:
- _tool: judge_menu
  description: You judge a menu, and have no taste of your own.
  properties: {menu: {type: array, items: {type: string}}}
  required: [menu]
  _delegate: anonymous
  _output:
    type: object
    properties: {vegetarian: {type: boolean}}
    required: [vegetarian]
""")


async def test_an_anonymous_delegate_sees_nothing_but_its_arguments(stage: Stage) -> None:
    stage.model("host", calls({"_tool": "judge_menu", "menu": ["leek", "rye"]}), Answer("It is."))
    stage.model("host", Answer('{"vegetarian": true}'), asked="You judge a menu")
    run = await stage.start(HOST, input="Is our menu, for the king's visit, vegetarian?")

    assert (await run.result())["output"] == "It is."
    assert json.loads((await run.results())["t1c1"]) == {"vegetarian": True}
    [_, judging, _] = stage.requests("host")
    assert "leek" in str(judging)
    assert "king" not in str(judging)
    assert "You look after guests" not in str(judging)
