"""A model whose answers are in the test: a list of them, or a function of the request."""

import json
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from inspect import isawaitable
from typing import Any, Concatenate, ParamSpec, TypeAlias, overload

import httpx
from pydantic import BaseModel
from pydantic_core import to_jsonable_python
from temporalio import activity
from temporalio.common import SearchAttributeKey

from holdfast.definitions.tool import JsonObject, Tool
from holdfast.providers import base
from holdfast.providers.script import ScriptedAnswer, ScriptedAnswers, ScriptedCall, ScriptProvider
from holdfast.schemas import names
from holdfast.schemas.internal.model_request import Ask
from holdfast.schemas.internal.solution import Solution
from holdfast.schemas.message import ChatMessage
from holdfast.schemas.run import CallContext
from holdfast.schemas.tool import TOOL

P = ParamSpec("P")
Answer: TypeAlias = str | Sequence[ScriptedCall] | BaseModel | JsonObject | Exception
"""A text, calls, an output, a `ScriptedAnswer`, or the provider's or httpx's error instead."""


class ModelRequest(Ask):
    """One request to the model, before a provider's format: its messages, and its settings.

    In composed calling, the calls and their results are in the text of the messages.
    """

    agent: str
    run_id: str
    messages: list[ChatMessage]


Answers: TypeAlias = Sequence[Answer] | Callable[[ModelRequest], Answer | Awaitable[Answer]]
Model: TypeAlias = Answers | Mapping[str, Answers]
"""The answers to all agents of a test in the order of their requests, or by the agent's name."""


@overload
def call(
    tool: Tool[Concatenate[CallContext, P], object], /, *args: P.args, **kwargs: P.kwargs
) -> ScriptedCall: ...


@overload
def call(tool: Tool[P, object], /, *args: P.args, **kwargs: P.kwargs) -> ScriptedCall: ...


@overload
def call(tool: str, arguments: JsonObject = ..., /) -> ScriptedCall: ...


def call(tool: Tool[..., object] | str, /, *args: Any, **kwargs: Any) -> ScriptedCall:
    """Return a call of a function with its arguments, or of a tool by its name with an object."""
    if isinstance(tool, str):
        return ScriptedCall(tool=tool, arguments=dict(*args))
    return ScriptedCall(tool=tool.name, arguments=tool.arguments(*args, **kwargs))


class ScriptedModel:
    """A provider that answers from a test, and stores the requests in order."""

    kind = "testing"
    carries: tuple[str, ...] = ("image", "document")

    def __init__(self, model: Model) -> None:
        self.requests: list[ModelRequest] = []
        by_agent = model if isinstance(model, Mapping) else {"": model}
        self._answers = {
            agent: answers if callable(answers) else deque(answers)
            for agent, answers in by_agent.items()
        }

    def encode(self, message: ChatMessage, names: base.ToolNames) -> base.EncodedMessage:
        return base.EncodedMessage((json.dumps(message.to_json()).encode(),))

    async def solve(self, request: base.ProviderRequest, sink: base.AnswerSink) -> Solution:
        """Return the next answer, streamed, or raise it if it is an error."""
        run_id = activity.info().workflow_id or ""
        run = await activity.client().get_workflow_handle(run_id).describe()
        agent = run.typed_search_attributes.get(SearchAttributeKey.for_keyword(names.AGENT_NAME))
        messages = [ChatMessage.read(json.loads(each)) for each in request.fragments]
        if request.ask.tail:
            messages.append(ChatMessage(role="user", content=request.ask.tail))
        asked: dict[str, Any] = {**dict(request.ask), "messages": messages}
        seen = ModelRequest.model_construct(**asked, agent=agent or "", run_id=run_id)
        self.requests.append(seen)
        try:
            answers = self._answers.get(seen.agent, self._answers.get(""))
            if not (answers or callable(answers)):
                wrong = f"`model` has no answer to request {len(self.requests)}, which is of agent"
                raise base.UnanswerableRequest(f"{wrong} `{seen.agent}`; add one")
            answer = answers(seen) if callable(answers) else answers.popleft()
            if isawaitable(answer):
                answer = await answer
            if isinstance(answer, Exception):
                raise answer
            script = ScriptedAnswers([_as_scripted(answer, request.ask)])
        except (base.ProviderError, httpx.HTTPError):
            raise
        except Exception as error:  # Temporal would retry it
            wrong = f"the model of the test raised {error!r}"
            raise base.UnanswerableRequest(wrong) from error
        return await ScriptProvider(script).solve(replace(request, fragments=()), sink)

    def unused_answers(self) -> Iterator[str]:
        """Yield a line if there are answers that were not asked for."""
        left = [each for some in self._answers.values() if not callable(some) for each in some]
        if left:
            wrong = f"`model` has {len(left)} unused after {len(self.requests)} requests"
            yield f"{wrong}, the next: {left[0]!r}; remove it, or wait for the end of the run"


def _as_scripted(answer: Answer, ask: Ask) -> ScriptedAnswer:
    if isinstance(answer, ScriptedAnswer):
        return answer
    calls: list[ScriptedCall] = []
    match answer:
        case ScriptedCall():
            calls = [answer]
        case [*several]:
            calls = several
    output = None if calls else to_jsonable_python(answer)
    if ask.calling == "composed":
        written = [each.model_dump() for each in calls]
        written = [{TOOL: each["tool"], **each["arguments"]} for each in written]
        return ScriptedAnswer(text=json.dumps({"calls": written, "output": output}))
    text = output if isinstance(output, str) else json.dumps(output)
    return ScriptedAnswer(text="" if calls else text, calls=calls)
