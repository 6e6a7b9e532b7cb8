"""Structured output, by a real model: the server's grammar makes it, the engine checks it."""

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.model.mind import TOOLS, PlayedDesk, ended

pytestmark = [pytest.mark.model, pytest.mark.timeout(60)]

# What these schemas allow never takes so long, however it is laid out.
LONG_ENOUGH = {"maxOutputTokens": 200}
LOOK_UP = "Look up order 1042."

TICKET = {
    "type": "object",
    "properties": {
        "about": {"enum": ["orders", "money", "mail"]},
        "urgent": {"type": "boolean"},
        "rating": {"type": "integer", "minimum": 1, "maximum": 5},
    },
    "required": ["about", "urgent", "rating"],
    "additionalProperties": False,
}
ITEMS = {
    "type": "object",
    "properties": {
        "items": {
            "type": "array",
            "minItems": 1,
            "maxItems": 2,
            "items": {
                "type": "object",
                "properties": {
                    "title": {"type": "string", "minLength": 1, "maxLength": 20},
                    "price": {"anyOf": [{"const": 10}, {"type": "null"}]},
                },
                "required": ["title", "price"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["items"],
    "additionalProperties": False,
}
LETTERS = {"type": "array", "minItems": 2, "maxItems": 4, "items": {"enum": ["a", "ä", "☕"]}}


def fits(result: dict[str, Any], schema: dict[str, Any]) -> bool:
    """Whether the output fits the schema, by another library's reading of it."""
    return Draft202012Validator(schema).is_valid(result["output"])


@pytest.mark.parametrize("schema", [TICKET, ITEMS, LETTERS], ids=["ticket", "items", "letters"])
@pytest.mark.parametrize(
    "prompt", ["My machine is broken, I am angry!", "Tell me a joke."], ids=["angry", "joke"]
)
async def test_an_output_fits_its_schema(
    desk: PlayedDesk, schema: dict[str, Any], prompt: str
) -> None:
    result = await ended(await desk.ask(prompt, output=schema, model=LONG_ENOUGH))
    assert result["status"] == "completed"
    assert fits(result, schema)


async def test_an_output_fits_its_schema_also_where_there_are_tools(desk: PlayedDesk) -> None:
    """The server receives the schema where no call can be made any more: here, from the start."""
    run = await desk.ask(
        LOOK_UP, tools=TOOLS, output=TICKET, model=LONG_ENOUGH, budget={"maxIterations": 0}
    )
    result = await ended(run)
    assert result["status"] == "completed"
    assert fits(result, TICKET)


async def test_an_output_fits_its_schema_also_after_calls(desk: PlayedDesk) -> None:
    run = await desk.ask(
        LOOK_UP, tools=TOOLS, output=TICKET, model=LONG_ENOUGH, budget={"maxIterations": 1}
    )
    result = await ended(run)
    # A model that makes no call is not forced into the schema, and may run out of turns.
    assert result["status"] == "budget_exceeded" or fits(result, TICKET)
