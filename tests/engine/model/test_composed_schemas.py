"""Composed calling (§4): each provider is sent a schema that its own docs allow."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.providers.base import ProviderRequest
from holdfast.schemas.agent import ModelSettings, ResolvedAgent
from holdfast.schemas.internal.model_request import Ask
from holdfast.schemas.tool import ResolvedTool
from holdfast.workflows.engine.model.composed import composed_schema
from holdfast.workflows.engine.model.prompt import ask, instructions, offers
from tests.engine.model import schema_subsets as subsets
from tests.engine.model.others_tools import others_tools
from tests.providers.wire.anthropic import AnthropicWire
from tests.providers.wire.base import Wire
from tests.providers.wire.exchange import Exchange, good, refusal
from tests.providers.wire.gemini import GeminiWire
from tests.providers.wire.ollama import OllamaWire
from tests.providers.wire.openai import OpenAIWire
from tests.support.costs import some_of

TOOLS = others_tools()
BY_NAME = {tool.name: tool for tool in TOOLS}
SUBSETS: tuple[tuple[Wire, Callable[[subsets.Schema], list[str]]], ...] = (
    (OpenAIWire(), subsets.openai),
    (AnthropicWire(), subsets.anthropic),
    (GeminiWire(), subsets.gemini),
    (OllamaWire(), subsets.llama_cpp),
)
PLAIN = '{"calls": [], "output": "Done."}'


def agent(*tools: ResolvedTool, **more: Any) -> ResolvedAgent:
    model = ModelSettings(endpoint="m", name="gpt-test")
    return ResolvedAgent(name="desk", model=model, calling="composed", tools=list(tools), **more)


def asked(of: ResolvedAgent, choice: Any = "auto") -> Ask:
    return ask(of, instructions(of), offers(of), choice, None)


# Where a request has the instructions, and the schema of the answer.
PLACES: dict[str, tuple[str, str]] = {
    "openai": ("messages.0.content", "response_format.json_schema.schema"),
    "anthropic": ("system.0.text", "output_config.format.schema"),
    "gemini": ("systemInstruction.parts.0.text", "generationConfig.responseJsonSchema"),
    "ollama": ("messages.0.content", "format"),
}


def within(value: Any, path: str) -> Any:
    for name in path.split("."):
        value = value[int(name)] if isinstance(value, list) else (value or {}).get(name)
    return value


class SentBody:
    """The instructions, and the schema of the answer, in a body."""

    def __init__(self, wire: Wire, body: dict[str, Any]) -> None:
        self.body = body
        self.instructions, self.output = (within(body, path) for path in PLACES[wire.format.kind])


async def sent(wire: Wire, of: Ask, **endpoint: Any) -> tuple[SentBody, list[str]]:
    exchange = Exchange(wire, good(wire.answer(PLAIN)), **endpoint)
    solution = await exchange.solve(**of.model_dump(by_alias=True, exclude={"model"}))
    assert solution.text == PLAIN
    return SentBody(wire, exchange.bodies[0]), solution.notices


KINDS = [wire.format.kind for wire, _ in SUBSETS]


@pytest.mark.parametrize(("wire", "subset"), SUBSETS, ids=KINDS)
@pytest.mark.parametrize("name", some_of(BY_NAME, ["create_pull_request_review"]))
@pytest.mark.parametrize("choice", ["auto", "required", "none"])
async def test_each_of_twenty_tools_of_others_is_taken_by_each_provider(
    wire: Wire, subset: Callable[[Any], list[str]], name: str, choice: str
) -> None:
    seen, notices = await sent(wire, asked(agent(BY_NAME[name]), choice))
    assert subset(seen.output) == []
    assert not {"tools", "tool_choice", "toolConfig"} & seen.body.keys()
    assert notices == []


@pytest.mark.parametrize(("wire", "subset"), SUBSETS, ids=KINDS)
async def test_all_twenty_at_once_are_taken_or_the_model_is_asked_without_being_forced(
    wire: Wire, subset: Callable[[Any], list[str]]
) -> None:
    output = {"type": "object", "properties": {"note": {"type": "string"}}}
    seen, notices = await sent(wire, asked(agent(*TOOLS, output=output)))
    if isinstance(wire, AnthropicWire):
        assert seen.output is None
        assert '"const": "convert_time"' in seen.instructions
        [notice] = notices
        assert "cannot enforce" in notice
    else:
        assert subset(seen.output) == []
        assert notices == []


@pytest.mark.parametrize(("wire", "subset"), SUBSETS, ids=KINDS)
async def test_several_tools_with_references_and_latent_ones_are_taken(
    wire: Wire, subset: Callable[[Any], list[str]]
) -> None:
    total = {"type": "object", "properties": {"total": {"type": "number", "minimum": 0}}}
    add = ResolvedTool(
        name="add",
        parameters={
            "type": "object",
            "properties": {"a": {"type": "number"}, "b": {"type": ["integer", "null"]}},
            "required": ["a", "b"],
        },
        chosen={"_outputPath": {"type": "string"}, "_outputMethod": {"enum": ["set", "push"]}},
        output=total,
    )
    some = [add, *(BY_NAME[name] for name in ("convert_time", "create_entities", "fetch"))]
    seen, notices = await sent(wire, asked(agent(*some, output=total)))
    assert subset(seen.output) == []
    assert notices == []


def test_on_anthropic_what_may_be_null_may_be_missing_where_unions_are_too_many() -> None:
    many = {f"p{number}": {"type": "integer"} for number in range(30)}
    tool = ResolvedTool(name="t", parameters={"type": "object", "properties": many})
    exact = asked(agent(tool))
    body = AnthropicWire().format.body(ProviderRequest(exact, ()), "")
    made = json.loads(body)["output_config"]["format"]["schema"]
    assert subsets.anthropic(exact.output) != []  # type: ignore[arg-type]  # it is a schema
    assert subsets.anthropic(made) == []
    call = made["properties"]["calls"]["items"]
    assert len(call["required"]) == 2 + 15  # with those that are always written, and the output


# Where the model reads the schema.


@pytest.mark.parametrize(
    ("wire", "base_url", "is_told"),
    [
        (OpenAIWire(), "https://api.openai.com/v1", False),
        (OpenAIWire(), "http://127.0.0.1:8080/v1", True),
        (AnthropicWire(), "https://api.anthropic.com", False),
        (GeminiWire(), "https://generativelanguage.googleapis.com", False),
        (OllamaWire(), "http://127.0.0.1:11434", True),
    ],
)
async def test_the_schema_is_in_the_prompt_where_the_server_does_not_show_it(
    wire: Wire, base_url: str, is_told: bool
) -> None:
    seen, _ = await sent(wire, asked(agent(TOOLS[0])), baseUrl=base_url)
    assert ('"const": "edit_file"' in seen.instructions) is is_told
    assert seen.output is not None


@pytest.mark.parametrize("wire", [wire for wire, _ in SUBSETS], ids=KINDS)
async def test_a_model_that_cannot_be_forced_reads_the_schema_and_is_asked_again(
    wire: Wire,
) -> None:
    refused = refusal(wire, 400, "json_schema is not supported by this model")
    exchange = Exchange(wire, refused, good(wire.answer(PLAIN)))
    of = asked(agent(TOOLS[0]))
    solution = await exchange.solve(**of.model_dump(by_alias=True, exclude={"model"}))
    first, second = (SentBody(wire, body) for body in exchange.bodies)
    assert (first.output is None, second.output is None) == (False, True)
    assert second.instructions.count('"const": "edit_file"') == 1
    assert any("cannot enforce" in notice for notice in solution.notices)


async def test_openai_is_strict_about_it_unless_it_is_too_large() -> None:
    spoken = OpenAIWire().format
    large = {f"p{number}": {"type": "string"} for number in range(5_001)}
    for properties, strict in (({}, True), (large, False)):
        of = asked(
            agent(ResolvedTool(name="t", parameters={"type": "object", "properties": properties}))
        )
        made = json.loads(spoken.body(ProviderRequest(of, ()), "api.openai.com"))
        assert made["response_format"]["json_schema"]["strict"] is strict
        assert bool(spoken.unsupported_notices(of)) is not strict


def test_ollama_and_others_are_sent_it_as_it_is() -> None:
    of = asked(agent(*TOOLS))
    schema = composed_schema(agent(*TOOLS), TOOLS)
    assert json.loads(OllamaWire().format.body(ProviderRequest(of, ()), ""))["format"] == schema
    sent = json.loads(OpenAIWire().format.body(ProviderRequest(of, ()), ""))["response_format"]
    assert sent["json_schema"]["schema"] == schema
