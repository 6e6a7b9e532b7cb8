"""What a run begins with, and how what people say enters its log."""

from schemas.entry import MessageEntry, WriteEntry
from schemas.message import ChatMessage, DataPart, Message
from schemas.names import INVALID_REQUEST
from schemas.run import RunRequest
from workflows.engine.arguments import errors
from workflows.engine.kept import Kept


class InvalidRequest(ValueError):
    """What a run was asked for with does not make a run."""

    code = INVALID_REQUEST


def begin(request: RunRequest, kept: Kept) -> None:
    """Write a run's context, state and input into its empty log.

    Raises:
        InvalidRequest: one of them does not fit the agent.
    """
    _check(request, kept)
    kept.data.set("state", {})
    for message in request.context:
        add(kept, message)
    if request.state is not None:
        kept.data.set("state", request.state)
        kept.log.append(WriteEntry(path="†state", value=request.state))
    if request.input is not None:
        kept.data.set("input", request.input)
        kept.log.append(MessageEntry(message=_input(request, kept)))


def add(kept: Kept, message: Message) -> None:
    """Write what somebody said into the log; data in it can be referred to from now on."""
    if isinstance(message.content, list):
        for part in message.content:
            if isinstance(part, DataPart):
                kept.data.set(part.kind, part.data)
    said = ChatMessage(role=message.role, content=message.content)
    kept.log.append(MessageEntry(message=said))


def _check(request: RunRequest, kept: Kept) -> None:
    agent = kept.agent
    if request.input is None and not request.context:
        raise InvalidRequest("say what the run is to do: `input`, a text or an object")
    for name, value, schema in (
        ("input", request.input, agent.input),
        ("state", request.state, agent.state),
    ):
        wrong = [] if schema is None or value is None else list(errors(value, schema))
        if wrong:
            problems = "; ".join(wrong)
            raise InvalidRequest(
                f"`{name}` does not fit the schema of agent `{agent.name}`: {problems}"
            )
    names = [tool.name for tool in agent.tools]
    choice = request.tool_choice
    if choice is not None and not isinstance(choice, str) and choice.name not in names:
        raise InvalidRequest(
            f"`toolChoice` names `{choice.name}`; the agent's tools: {', '.join(names)}"
        )
    for message in request.context:
        if message.role == "tool":
            raise InvalidRequest(
                "`context` holds a message of role `tool`; say `user` or `assistant`"
            )


def _input(request: RunRequest, kept: Kept) -> ChatMessage:
    if isinstance(request.input, str):
        return ChatMessage(role="user", content=request.input)
    schema = kept.agent.input
    part = DataPart(kind="input", data=request.input, schema_=schema)
    return ChatMessage(role="user", content=[part])
