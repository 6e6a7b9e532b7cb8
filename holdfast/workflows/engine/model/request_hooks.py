"""The hooks around the answers of the model: what they receive, and what they may change.

    _beforeModel   ─► other messages, tools or settings of this one request; or the run stops
    _onModelError  ─► an output, another attempt, another model; or the run fails
    _afterAnswer   ─► the output or another one, a message to the model; or the run stops

A change is of one request: the log keeps the conversation as it is, and one line on what changed.
The run applies it to what the activity reads, since no activity's input holds the conversation.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from pydantic import ValidationError

from holdfast.schemas.agent import ModelSettings, ResolvedAgent
from holdfast.schemas.base import Strict, json_size
from holdfast.schemas.internal.model_request import ConversationEdits, RequestChange
from holdfast.schemas.log_entry import SHOWN_TO_MODELS
from holdfast.schemas.message import ChatMessage
from holdfast.schemas.tool import ResolvedTool
from holdfast.validation.problems import problems_of, summarize_problems
from holdfast.workflows.engine.call.activities import (
    CallRefused,
    HookName,
    RunStopped,
    invalid_hook_result,
)
from holdfast.workflows.engine.conversation.scopes import content_text
from holdfast.workflows.engine.log.log import Log
from holdfast.workflows.engine.state.redaction import truncate

StrictT = TypeVar("StrictT", bound=Strict)
MAX_VIEW_BYTES = 16_000
MAX_VIEW_TEXT_CHARACTERS = 2_000
MAX_VIEW_ARGUMENTS_BYTES = 300
MAX_CHANGE_BYTES = 64_000
# The attempts that `_onModelError` may add to one turn, and the longest pause before one.
MAX_FURTHER_ATTEMPTS = 3
MAX_PAUSE = timedelta(hours=1)


@dataclass(frozen=True)
class ChangedRequest:
    """A request as a hook changed it: the agent that makes it, and what of the log it shows."""

    agent: ResolvedAgent
    edits: ConversationEdits


def shown_messages(log: Log, since: int) -> dict[int, ChatMessage]:
    """Return the messages that the model reads, by the numbers of their entries."""
    shown = {}
    for record in log.records_after(since):
        if record["type"] not in SHOWN_TO_MODELS:
            continue
        if "message" in record:
            shown[record["n"]] = ChatMessage.read(record["message"])
        elif record["upto"] == since:
            shown[record["n"]] = ChatMessage(role="user", content=record["text"])
    return shown


def view_messages(log: Log, since: int) -> dict[str, Any]:
    """Return the newest messages for `_beforeModel`, and how many it is not shown."""
    messages = shown_messages(log, since)
    room, views = MAX_VIEW_BYTES, list[dict[str, Any]]()
    for number, message in reversed(messages.items()):
        text = content_text(message.content)
        if len(text) > MAX_VIEW_TEXT_CHARACTERS:
            text = f"{text[:MAX_VIEW_TEXT_CHARACTERS]} … ({len(text)} characters)"
        view: dict[str, Any] = {"n": number, "role": message.role, "text": text}
        if message.calls:
            view["calls"] = [
                {
                    "id": call.id,
                    "tool": call.tool,
                    "arguments": truncate(call.arguments, MAX_VIEW_ARGUMENTS_BYTES),
                }
                for call in message.calls
            ]
        if message.call_id is not None:
            view |= {"tool": message.tool, "callId": message.call_id}
        room -= json_size(view)
        if room < 0:
            break
        views.append(view)
    return {"messages": views[::-1], "earlier": len(messages) - len(views)}


def changed_request(
    value: Any, agent: ResolvedAgent, tools: list[ResolvedTool], log: Log, since: int
) -> ChangedRequest:
    """Return and log the request of an agent with these tools, as `_beforeModel` changes it.

    Raises:
        RunStopped: The hook stops the run.
        CallRefused: The value is invalid.
    """
    if (size := json_size(value)) > MAX_CHANGE_BYTES:
        raise _invalid(f"it returned {size} bytes; at most {MAX_CHANGE_BYTES}")
    change = read_value({} if value is None else value, RequestChange, "beforeModel")
    if change.stop is not None:
        raise RunStopped(change.stop)
    edits = _edits(change, shown_messages(log, since), since)
    edited = {"hidden": edits.hidden, "replaced": edits.replaced, "added": edits.added}
    notes = [f"messages {name}: {len(found)}" for name, found in edited.items() if found]
    if change.tools is not None:
        names = [tool.name for tool in tools]
        if unknown := [name for name in change.tools if name not in names]:
            raise _invalid(f"it names the tool `{unknown[0]}`, which this request does not offer")
        agent = _with_tools(agent, change.tools)
        notes.append(f"tools: {', '.join(change.tools) or 'none'}")
    if change.model is not None:
        agent = agent.model_copy(
            update={"model": patched_model(agent.own_model, change.model, "beforeModel")}
        )
        notes.append(f"model: {agent.own_model.label}")
    if notes:
        log.add_notice(f"the hook `_beforeModel` changed the request: {'; '.join(notes)}")
    return ChangedRequest(agent, edits)


def patched_model(model: ModelSettings, patch: dict[str, Any], hook: HookName) -> ModelSettings:
    """Return a model with the fields that a hook set; raise `CallRefused` if they are invalid."""
    return read_value({**model.to_json(), **patch}, ModelSettings, hook, "`model`: ")


def read_value(value: Any, model: type[StrictT], hook: HookName, where: str = "") -> StrictT:
    """Return a value of a hook as a model; raise `CallRefused` if it does not fit."""
    try:
        return model.model_validate(value, by_alias=True, by_name=False)
    except ValidationError as error:
        problems = summarize_problems(problems_of(error, value, model))
        raise invalid_hook_result(hook, f"{where}{problems}") from None


def _edits(change: RequestChange, shown: dict[int, ChatMessage], since: int) -> ConversationEdits:
    """Return the edits of the messages; a message with calls is hidden together with results."""
    wanted = change.messages
    for number in (*wanted.hide, *wanted.replace):
        if number > since and number not in shown:
            raise _invalid(f"it names the message {number}, which does not exist")
    if any(message.role == "tool" for message in wanted.append):
        raise _invalid("`messages.append`: a message with the role `tool` is the result of no call")
    callers = {call.id: n for n, message in shown.items() for call in message.calls}
    groups = {n: callers.get(message.call_id or "", n) for n, message in shown.items()}
    hidden = {groups[number] for number in wanted.hide if number in groups}
    return ConversationEdits(
        hidden=[number for number in shown if groups[number] in hidden],
        replaced={
            number: shown[number].model_copy(update={"content": text, "provider_data": None})
            for number, text in wanted.replace.items()
            if number in shown and groups[number] not in hidden
        },
        added=[ChatMessage(role=each.role, content=each.content) for each in wanted.append],
    )


def _with_tools(agent: ResolvedAgent, names: list[str]) -> ResolvedAgent:
    def kept(tools: list[ResolvedTool]) -> list[ResolvedTool]:
        return [tool for tool in tools if tool.name in names]

    skills = [skill.model_copy(update={"tools": kept(skill.tools)}) for skill in agent.skills]
    return agent.model_copy(update={"tools": kept(agent.tools), "skills": skills})


def _invalid(why: str) -> CallRefused:
    return invalid_hook_result("beforeModel", why)
