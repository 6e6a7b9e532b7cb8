"""The initial context of a run, and how messages from people enter its log."""

from typing import Any

from holdfast.schemas.agent import ResolvedAgent
from holdfast.schemas.base import json_size, readable_json
from holdfast.schemas.log_entry import SkillChooser
from holdfast.schemas.message import AskedCall, ChatMessage, ContextMessage, DataPart, Message
from holdfast.schemas.names import call_id
from holdfast.schemas.phrases import quote_value, suggest_names
from holdfast.schemas.reference import Path
from holdfast.schemas.run import RunRequest
from holdfast.schemas.tool import OutputMethod, Schema
from holdfast.validation.validator import errors
from holdfast.workflows.engine.conversation.data_messages import DataMessageWriter
from holdfast.workflows.engine.run_state import MAX_STATE_BYTES, RunState
from holdfast.workflows.engine.skills import allowed_tools, fitting, skill_of, skill_problem
from holdfast.workflows.engine.state.data import CannotWrite
from holdfast.workflows.engine.state.redaction import UNTRUSTED_MARK, UNTRUSTED_RULE, Redaction


class InvalidRequest(ValueError):
    """The request does not make a valid run."""


def write_initial_context(request: RunRequest, agent: ResolvedAgent, state: RunState) -> None:
    """Write skill, context, state and input to an empty log, or raise `InvalidRequest`."""
    skill, by = _skill(request, agent)
    _check(request, agent, skill)
    if skill is not None:
        state.take_skill(skill, by)
    state.data.set("state", {})
    context, task = _read_context(request.context), list[ChatMessage]()
    if isinstance(request.input, str):
        task = [ChatMessage(role="user", content=request.input)]
    elif request.input is not None:
        part = DataPart(kind="input", data=request.input, schema_=agent.input)
        task = [ChatMessage(role="user", content=[part])]

    def refuse(kind: str, why: str) -> None:
        raise InvalidRequest(f"`context`: its data of kind `{kind}` cannot be used: {why}")

    writer = DataMessageWriter(state, [*context, *task], refuse)
    for message in context:
        writer.write(message)
    if request.state is not None:
        # Over the state that messages wrote.
        method: OutputMethod = "merge" if state.data["state"] else "set"
        try:
            state.write([Path("state")], request.state, method)
        except CannotWrite as error:
            raise InvalidRequest(f"`state`: {error}") from None
    if isinstance(request.input, str):
        state.set_data("input", request.input)
    for message in task:
        writer.write(message)
    _check_input(agent, state)


def _read_context(context: list[ContextMessage]) -> list[ChatMessage]:
    """Return the messages before the run; each call has an id of its own, and its one result."""
    messages, still_open, count = list[ChatMessage](), list[tuple[str, AskedCall]](), 0
    if UNTRUSTED_MARK.search(readable_json([message.to_json() for message in context])):
        messages.append(ChatMessage(role="system", content=UNTRUSTED_RULE))
    for n, message in enumerate(context):
        place, is_result = f"`context[{n}]`", message.role == "tool"
        if still_open and not (is_result and message.call_id == still_open[0][0]):
            raise _without_result(f"{place} is not", still_open[0][0])
        if not still_open and (is_result or message.is_error or message.call_id is not None):
            raise InvalidRequest(f"{place} is the result of no call before it; leave it out")
        if message.calls and message.role != "assistant":
            raise InvalidRequest(f"{place} has `calls`; its role has to be `assistant`")
        if is_result:
            _, made = still_open.pop(0)
            more: dict[str, Any] = {"call_id": made.id, "provider_id": made.id, "tool": made.tool}
        else:
            for call in message.calls:
                own = call_id(0, count := count + 1)
                made = AskedCall(id=own, provider_id=own, tool=call.tool, arguments=call.arguments)
                still_open.append((call.id, made))
            more = {"calls": [made for _, made in still_open]}
        more |= {"is_error": message.is_error, "imported": is_result or bool(still_open)}
        messages.append(_said(message).model_copy(update=more))
    if still_open:
        raise _without_result("`context` lacks", still_open[0][0])
    return messages


def _without_result(what: str, call: str) -> InvalidRequest:
    fix = "add it after its call: a message of role `tool` with its `callId`"
    return InvalidRequest(f"{what} the result of the call {quote_value(call)}; {fix}")


def _check_input(agent: ResolvedAgent, state: RunState) -> None:
    """Check that the input fits the agent: in a run with instances, as each instance sees it."""
    for instance in state.data.instances or (None,):
        seen = state.data.visible_value("input", instance)
        of = "" if instance is None else f" of the instance `{instance}`"
        _check_fits(f"`input`{of}", seen, agent.input, agent.name)


def _check_fits(what: str, value: Any, schema: Schema | bool | None, agent: str) -> None:
    wrong = [] if schema is None or value is None else errors(value, schema)
    if wrong:
        raise InvalidRequest(
            f"{what} does not fit the schema of agent `{agent}`: {'; '.join(wrong)}"
        )


def append_message(
    state: RunState, message: Message, *, within: str | None = None, veil: Redaction | None = None
) -> None:
    """Write a message to the log, so that references can read its data."""

    def note(kind: str, why: str) -> None:
        state.log.add_notice(f"the {kind} in a message was not used: {why}")

    appended = _said(message).model_copy(update={"instance": within})
    DataMessageWriter(state, [message], note, within=within, veil=veil).write(appended)


def _said(message: Message) -> ChatMessage:
    return ChatMessage(role=message.role, content=message.content)


def _skill(request: RunRequest, agent: ResolvedAgent) -> tuple[str | None, SkillChooser]:
    """Return the skill that a run starts with, or None if the model chooses or there is none."""
    name = request.skill
    by: SkillChooser = "request" if name is not None else "rule"
    if name is None:
        only = agent.skills[0].name if len(agent.skills) == 1 else None
        name = only or fitting(agent, request.input)
    elif (problem := skill_problem(agent, name)) is not None:
        raise InvalidRequest(problem)
    if name is None and agent.skills and agent.model is None:
        whose = f"`skill`: agent `{agent.name}` has no model that chooses one"
        known = ", ".join(skill.name for skill in agent.skills)
        raise InvalidRequest(f"{whose}; name one of {known}")
    skill = skill_of(agent, name)
    if skill is None or skill.activity is None:
        return name, by
    parts = (part for message in request.context for part in message.content)
    if request.conversation is not False:
        raise InvalidRequest(
            f"`conversation`: the skill `{skill.name}` of agent `{agent.name}` is an activity,"
            " which receives no messages; leave it out"
        )
    if any(isinstance(part, DataPart) and part.instance is not None for part in parts):
        raise InvalidRequest(
            f"`context`: the skill `{skill.name}` of agent `{agent.name}` is an activity, which"
            " has one input; leave `_instance` out"
        )
    return name, by


def _check(request: RunRequest, agent: ResolvedAgent, skill: str | None) -> None:
    if request.input is None and not request.context:
        raise InvalidRequest("write the task of the run as `input`, a text or an object")
    if agent.calls and request.conversation is not False:
        why = f"agent `{agent.name}` has constant `calls`, which receive no messages"
        raise InvalidRequest(f"`conversation`: {why}; leave it out")
    _check_fits("`state`", request.state, agent.state, agent.name)
    if json_size(request.state) > MAX_STATE_BYTES:
        raise InvalidRequest(f"`state` is too large: at most {MAX_STATE_BYTES} bytes")
    tools = allowed_tools(agent, skill)
    if skill is None and agent.skills:  # the model chooses one of them
        tools = [*agent.tools, *(tool for one in agent.skills for tool in one.tools)]
    names = list(dict.fromkeys(tool.name for tool in tools))
    whose = f"agent `{agent.name}`" if skill is None else f"skill `{skill}`"
    choice = request.tool_choice
    if choice is not None and not isinstance(choice, str) and choice.name not in names:
        fix = suggest_names(choice.name, names, "it has none")
        raise InvalidRequest(f"`toolChoice`: {whose} has no tool {quote_value(choice.name)}; {fix}")
