"""Composed calling: one answer with all calls and the output, and its schema.

    {"calls": [{"_tool": "refund", "_reasoningForCall": …, "order_id": …}], "output": …|null}

The schema uses only the part of JSON Schema that every provider can enforce (see `strict_schema`).
An answer that was not enforced is accepted too: inside a code fence, with text around it, or
without its null properties. Its content is checked like any other call; the model receives an error
only if the text cannot be read as an answer at all.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.schemas.agent import ForcedTool, ResolvedAgent, ToolChoice
from holdfast.schemas.internal.solution import WrittenCall
from holdfast.schemas.names import CHOOSE_SKILL
from holdfast.schemas.tool import REASONING, TOOL, ResolvedTool, Schema
from holdfast.validation.lenient_json import read_json
from holdfast.validation.schema_node import WorkBudget
from holdfast.workflows.engine.model import strict_schema
from holdfast.workflows.engine.state.data import MISSING
from holdfast.workflows.engine.state.references import INSTANCE, each_property, instance_property

OUTPUT = "_output"
# The further arguments of a tool that accepts any, as JSON in a text.
OTHERS = "_arguments"
MAX_BEGINNINGS = 20

WHY: Schema = {
    "type": "string",
    "description": "Why you make this call, in a sentence, for the person who approves it.",
}

_RESULT = "Your result of this call; null if it depends on another call of this answer"
_FENCE = re.compile(r"```[A-Za-z0-9_+-]*+[^\S\n]*+\n(.*?)```", re.DOTALL)


class MalformedAnswer(Exception):
    """The text cannot be read as an answer; the message describes the problem to the model."""


@dataclass(frozen=True)
class ComposedAnswer:
    """The content of an answer: its calls, its output (or MISSING), and the text beside them."""

    calls: list[WrittenCall] = field(default_factory=list)
    output: Any = MISSING
    beside: str = ""


def composed_schema(
    agent: ResolvedAgent,
    tools: list[ResolvedTool],
    choice: ToolChoice = "auto",
    instances: Sequence[str] = (),
) -> Schema:
    """Return the schema of an answer: the calls that the choice allows, and the output."""
    output = _output_form(agent, tools).schema
    refer = strict_schema.refers(tools)
    if isinstance(choice, ForcedTool):
        tools = [tool for tool in tools if tool.name == choice.name]
    if choice == "none" or not tools:
        return strict_schema.closed({}, output=output)
    calls = [_call_schema(tool, agent, instances, refer=refer or tool.each) for tool in tools]
    items = calls[0] if len(calls) == 1 else {"anyOf": calls}
    least = {} if choice == "auto" else {"minItems": 1}
    return strict_schema.closed(
        {}, calls={"type": "array", "items": items, **least}, output=strict_schema.or_null(output)
    )


def read_answer(
    text: str, agent: ResolvedAgent, tools: list[ResolvedTool], budget: WorkBudget | None = None
) -> ComposedAnswer:
    """Read the answer that a text is or contains, or raise `MalformedAnswer`."""
    answer, beside = _found(text)
    if (written := answer.get("calls")) is None:
        written = []
    if not isinstance(written, list):
        raise MalformedAnswer("`calls` is no list")
    known: dict[str, dict[str, strict_schema.Property]] = {}
    output: Any = MISSING
    calls = [_read_call(call, index, tools, known, budget) for index, call in enumerate(written)]
    if "output" in answer:
        output = _output_form(agent, tools, budget).read(answer["output"])
    if output is None:  # null is an output if there are no calls and it fits
        fits = strict_schema.StrictForms(agent.output, budget).fits(agent.output)
        output = None if agent.output is not None and not calls and fits(None) else MISSING
    return ComposedAnswer(calls, output, beside)


# The schema.


def _call_schema(
    tool: ResolvedTool, agent: ResolvedAgent, instances: Sequence[str], *, refer: bool
) -> Schema:
    own: dict[str, Schema] = {TOOL: {"type": "string", "const": tool.name}}
    if agent.reasoning_for_call:
        own[REASONING] = WHY
    own |= instance_property(tool, instances) | each_property(tool)
    properties = {
        name: each.map(strict_schema.or_reference) if refer and name not in tool.chosen else each
        for name, each in _properties(tool).items()
        if name != INSTANCE
    }
    described = {"description": tool.description} if tool.description else {}
    return {**strict_schema.closed(properties, **own), **described}


def _properties(
    tool: ResolvedTool, budget: WorkBudget | None = None
) -> dict[str, strict_schema.Property]:
    forms = strict_schema.StrictForms(tool.parameters, budget)
    schema = forms.target(tool.parameters)[0] or {}
    properties = forms.properties(schema, 0)
    if strict_schema.takes_others(schema):
        text = "Further arguments, written as a text that holds a JSON object; null: none"
        fits = strict_schema.StrictForms({"type": "object"}, budget).fits(True)
        form = strict_schema.json_text({"type": ["string", "null"], "description": text}, fits)
        properties[OTHERS] = strict_schema.Property(form, fits)
    for name, chosen in tool.chosen.items():
        forms = strict_schema.StrictForms(chosen, budget)
        properties[name] = forms.property(chosen, 0, required=False)
    if tool.latent and tool.name != CHOOSE_SKILL:
        # The result that the model itself proposes for the call.
        result: Schema | bool = {"type": "string"} if tool.output is None else tool.output
        latent = strict_schema.StrictForms(result, budget).property(result, 0, required=False)
        own = latent.form.schema.get("description")
        note = f"{_RESULT}. {own}" if own else _RESULT
        properties[OUTPUT] = latent.map(lambda asked: {**asked, "description": note})
    return properties


def _output_form(
    agent: ResolvedAgent, tools: list[ResolvedTool], budget: WorkBudget | None = None
) -> strict_schema.StrictForm:
    if agent.output is None:
        return strict_schema.StrictForm({"type": "string"})
    form = strict_schema.StrictForms(agent.output, budget).form(agent.output)
    return form.map(strict_schema.or_reference) if strict_schema.refers(tools) else form


# Reading.


def _read_call(
    call: Any,
    index: int,
    tools: list[ResolvedTool],
    known: dict[str, dict[str, strict_schema.Property]],
    budget: WorkBudget | None,
) -> WrittenCall:
    """Return one call, without what was left out; `known` caches the properties of tools."""
    if not isinstance(call, dict):
        raise MalformedAnswer(f"`calls[{index}]` is no object")
    name = call.get(TOOL)
    if not isinstance(name, str) or not name:
        raise MalformedAnswer(f"`calls[{index}]` does not name its tool in `{TOOL}`")
    written = {key: value for key, value in call.items() if key != TOOL}
    tool = next((tool for tool in tools if tool.name == name), None)
    if tool is None:
        return WrittenCall(tool=name, arguments=written)
    if name not in known:
        known[name] = _properties(tool, budget)
    read = strict_schema.read_properties(written, known[name])
    others = read.pop(OTHERS, None) if OTHERS in known[name] else None
    fields = {key: item for key, item in read.items() if item is not None or key[:1] != "_"}
    arguments = {**others, **fields} if isinstance(others, dict) else fields
    return WrittenCall(tool=name, arguments=arguments)


def _found(text: str) -> tuple[dict[str, Any], str]:
    """Return the answer in a text, and the text around it."""
    first: ValueError | None = None
    for piece, beside in _pieces(text):
        try:
            value = read_json(piece)
        except ValueError as error:
            first = first or error
            continue
        if isinstance(value, dict) and value.keys() & {"calls", "output"}:
            return value, beside
        first = first or ValueError("it has neither `calls` nor `output`")
    raise MalformedAnswer(f"it cannot be read: {first or 'it is empty'}")


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    """Yield each part of a text that may be the answer, with the text around it."""
    if text.strip():
        yield text, ""
    for fenced in _FENCE.finditer(text):
        yield fenced[1], _around(text, fenced.start(), fenced.end())
    start, end = text.find("{"), text.rfind("}") + 1
    if 0 <= start < end:
        yield text[start:end], _around(text, start, end)
    for _ in range(MAX_BEGINNINGS):
        if start < 0:
            return
        try:
            _, end = json.JSONDecoder().raw_decode(text, start)
        except (ValueError, RecursionError):
            end = start + 1
        else:
            yield text[start:end], _around(text, start, end)
        start = text.find("{", end)


def _around(text: str, start: int, end: int) -> str:
    return "\n\n".join(filter(None, (text[:start].strip(), text[end:].strip())))
