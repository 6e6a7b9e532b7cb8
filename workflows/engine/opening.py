"""What a run begins with, and how what people say enters its log."""

from typing import Any

from schemas.agent import Agent
from schemas.base import json_size
from schemas.entry import MessageEntry, NoticeEntry, WriteEntry
from schemas.faults import nearest
from schemas.message import ChatMessage, DataPart, Message
from schemas.names import INVALID_REQUEST
from schemas.reference import Path
from schemas.run import Conversation, RunRequest
from schemas.wording import quoted
from workflows.engine.checking import errors
from workflows.engine.kept import MAX_STATE_BYTES, Kept
from workflows.engine.state import CannotWrite


class InvalidRequest(ValueError):
    """What a run was asked for with does not make a run."""

    code = INVALID_REQUEST


def begin(request: RunRequest, agent: Agent, kept: Kept) -> None:
    """Write a run's context, state and input into its empty log.

    Raises:
        InvalidRequest: one of them does not fit the agent.
    """
    _check(request, agent)
    kept.data.set("state", {})
    for message in request.context:
        add(kept, message)
    if request.state is not None:
        kept.data.set("state", request.state)
        kept.log.append(WriteEntry(path="†state", value=request.state))
    if request.input is not None:
        kept.data.set("input", request.input)
        kept.log.append(MessageEntry(message=_input(request, agent)))


def add(kept: Kept, message: Message) -> None:
    """Write what somebody said into the log; data in it can be referred to from now on."""
    said = ChatMessage(role=message.role, content=message.content)
    kept.log.append(MessageEntry(message=said))
    for part in message.content if isinstance(message.content, list) else []:
        if isinstance(part, DataPart):
            _take(kept, part.kind, part.data)


def conversation(request: RunRequest) -> Conversation | None:
    """How long the run stays open for further messages, where it does."""
    match request.conversation:
        case Conversation() as asked:
            return asked
        case True:
            return Conversation()
        case False:
            return None


def _take(kept: Kept, kind: str, data: Any) -> None:
    """Let data be referred to. A new state is a write like any other, bounded and logged."""
    if kind != "state":
        kept.data.set(kind, data)
        return
    try:
        kept.write([Path("state")], data)
    except CannotWrite as error:
        kept.log.append(NoticeEntry(text=f"the state in a message was not taken: {error}"))


def _check(request: RunRequest, agent: Agent) -> None:
    if request.input is None and not request.context:
        raise InvalidRequest("say what the run is to do: `input`, a text or an object")
    for name, value, schema in (
        ("input", request.input, agent.input),
        ("state", request.state, agent.state),
    ):
        wrong = [] if schema is None or value is None else errors(value, schema)
        if wrong:
            problems = "; ".join(wrong)
            raise InvalidRequest(
                f"`{name}` does not fit the schema of agent `{agent.name}`: {problems}"
            )
    if json_size(request.state) > MAX_STATE_BYTES:
        raise InvalidRequest(f"`state` is too large: at most {MAX_STATE_BYTES} bytes")
    names = [tool.name for tool in agent.tools]
    choice = request.tool_choice
    if choice is not None and not isinstance(choice, str) and choice.name not in names:
        mend = nearest(choice.name, names, "it has none")
        raise InvalidRequest(
            f"`toolChoice`: agent `{agent.name}` has no tool {quoted(choice.name)}; {mend}"
        )
    for message in request.context:
        if message.role == "tool":
            raise InvalidRequest(
                "`context` holds a message of role `tool`; say `user` or `assistant`"
            )


def _input(request: RunRequest, agent: Agent) -> ChatMessage:
    if isinstance(request.input, str):
        return ChatMessage(role="user", content=request.input)
    part = DataPart(kind="input", data=request.input, schema_=agent.input)
    return ChatMessage(role="user", content=[part])
