"""§6: one answer is a graph of work: what a call writes, another reads by reference."""

import json

from tests.protocol.stage import ExampleRunner, agent, composed
from tests.support.model_server import Answer

BIOGRAPHER = agent("""
name: biographer
model: {endpoint: fake, name: biographer}
instructions: You write about people.
calling: composed
tools:
- _tool: fetch_profile
  properties: {user_id: {type: integer}}
  required: [user_id]
  _outputPath: †state.profile
- _tool: summarise
  description: One sentence about a person.
  properties: {profile: {type: object}}
  required: [profile]
  _output: {type: string}
  _outputPath: †state.summary
""")
SUMMARY = "Ada of London likes engines and poetry."


async def test_a_profile_is_fetched_and_then_summarised_in_one_answer(stage: ExampleRunner) -> None:
    stage.model(
        "biographer",
        composed(
            {"_tool": "summarise", "profile": "†state.profile"},
            {"_tool": "fetch_profile", "user_id": 7},
            output="†state.summary",
        ),
    )
    stage.model("biographer", Answer(json.dumps(SUMMARY)), asked="You answer one call of a tool")
    run = await stage.start(BIOGRAPHER, input="Who is user 7?")

    result = await run.result()
    assert result["output"] == SUMMARY
    assert result["state"]["profile"]["name"] == "Ada"
    # One answer for both calls, and one to summarise what had been fetched by then.
    assert (result["turns"], result["calls"]) == (2, 2)
    [_, latent] = stage.requests("biographer")
    assert '"interests": ["engines", "poetry"]' in latent["messages"][-1]["content"]
    assert [line for line in await run.event_lines() if line.startswith("tool_start")] == [
        "tool_start t1c2",
        "tool_start t1c1",
    ]
