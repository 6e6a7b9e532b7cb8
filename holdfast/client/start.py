"""The start of a run or a single call: its input, its id, and its texts for lists.

An id is used once: a call is identified by the run's id and its own, so a second run with the same
id would find the results of the first.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Self

import jwt
from temporalio.client import (
    Client,
    Interceptor,
    OutboundInterceptor,
    StartWorkflowInput,
    WorkflowHandle,
)
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.converter import DataConverter

from holdfast.client.errors import RUN_FAILED, HoldfastError, explain_files
from holdfast.runtime.attachments import check_types
from holdfast.runtime.narration.arguments import run_title, subject_line
from holdfast.runtime.narration.log_narration import content_text
from holdfast.runtime.narration.phrases import fork_phrase
from holdfast.runtime.text_safety import (
    arguments_line,
    as_json,
    clean,
    holdfast_command,
    one_line,
    shorten,
)
from holdfast.schemas import names
from holdfast.schemas.internal.tracing import HEADER, TRACEPARENT, Place, read_header
from holdfast.schemas.run import CallRequest, Principal, RunRequest

TRACESTATE: Final = "tracestate"
FIELDS: Final = (TRACEPARENT, TRACESTATE)
# In the memo of a run, the digest of the request that started it.
REQUEST_MEMO: Final = "HttpRequest"
# The W3C requires this length to be passed on; a longer value may be dropped.
MAX_STATE_CHARACTERS: Final = 512
_STATE = re.compile(rf"[ -~]{{1,{MAX_STATE_CHARACTERS}}}")

_SUMMARY_CHARS = 200
_DETAILS_CHARS = 4_000


class RunExistsError(HoldfastError):
    """A run with this id exists."""

    def __init__(self, run_id: str) -> None:
        todo = f"see {holdfast_command('show', run_id)}, or choose another --id"
        super().__init__(f"there is a run with the id {run_id}", todo, RUN_FAILED)


@dataclass(frozen=True)
class StartRequest:
    """The start of a workflow: its type and input, its name, and its subject.

    `about` is the subject. `started_by` is the person or program that starts it, as Temporal's UI
    shows it. `memo` is stored with the run; a `REQUEST_MEMO` in it identifies the request, which
    starts one run however often it is sent. `caller` is the caller's place in a trace.
    """

    workflow: str
    payload: Mapping[str, Any]
    name: str
    about: str
    started_by: str = "`holdfast`"
    memo: Mapping[str, Any] = field(default_factory=dict)
    caller: Place | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)
    """The search attributes with which it starts: those that its run would write first."""
    title: str = ""
    """By the agent's own title, where the request has the whole agent."""

    @classmethod
    def of(cls, request: RunRequest | CallRequest, payload: Mapping[str, Any], **more: Any) -> Self:
        """Return the start of a run or of a single call; `payload` is the request as JSON.

        Raises:
            InvalidFileError: a part of its messages is of another type than it states.
        """
        attributes = {names.AGENT_STATUS: "running"}
        if isinstance(request.principal, Principal):
            attributes[names.AGENT_PRINCIPAL] = request.principal.id
        if isinstance(request, CallRequest):
            tool = request.tool
            name = tool if isinstance(tool, str) else tool.tool or "tool"
            about, workflow = arguments_line(request.arguments), names.CALL_WORKFLOW
        else:
            agent, content = request.agent, request.input
            with explain_files():
                check_types(content, "input")
                for n, message in enumerate(request.context):
                    check_types(message.content, f"context[{n}].content")
            if not isinstance(agent, str):
                more = {"title": run_title(agent.title, content, agent.input), **more}
            known = agent if isinstance(agent, str) else agent.name
            name, attributes[names.AGENT_NAME] = known or "agent", known or names.UNNAMED_AGENT
            about = as_json(content) if isinstance(content, dict) else content_text(content or "")
            workflow = names.AGENT_WORKFLOW
            if request.fork is not None:
                # The run writes this memo once it has read the other one, which can fail.
                origin = {names.FORKED_FROM: request.fork.to_json()}
                more["memo"] = {**more.get("memo", {}), **origin}
                about = about or f"Fork of {fork_phrase(request.fork)}"
        return cls(workflow, payload, name, about, attributes=attributes, **more)

    @property
    def search_attributes(self) -> TypedSearchAttributes:
        keys = {name: SearchAttributeKey.for_keyword(name) for name in self.attributes}
        pairs = [SearchAttributePair(keys[name], self.attributes[name]) for name in keys]
        return TypedSearchAttributes(pairs)

    @property
    def summary(self) -> str:
        """Return the name, and the title or the subject, for lists."""
        subject = self.title or subject_line(clean(self.about))
        return one_line(": ".join(filter(None, (self.name, subject))), _SUMMARY_CHARS)

    @property
    def details(self) -> str:
        """Return `started_by` and the subject for Temporal's UI, in full if it fits."""
        summary = clean(shorten(self.about, _DETAILS_CHARS)).replace("\n", "\n    ")
        return f"Started with {self.started_by}" + (
            f", on this:\n\n    {summary}" if summary else "."
        )


def run_of_token(principal: Mapping[str, Any] | None) -> str | None:
    """Return the workflow id that a principal's token is for, if the principal has one."""
    token = (principal or {}).get("token", "")
    with suppress(jwt.InvalidTokenError):  # the worker reports it
        run_id = jwt.decode(token, options={"verify_signature": False}).get("jti")
        return run_id if isinstance(run_id, str) and run_id.isprintable() else None
    return None


def trace_caller(headers: Mapping[str, str]) -> Place | None:
    """Return the caller's place in a trace; None without valid headers."""
    sent = {TRACEPARENT: headers.get(TRACEPARENT, "")}
    state = headers.get(TRACESTATE, "")
    return read_header({**sent, TRACESTATE: state} if _STATE.fullmatch(state) else sent)


def environment_caller(environ: Mapping[str, str]) -> Place | None:
    """Return the caller's place in a trace from the variables of the environment."""
    return trace_caller({name: environ.get(name.upper(), "") for name in FIELDS})


def client_in_trace(client: Client, caller: Place | None) -> Client:
    """Return a client whose workflows start under the caller's place in a trace."""
    if caller is None:
        return client
    config = client.config()
    header = DataConverter.default.payload_converter.to_payload(caller.header())

    class Outbound(OutboundInterceptor):
        async def start_workflow(self, input: StartWorkflowInput) -> WorkflowHandle[Any, Any]:
            input.headers = {**input.headers, HEADER: header}
            return await super().start_workflow(input)

    class Tracing(Interceptor):
        def intercept_client(self, inner: OutboundInterceptor) -> OutboundInterceptor:
            return Outbound(inner)

    config["interceptors"] = [*config["interceptors"], Tracing()]
    return Client(**config)
