"""The initial context of a run, and how messages from people enter its log.

Later calls can refer to the data in messages. The model receives the data of one kind (and
instance) merged into one part: of several parts that arrive together, at the position of the last
one; a later part is shown with the value merged up to then, since nothing that was sent to the
model changes afterwards. The state is the exception: it follows the conversation. The log holds
each message as it arrived: a data message that is shown differently is a write there.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from holdfast.schemas.agent import ResolvedAgent
from holdfast.schemas.base import MAX_JSON_DEPTH, is_deeper, json_size, readable_json
from holdfast.schemas.internal.continue_as_new import DescriptionSnapshot
from holdfast.schemas.log_entry import SkillChooser
from holdfast.schemas.message import AskedCall, ChatMessage, ContextMessage, DataPart, Message, Part
from holdfast.schemas.names import call_id
from holdfast.schemas.phrases import quote_value, suggest_names
from holdfast.schemas.reference import Path
from holdfast.schemas.run import RunRequest
from holdfast.schemas.tool import OutputMethod, Schema
from holdfast.validation.schema_node import ValidationLimits
from holdfast.validation.validator import errors
from holdfast.workflows.engine.run_state import MAX_STATE_BYTES, RunState
from holdfast.workflows.engine.skills import allowed_tools, fitting, skill_of, skill_problem
from holdfast.workflows.engine.state.data import MISSING, CannotWrite
from holdfast.workflows.engine.state.redaction import (
    UNTRUSTED_MARK,
    UNTRUSTED_RULE,
    Redaction,
    hidden_value,
)

# Each tool's schema lists all of their names.
MAX_INSTANCES = 500


class DataMessageWriter:
    """Writes messages that arrive together.

    `refuse` receives the kind of data that cannot be stored, and the reason. A message of a call
    for an instance is stored `within` that instance only, and `veil` is its redaction in the state.
    What is in an imported call or result is shown, and read by no reference.
    """

    def __init__(
        self,
        state: RunState,
        messages: Iterable[Message | ChatMessage],
        refuse: Callable[[str, str], None],
        *,
        within: str | None = None,
        veil: Redaction | None = None,
    ) -> None:
        self._state = state
        self._refuse = refuse
        self._within = within
        self._veil = veil
        self._left = Counter(
            self._place(part)
            for message in messages
            if not (isinstance(message, ChatMessage) and message.imported)
            for part in message.content
            if isinstance(part, DataPart)
        )
        self._taken: set[Path] = set()
        self._outside = veil is not None and not veil.trusted
        # Parts that the model receives unchanged: the only ones of their kind and instance, and
        # not from outside.
        self._alone = {
            place
            for place, count in self._left.items()
            if count == 1 and not self._stands(place) and not self._outside
        }

    def write(self, message: ChatMessage) -> None:
        """Write one of the messages to the log."""
        content = message.content
        if isinstance(content, list) and not message.imported:
            content = [shown for part in content for shown in self._part(part)]
            if not content and message.content:
                return
        self._state.log.add_message(message.model_copy(update={"content": content}))

    def _part(self, part: Part) -> Iterator[Part]:
        """Yield the parts that the model receives in place of a part."""
        if not isinstance(part, DataPart):
            yield part
            return
        place = self._place(part)
        self._left[place] -= 1
        try:
            self._take(part, place)
        except CannotWrite as error:
            self._refuse(place.kind, str(error))
        shown = place in self._taken and self._left[place] == 0
        if shown and place.kind != "state":
            own = part.model_copy(update={"instance": place.instance})
            yield own if place in self._alone else self._whole(place)

    def _place(self, part: DataPart) -> Path:
        return Path(part.kind, (), part.instance or self._within)

    def _stands(self, place: Path) -> bool:
        return self._state.data.own_value(place.kind, place.instance) is not MISSING

    def _take(self, part: DataPart, place: Path) -> None:
        """Store data so that references can read it, or raise `CannotWrite`."""
        state = self._state
        if self._within is not None and place.instance != self._within:
            raise CannotWrite(f"it comes from a call for the instance {self._within}")
        known = state.data.instances
        new = place.instance not in (None, *known)
        # Data from outside must not replace data from another source.
        own = place.kind in ("input", "state") or (
            self._stands(place) and not state.redactions.is_outside(place)
        )
        if self._outside and (new or own):
            raise CannotWrite("it is untrusted, and only trusted data can add instances")
        if new and len(known) >= MAX_INSTANCES:
            raise CannotWrite(f"a run has at most {MAX_INSTANCES} instances")
        if place in self._alone and place.instance is None and place.kind != "state":
            state.set_data(place.kind, part.data)
        else:
            state.write([place], part.data, "merge", veil=self._veil)
        self._taken.add(place)
        old = state.described.get(place)
        state.described[place] = DescriptionSnapshot(
            kind=place.kind,
            instance=place.instance,
            schema_=part.schema_ or (old.schema_ if old else None),
            description=part.description or (old.description if old else None),
        )

    def _whole(self, place: Path) -> DataPart:
        data = self._state.redactions.redact(
            self._state.data.own_value(place.kind, place.instance), place
        )
        if is_deeper(data, MAX_JSON_DEPTH):
            data = hidden_value(data, place)
        described = self._state.described[place]
        return DataPart(
            kind=place.kind,
            data=data,
            schema_=described.schema_,
            description=described.description,
            instance=place.instance,
        )


class InvalidRequest(ValueError):
    """The request does not make a valid run."""


def write_initial_context(request: RunRequest, agent: ResolvedAgent, state: RunState) -> None:
    """Write skill, context, state and input to the log, or raise `InvalidRequest`.

    The log is empty, or that of a fork, which has a state, an input and perhaps its skill.
    """
    skill, by = _skill(request, agent, state)
    _check(request, agent, skill, state.limits)
    if skill is not None and skill != state.skill:
        state.take_skill(skill, by)
    state.data.set("state", state.data["state"] or {})
    context, task = _read_context(request.context), list[ChatMessage]()
    if isinstance(request.input, dict):
        part = DataPart(kind="input", data=request.input, schema_=agent.input)
        task = [ChatMessage(role="user", content=[part])]
    elif request.input is not None:
        task = [ChatMessage(role="user", content=request.input)]

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
    if isinstance(given := request.input_value, str) and request.fork is None:
        state.set_data("input", given)
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
        _check_fits(f"`input`{of}", seen, agent.input, agent.name, state.limits)


def _check_fits(
    what: str, value: Any, schema: Schema | bool | None, agent: str, limits: ValidationLimits
) -> None:
    if schema is None or value is None:
        return
    if wrong := errors(value, schema, limits.budget()):
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


def _skill(
    request: RunRequest, agent: ResolvedAgent, state: RunState
) -> tuple[str | None, SkillChooser]:
    name = state.skill if request.skill is None else request.skill
    by: SkillChooser = "request" if name is not None else "rule"
    if name is None:
        only = agent.skills[0].name if len(agent.skills) == 1 else None
        name = only or fitting(agent, request.input_value, state.limits)
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


def _check(
    request: RunRequest, agent: ResolvedAgent, skill: str | None, limits: ValidationLimits
) -> None:
    if request.input is None and not request.context and request.fork is None:
        raise InvalidRequest("write the task of the run as `input`, a text or an object")
    if agent.calls and request.conversation is not False:
        why = f"agent `{agent.name}` has constant `calls`, which receive no messages"
        raise InvalidRequest(f"`conversation`: {why}; leave it out")
    _check_fits("`state`", request.state, agent.state, agent.name, limits)
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
