"""The initial context of a run, and how messages from people enter its log."""

from holdfast.schemas.agent import Agent
from holdfast.schemas.base import json_size
from holdfast.schemas.log_entry import NoticeEntry, SkillEntry
from holdfast.schemas.message import ChatMessage, DataPart, Message
from holdfast.schemas.names import INVALID_REQUEST
from holdfast.schemas.phrases import quote_value, suggest_names
from holdfast.schemas.reference import Path
from holdfast.schemas.run import Conversation, RunRequest
from holdfast.schemas.tool import OutputMethod
from holdfast.validation.validator import errors
from holdfast.workflows.engine.conversation.data_messages import DataMessageWriter
from holdfast.workflows.engine.run_state import MAX_STATE_BYTES, RunState
from holdfast.workflows.engine.skills import NoSuchSkill, callable_names, initial_skill, skill_of
from holdfast.workflows.engine.state.data import CannotWrite
from holdfast.workflows.engine.state.redaction import Redaction


class InvalidRequest(ValueError):
    """The request does not make a valid run."""

    code = INVALID_REQUEST


def write_initial_context(request: RunRequest, agent: Agent, state: RunState) -> None:
    """Write a run's skill, context, state and input into its empty log.

    Raises:
        InvalidRequest: One of them does not fit the agent.
    """
    skill = _skill(request, agent)
    _check(request, agent, skill)
    if skill is not None:
        select_skill(state, skill)
    state.data.set("state", {})
    context, task = [_said(message) for message in request.context], list[ChatMessage]()
    if isinstance(request.input, str):
        task = [ChatMessage(role="user", content=request.input)]
    elif request.input is not None:
        part = DataPart(kind="input", data=request.input, schema_=agent.input)
        task = [ChatMessage(role="user", content=[part])]

    def refuse(kind: str, why: str) -> None:
        raise InvalidRequest(f"`context`: its data of kind `{kind}` cannot be taken: {why}")

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


def _check_input(agent: Agent, state: RunState) -> None:
    """Check that the input fits the agent: in a run with instances, as each instance sees it."""
    for instance in state.data.instances or (None,):
        seen = state.data.visible_value("input", instance)
        wrong = [] if agent.input is None or seen is None else errors(seen, agent.input)
        if wrong:
            of = "" if instance is None else f" of the instance `{instance}`"
            raise InvalidRequest(
                f"`input`{of} does not fit the schema of agent `{agent.name}`: {'; '.join(wrong)}"
            )


def select_skill(state: RunState, skill: str) -> None:
    """Activate a skill."""
    state.take_skill(skill)
    state.log.append(SkillEntry(skill=skill))


def append_message(
    state: RunState, message: Message, *, within: str | None = None, veil: Redaction | None = None
) -> None:
    """Write a message to the log, so that references can read its data.

    A message of a call for an instance is stored `within` that; `veil` is its redaction in the
    state.
    """

    def note(kind: str, why: str) -> None:
        state.log.append(NoticeEntry(text=f"the {kind} in a message was not taken: {why}"))

    said = _said(message).model_copy(update={"instance": within})
    DataMessageWriter(state, [message], note, within=within, veil=veil).write(said)


def conversation(request: RunRequest) -> Conversation | None:
    """Return the run's setting for further messages, if it has one."""
    match request.conversation:
        case Conversation() as asked:
            return asked
        case True:
            return Conversation()
        case False:
            return None


def _said(message: Message) -> ChatMessage:
    return ChatMessage(role=message.role, content=message.content)


def _skill(request: RunRequest, agent: Agent) -> str | None:
    try:
        name = initial_skill(request, agent)
    except NoSuchSkill as error:
        raise InvalidRequest(str(error)) from None
    skill = skill_of(agent, name)
    if skill is None or skill.activity is None:
        return name
    parts = (part for message in request.context for part in message.content)
    if request.conversation is not False:
        raise InvalidRequest(
            f"`conversation`: the skill `{skill.name}` of agent `{agent.name}` is an activity,"
            " which hears no messages; leave it out"
        )
    if any(isinstance(part, DataPart) and part.instance is not None for part in parts):
        raise InvalidRequest(
            f"`context`: the skill `{skill.name}` of agent `{agent.name}` is an activity, which"
            " takes one input; leave `_instance` out"
        )
    return name


def _check(request: RunRequest, agent: Agent, skill: str | None) -> None:
    if request.input is None and not request.context:
        raise InvalidRequest("say what the run is to do: `input`, a text or an object")
    wrong = (
        [] if request.state is None or agent.state is None else errors(request.state, agent.state)
    )
    if wrong:
        raise InvalidRequest(
            f"`state` does not fit the schema of agent `{agent.name}`: {'; '.join(wrong)}"
        )
    if json_size(request.state) > MAX_STATE_BYTES:
        raise InvalidRequest(f"`state` is too large: at most {MAX_STATE_BYTES} bytes")
    names = callable_names(agent, skill)
    whose = f"agent `{agent.name}`" if skill is None else f"skill `{skill}`"
    choice = request.tool_choice
    if choice is not None and not isinstance(choice, str) and choice.name not in names:
        fix = suggest_names(choice.name, names, "it has none")
        raise InvalidRequest(f"`toolChoice`: {whose} has no tool {quote_value(choice.name)}; {fix}")
    for message in request.context:
        if message.role == "tool":
            raise InvalidRequest(
                "`context` holds a message of role `tool`; say `user` or `assistant`"
            )
