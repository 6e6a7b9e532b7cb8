"""The model's answer: its calls, its output or why it is invalid; and the results that it reads."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.schemas.agent import ResolvedAgent
from holdfast.schemas.base import Stored, canonical_json
from holdfast.schemas.internal.solution import Solution
from holdfast.schemas.message import (
    AskedCall,
    ChatMessage,
    Content,
    DataPart,
    DocumentPart,
    ImagePart,
    Media,
    Message,
    Part,
    TextPart,
)
from holdfast.schemas.names import call_id
from holdfast.schemas.tool import ResolvedTool, Schema
from holdfast.validation.arguments import InvalidArguments, fit, read_arguments
from holdfast.validation.lenient_json import read_json
from holdfast.validation.schema_node import ValidationLimits, WorkBudget
from holdfast.validation.validator import errors
from holdfast.workflows.engine.call import outcomes
from holdfast.workflows.engine.call.activities import content_parts
from holdfast.workflows.engine.call.states import ProposedCall, ToolCall
from holdfast.workflows.engine.log.log import Log
from holdfast.workflows.engine.model.composed import MalformedAnswer, read_answer
from holdfast.workflows.engine.state.data import MISSING, Data, VisibleData
from holdfast.workflows.engine.state.redaction import Redaction, untrusted_value
from holdfast.workflows.engine.state.references import Unresolved, as_text, resolve

MAX_TOOL_NAME_CHARACTERS = 128
MAX_PROVIDER_ID_CHARACTERS = 4_096
MAX_SHOWN_CHARACTERS = 8_000
PREVIEW_CHARACTERS = 2_000

_NO_ARGUMENTS = "no arguments arrived; write the call again, with all of them"
# What models and gateways send for no arguments, of a tool that has no parameters.
_NOTHING = ('""', "null", "None", "undefined")
# The keywords by which a schema can have parameters.
_DECLARING = (
    *("properties", "patternProperties", "additionalProperties"),
    *("anyOf", "oneOf", "allOf", "$ref"),
)

# How models write a call, where their server does not read it: with the name of its tool.
_CALL_MARKS = (
    *("<tool_call", "<|tool_call", "<start_function_call>", "<function=", "<function_calls>"),
    *("[TOOL_CALLS]", "<|python_tag|>", "functools[", "<|channel|>commentary", ":tool_call>"),
    *("<｜tool▁call", "<｜DSML｜"),
)
_CALL_NAME = re.compile(r'"name"\s*:\s*"([^"\\]{1,128})"')
_CALL_ARGUMENTS = re.compile(r'"(?:arguments|parameters)"\s*:')

# Tags and fences, in which small models repeat what they have read.
_MARKUP = re.compile(r"<[^<>]*>|```(?:json)?|\s")
_COMPOSED = 'Answer with one JSON object alone: {"calls": [...], "output": ...}.'


class InvalidOutput(Exception):
    """The answer is not a valid output; the message describes the problem to the model."""


@dataclass(frozen=True)
class ParsedAnswer:
    """A parsed answer: `solution` has its calls, wherever they were in the answer.

    In composed calling, `said` is the text for people, `output` the output in the answer (or
    MISSING), and `wrong` the reason why the answer cannot be read.
    """

    solution: Solution
    said: str | None = None
    output: Any = MISSING
    wrong: str | None = None


def cut_off(solution: Solution) -> str | None:
    """Return how an answer was cut off, in words for the model; None if it is whole."""
    if solution.stop_reason != "length":
        return None
    tokens = solution.usage.output_tokens
    after = "" if tokens is None else f" after {tokens} output tokens"
    return f"the answer was cut off{after} (`maxOutputTokens`): write less"


def parse_answer(
    solution: Solution, agent: ResolvedAgent, tools: list[ResolvedTool], budget: WorkBudget
) -> ParsedAnswer:
    """Parse an answer in which these tools can be called."""
    if agent.calling == "native":
        return ParsedAnswer(solution)
    cut = cut_off(solution)
    try:
        read = read_answer(solution.text, agent, tools, budget)
        if cut and read.beside:  # a whole object inside of an answer that is none
            raise MalformedAnswer(cut)
    except MalformedAnswer as error:
        wrong = f"invalid_output: {cut or error}. {_COMPOSED}"
        return ParsedAnswer(solution.model_copy(update={"calls": []}), wrong=wrong)
    output = "" if read.output is MISSING else as_text(read.output)
    text = "\n\n".join(filter(None, (read.beside, output)))
    return ParsedAnswer(solution.model_copy(update={"calls": read.calls}), text, read.output)


def propose_calls(
    solution: Solution, turn: int, tools: Sequence[ResolvedTool], seen: dict[str, None]
) -> list[ToolCall]:
    """Build the calls of an answer, with ids by position.

    A provider's id is kept if it is new in the run, since the provider matches results by it.
    `seen` holds the ids so far, and grows.
    """
    known, calls = {tool.name: tool for tool in reversed(tools)}, []
    for index, written in enumerate(solution.calls, start=1):
        own = call_id(turn, index)
        own_id = written.provider_id
        usable = own_id and len(own_id) <= MAX_PROVIDER_ID_CHARACTERS and own_id not in seen
        provider_id = own_id if own_id and usable else own
        while provider_id in seen:
            provider_id += "x"
        seen[provider_id] = None
        arguments: dict[str, Any] = {}
        text = unreadable = None
        tool, sent = known.get(written.tool), written.arguments
        has_parameters = tool is None or any(map(tool.parameters.get, _DECLARING))
        try:
            if sent is None and tool is not None and has_parameters:
                raise InvalidArguments(_NO_ARGUMENTS)
            is_nothing = isinstance(sent, str) and sent.strip() in _NOTHING
            arguments = read_arguments({} if is_nothing and not has_parameters else sent or {})
        except InvalidArguments as error:
            text, unreadable = sent, error
        # Many servers open a call with an empty object.
        is_opened = sent in (None, "") or (sent == {} and has_parameters)
        is_partial = index == len(solution.calls) and (unreadable or is_opened)
        if is_partial and (cut := cut_off(solution)):
            unreadable = InvalidArguments(cut)
        if written.oversize_bytes is not None:
            unreadable = InvalidArguments(
                f"{written.oversize_bytes} bytes were written; write far less"
            )
        proposal = AskedCall(
            id=own,
            provider_id=provider_id,
            tool=written.tool[:MAX_TOOL_NAME_CHARACTERS],
            arguments=arguments,
            written=text if isinstance(text, str) else None,
        )
        calls.append(ToolCall(ProposedCall(proposal, tool, unreadable)))
    return calls


def answer_output(
    answer: ParsedAnswer, agent: ResolvedAgent, data: Data, limits: ValidationLimits, *, last: bool
) -> Any:
    """Return an answer's output, its references resolved, or raise `InvalidOutput`."""
    if answer.wrong is not None:
        raise InvalidOutput(answer.wrong)
    if agent.calling == "native":
        return parse_output(answer.solution, agent.output, limits, last=last)
    if answer.output is MISSING:
        raise InvalidOutput(f"The answer had neither calls nor an output. {_COMPOSED}")
    try:
        output = resolve(answer.output, VisibleData(data))
        budget = limits.budget()
        return as_text(output) if agent.output is None else fit(output, agent.output, budget)
    except Unresolved as error:
        raise InvalidOutput(f"unresolved_reference: `output`: {error}. Answer again.") from None
    except InvalidArguments as error:
        raise InvalidOutput(
            f"invalid_output: `output`: {error}. Answer again, so that it fits."
        ) from None


def parse_output(
    solution: Solution, schema: Schema | bool | None, limits: ValidationLimits, *, last: bool
) -> Any:
    """Parse an output, which may be empty in the `last` answer, or raise `InvalidOutput`."""
    text, cut = solution.text, cut_off(solution)
    if not text.strip() and not last:
        empty = "The answer was empty. Call a tool, or answer."
        raise InvalidOutput(f"invalid_output: {cut}." if cut else empty)
    if schema is None:
        return text
    try:
        return fit(read_json(text), schema, limits.budget())
    except (ValueError, InvalidArguments) as error:
        if not (cut or errors(text, schema, limits.budget())):
            return text  # the schema accepts a text, and this is one without its quotes
        problem = cut or f"{error}. Answer with JSON alone that fits the schema"
        raise InvalidOutput(f"invalid_output: {problem}.") from None


def written_call(text: str, tools: Sequence[ResolvedTool]) -> str | None:
    """Return the tool of a call that a text seems to be, in a form that its server did not read."""
    named = set(_CALL_NAME.findall(text)) if _CALL_ARGUMENTS.search(text) else set()
    has_mark = any(mark in text for mark in _CALL_MARKS)
    found = (tool.name for tool in tools if tool.name in named or (has_mark and tool.name in text))
    return next(found, None)


def is_copied_error(text: str, log: Log) -> bool:
    """Return whether a text is nothing but the error of a call, as the model has read it."""
    if '"error"' not in text:
        return False
    bare = _MARKUP.sub("", text)
    messages = (ChatMessage.read(record["message"]) for record in log.messages())
    # A note about changed arguments is a line before the error.
    errors = (str(each.content).rpartition("\n")[2] for each in messages if each.is_error)
    return any(_MARKUP.sub("", error) == bare for error in errors)


# Results.


def result_message(call: ToolCall, outcome: outcomes.Final, path: str | None) -> ChatMessage:
    """Return the one message that holds the result of a call for the model."""
    content: Content
    match outcome:
        case outcomes.Failed(error, _) if is_untrusted_error(call, outcome):
            content = as_text({"error": untrusted_value(call.name, error.to_json())})
        case outcomes.Refused(error) | outcomes.Failed(error, _):
            content = as_text({"error": error.to_json()})
        case outcomes.Stopped(message):
            content = f"The run was stopped: {message}"
        case outcomes.Succeeded(message=Message()):
            content = "The message follows."
        case outcomes.Succeeded(value, _, _, _) | outcomes.Answered(value):
            content = _shown(call, value, path)
    if call.prepared.edited_by is not None:
        changed = canonical_json(call.prepared.raw_arguments).decode("utf-8", "surrogatepass")
        note = f"A person changed the arguments of this call to {changed}."
        is_text = isinstance(content, str)
        content = f"{note}\n{content}" if is_text else [TextPart(text=note), *content]
    return ChatMessage(
        role="tool",
        call_id=call.id,
        provider_id=call.proposed.proposal.provider_id,
        tool=call.name,
        content=content,
        is_error=isinstance(outcome, outcomes.Refused | outcomes.Failed),
    )


def is_untrusted_error(call: ToolCall, outcome: outcomes.Final) -> bool:
    """Return whether an outcome is an error in the words of a tool from outside."""
    return isinstance(outcome, outcomes.Failed) and call.tool.untrusted


def _shown(call: ToolCall, value: Any, path: str | None) -> Content:
    """Return the value of a result as the model reads it; `path` is where it is kept."""
    tool = call.tool
    place = f" Its whole value is kept at {path}." if path else ""
    if tool.show == "none":
        return f"Done.{place}"
    if (stored := Stored.of(value)) is not None:
        text = stored.beginning
        if tool.untrusted:
            text = as_text(untrusted_value(call.name, text))
        note = f"{stored.size_bytes} bytes, too many to be read here; this is how they begin."
        return f"{note}\n{text}"
    content: Content = content_parts(value) or as_text(value)
    if tool.untrusted:
        content = _from_outside(call, content, value)
    if not isinstance(content, str):
        return content
    preview = path and len(content) > MAX_SHOWN_CHARACTERS
    show = tool.show or ("preview" if preview else "full")
    if show == "full" or len(content) <= PREVIEW_CHARACTERS:
        return content
    size = f"{len(content)} characters; these are the first {PREVIEW_CHARACTERS}."
    return f"{size}{place}\n{content[:PREVIEW_CHARACTERS]}"


def _from_outside(call: ToolCall, content: Content, value: Any) -> Content:
    """Return an untrusted value, marked as such; pictures and documents stay."""
    if isinstance(content, str):
        return as_text(untrusted_value(call.name, value))
    pictures = [part for part in content if isinstance(part, Media)]
    others = [part.to_json() for part in content if not isinstance(part, Media)]
    text = as_text(untrusted_value(call.name, others))
    return [TextPart(text=text), *pictures] if pictures else text


def as_said(call: ToolCall, message: Message) -> Message:
    """Return a tool's message as the model reads it: one from outside is marked as data."""
    if not call.tool.untrusted:
        return message
    content = message.content
    if isinstance(content, str):
        return Message(content=as_text(untrusted_value(call.name, content)))
    parts: list[Part] = []
    for part in content:
        match part:
            case TextPart(text=text):
                parts.append(TextPart(text=as_text(untrusted_value(call.name, text))))
            case DataPart(kind=kind, data=data, instance=instance):
                parts.append(DataPart(kind=kind, data=data, instance=instance))
            case ImagePart() | DocumentPart():
                parts.append(part)
    return Message(content=parts)


def veil_of(call: ToolCall, value: Any) -> Redaction | None:
    """Return the redaction of a value in the state, which shows no more than the call's result."""
    most = {"full": None, "none": -1, "preview": PREVIEW_CHARACTERS, None: MAX_SHOWN_CHARACTERS}
    room = most[call.tool.show]
    hidden = room is not None and len(as_text(value)) > room
    if not hidden and not call.tool.untrusted:
        return None
    return Redaction(call.name, hidden=hidden, trusted=not call.tool.untrusted)


def is_shown_whole(outcome: outcomes.Final, message: ChatMessage) -> bool:
    """Return whether the message holds the whole result, which then need not be stored again."""
    match outcome:
        case outcomes.Succeeded(value, _, _, _) | outcomes.Answered(value):
            return message.content == as_text(value) or message.content == content_parts(value)
        case outcomes.Failed(_, value):
            return value is None
        case outcomes.Refused() | outcomes.Stopped():
            return True
