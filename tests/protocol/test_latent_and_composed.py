"""§2, §4: a tool that the model itself answers, and one answer with all calls and the output."""

import json

from tests.protocol.stage import Stage, agent, calls, composed, forced_schema
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


async def test_sentiment_is_answered_latently_in_the_same_answer(stage: Stage) -> None:
    sentiment = {"_tool": "sentiment", "text": "I love it!", "_output": PRAISE}
    stage.model("critic", composed(sentiment, output="That is praise."))
    run = await stage.start(CRITIC, input="I love it!")

    result = await run.result()
    assert result["output"] == "That is praise."
    assert result["state"] == {"sentiment": PRAISE}
    assert (result["turns"], result["calls"]) == (1, 1)


async def test_sentiment_is_answered_latently_in_a_request_of_its_own(stage: Stage) -> None:
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


GREETER = agent("""
name: greeter
model: {endpoint: fake, name: greeter}
instructions: You greet people.
calling: composed
reasoningForCall: false
tools:
- _tool: fetch_profile
  description: Fetch the profile of a user.
  properties: {user_id: {type: integer}}
  required: [user_id]
- _tool: style
  description: The style in which somebody likes to be greeted.
  properties: {city: {type: string}}
  _output: {enum: [formal, warm]}
output:
  type: object
  properties: {greeting: {type: string}, language: {enum: [en, de]}}
  required: [greeting, language]
""")
THE_SCHEMA_OF_A_GREETING = {
    "type": "object",
    "properties": {
        "calls": {
            "type": "array",
            "items": {
                "anyOf": [
                    {
                        "type": "object",
                        "description": "Fetch the profile of a user.",
                        "properties": {
                            "_tool": {"type": "string", "const": "fetch_profile"},
                            "user_id": {"type": "integer"},
                        },
                        "required": ["_tool", "user_id"],
                        "additionalProperties": False,
                    },
                    {
                        "type": "object",
                        "description": "The style in which somebody likes to be greeted.",
                        "properties": {
                            "_tool": {"type": "string", "const": "style"},
                            "city": {"type": ["string", "null"]},
                            "_output": {
                                "description": "Your result of this call; null if it depends on"
                                " another call of this answer",
                                "anyOf": [
                                    {"type": "string", "enum": ["formal", "warm"]},
                                    {"type": "null"},
                                ],
                            },
                        },
                        "required": ["_tool", "city", "_output"],
                        "additionalProperties": False,
                    },
                ]
            },
        },
        "output": {
            "anyOf": [
                {
                    "type": "object",
                    "properties": {
                        "greeting": {"type": "string"},
                        "language": {"type": "string", "enum": ["en", "de"]},
                    },
                    "required": ["greeting", "language"],
                    "additionalProperties": False,
                },
                {"type": "null"},
            ]
        },
    },
    "required": ["calls", "output"],
    "additionalProperties": False,
}


async def test_a_greeting_has_one_schema_composed_of_its_output_and_its_tools(
    stage: Stage,
) -> None:
    stage.model(
        "greeter",
        composed({"_tool": "fetch_profile", "user_id": 7}),
        composed(
            {"_tool": "style", "city": "London", "_output": "warm"},
            output={"greeting": "Hello, Ada!", "language": "en"},
        ),
    )
    run = await stage.start(GREETER, input="Greet user 7.")

    result = await run.result()
    assert result["output"] == {"greeting": "Hello, Ada!", "language": "en"}
    assert (result["turns"], result["calls"]) == (2, 2)
    first, second = stage.requests("greeter")
    assert "tools" not in first
    assert forced_schema(first) == forced_schema(second) == THE_SCHEMA_OF_A_GREETING
    assert '"name": "Ada"' in second["messages"][-1]["content"]
