"""§2, §4: a tool that the model itself answers, and one answer with all calls and the output."""

import json

from tests.protocol.stage import ExampleRunner, agent, calls, composed
from tests.support.model_server import Answer

CRITIC = agent("""
name: critic
model: {endpoint: fake, name: critic}
instructions: You judge what customers write.
calling: composed
tools:
- _tool: sentiment
  description: The sentiment of a text.
  properties:
    text: {type: string}
    _outputPath: {const: †state.sentiment}
  required: [text]
  _output:
    type: object
    properties:
      mood: {enum: [positive, negative, neutral]}
      score: {type: number, minimum: 0, maximum: 1}
    required: [mood, score]
""")
PRAISE = {"mood": "positive", "score": 0.9}


async def test_sentiment_is_answered_latently_in_the_same_answer(stage: ExampleRunner) -> None:
    sentiment = {"_tool": "sentiment", "text": "I love it!", "_output": PRAISE}
    stage.model("critic", composed(sentiment, output="That is praise."))
    run = await stage.start(CRITIC, input="I love it!")

    result = await run.result()
    assert result["output"] == "That is praise."
    assert result["state"] == {"sentiment": PRAISE}
    assert (result["turns"], result["calls"]) == (1, 1)


async def test_sentiment_is_answered_latently_in_a_request_of_its_own(stage: ExampleRunner) -> None:
    native = {**CRITIC, "calling": "native", "model": {"endpoint": "fake", "name": "reviewer"}}
    stage.model(
        "reviewer", calls({"_tool": "sentiment", "text": "I love it!"}), Answer("That is praise.")
    )
    stage.model("reviewer", Answer(json.dumps(PRAISE)), asked="You answer one call of a tool")
    run = await stage.start(native, input="I love it!")

    result = await run.result()
    assert result["output"] == "That is praise."
    assert result["state"] == {"sentiment": PRAISE}
    assert (result["turns"], result["calls"]) == (3, 1)
