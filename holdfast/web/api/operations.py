"""The operations of the HTTP API: each address with its handler and its description.

The routes and the description (`web.api.openapi`) are both built from these operations, so they
cannot differ; the docstring of a handler is its text. Errors are problems (RFC 9457).
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final, get_args

from starlette.requests import Request
from starlette.routing import BaseRoute
from starlette.types import Receive, Scope, Send

from holdfast.client.start import TRACESTATE
from holdfast.schemas.decision import Decision, Receipt
from holdfast.schemas.internal.run_comparison import ComparedRun, ComparedValues, RunComparison
from holdfast.schemas.internal.tracing import TRACEPARENT
from holdfast.schemas.message import Withdrawal
from holdfast.schemas.run import RunStatus
from holdfast.web import agui
from holdfast.web.api import lists, models, runs
from holdfast.web.api.api_request import ApiRequest
from holdfast.web.api.openapi import (
    Answer,
    Handler,
    Operation,
    build_description,
    docs_routes,
    parameter,
)
from holdfast.web.auth.sessions import person_of
from holdfast.web.http.problems import HttpProblem, problem_of
from holdfast.web.http.requests import RunRoute
from holdfast.web.http.streaming import MEDIA_TYPE
from holdfast.web.listing.page_query import NEWEST, ORDERS
from holdfast.web.services import Services

_EVERY_RUN: Final = ("no_such_run", "refused", "encrypted", "no_temporal")
_ASKED: Final = (*_EVERY_RUN, "no_worker", "stuck")
_CANCEL: Final = (*_EVERY_RUN, "ended")
_CLOSE: Final = (*_CANCEL, "single_call")
_BODY: Final = ("too_slow", "too_large", "wrong_type", "invalid_request")
_START: Final = (
    *_BODY,
    *("definition_not_taken", "principal_not_yours", "run_exists", "key_reused"),
    *("refused", "encrypted", "no_temporal"),
)
_RUN: Final = "support-7f3a91c2"
_START_HEADERS: Final = (
    parameter(
        runs.KEY_HEADER,
        "header",
        "Your own key for this request: a repetition with the same key starts nothing.",
        pattern=f"^[!-~]{{1,{runs.MAX_KEY_CHARS}}}$",
    ),
    parameter(
        TRACEPARENT,
        "header",
        "Your span, in the form of W3C Trace Context: the parent of the spans of the run.",
    ),
    parameter(TRACESTATE, "header", "The baggage of your trace."),
)
_LISTED: Final = {"run": _RUN, "status": "running", "started": "2026-03-01T14:03:07.120Z"}
_VIEW: Final = {"run": _RUN, "status": "awaiting_approval", "turn": 1}
_SHOWN: Final = {200: Answer("The run.", models.RunView, example=_VIEW)}
_ENDED: Final = ComparedRun(run=_RUN, agent="support", status="completed")
_NOTHING: Final = ComparedValues(equal=True, first=None, second=None)
_COMPARISON: Final = RunComparison(
    equal=True, first=_ENDED, second=_ENDED, state=_NOTHING, output=_NOTHING
).to_json()
_RECEIPT: Final = {"callId": "t1c1", "decision": "approve", "decided": True, "missing": 0}
_STREAMED: Final = (
    "retry: 2000\n\n"
    "id: 1\nevent: turn_start\n"
    'data: {"n": 1, "at": "2026-03-01T14:03:07.120Z", "type": "turn_start", "turn": 1}\n\n'
    "id: 1.1.9.1c3f4a52\nevent: token\n"
    'data: {"type": "token", "turn": 1, "attempt": 1, "offset": 0, "text": "I looked "}\n\n'
    ": still there\n\n"
    "id: 3.end\nevent: done\n"
    'data: {"n": 3, "at": "…", "type": "done", "status": "completed", "output": "I looked it up."}'
    "\n\n"
)


_AGUI_EVENTS: Final = (
    'event: RUN_STARTED\ndata: {"type": "RUN_STARTED", "threadId": "a", "runId": "1"}\n\n'
    'event: RUN_FINISHED\ndata: {"type": "RUN_FINISHED", "threadId": "a", "runId": "1"}\n\n'
)
_AGUI: Final = Answer(
    "The events.", None, MEDIA_TYPE, _AGUI_EVENTS, data="An event of AG-UI 1.0, as JSON."
)
_AGUI_INPUT: Final = {
    "threadId": "a",
    "runId": "1",
    "messages": [{"id": "m1", "role": "user", "content": "Hi"}],
}
_STARTED: Final = {
    what: Answer(
        f"The {what} is started, or was by the same request under the same key.",
        models.Started,
        example={"run": _RUN},
        headers={"Location": f"The address of the {what}."},
    )
    for what in ("run", "call")
}
_ACCEPTED: Final = {202: Answer("The run has received it.", models.Started, example={"run": _RUN})}
_ANSWER: Final = Answer(
    "The conversation's answer.",
    models.AnswerResponse,
    example={"run": _RUN, "answer": "It is on its way."},
    headers={"Preference-Applied": "The longest time that the answer was waited for."},
)
_PREFER: Final = (
    f"`wait=SECONDS`: wait so long for a conversation's answer, at most {runs.MAX_WAIT_SECONDS}."
)
_MOST_ENTRIES: Final = "The most entries; there may be fewer, and more after them."
_SAME: Final = "The same in the address, or the number `n` of an event."
_NAME: Final = parameter("name", "query", "The beginning of the name.")
_OF_RUNS: Final = (
    parameter("agent", "query", "The name of the agent."),
    parameter("principal", "query", "The id of the principal."),
    parameter("run", "query", "The beginning of the run's id."),
)


def _number(name: str, text: str, default: int, least: int, most: int) -> dict[str, Any]:
    bounds = {"minimum": least, "maximum": most, "default": default}
    return parameter(name, "query", text, type="integer", **bounds)


def _list(
    what: str, handler: Handler, model: type[Any], example: Any, *parameters: dict[str, Any]
) -> Operation:
    """Return the operation of a list, with its parameters beside those of the page."""
    answers = {200: Answer("A page.", model, example=example)}
    after = parameter("after", "query", "The `next` of the page before.")
    text = "The most entries; of approvals, the most runs."
    limit = _number("limit", text, lists.DEFAULT_LIMIT, 1, lists.MAX_LIMIT)
    problems = ("no_catalog" if what in ("agents", "tools") else "no_temporal", "refused")
    asked = [*parameters, after, limit]
    name = f"list{what.capitalize()}"
    return Operation("GET", f"/{what}", name, handler, answers, None, problems, parameters=asked)


OPERATIONS: Final = [
    _list(
        "runs",
        lists.list_runs,
        models.RunPage,
        {"runs": [_LISTED]},
        parameter("status", "query", "The status.", enum=[*get_args(RunStatus)]),
        *_OF_RUNS,
    ),
    _list(
        "approvals",
        lists.list_approvals,
        models.ApprovalPage,
        {"approvals": []},
        parameter("tool", "query", "The name of the tool."),
        parameter("group", "query", "`mine`, or `group:NAME` for the approvers of one group."),
        parameter("order", "query", "The order.", enum=[*ORDERS], default=NEWEST),
        *_OF_RUNS,
    ),
    _list("budgets", lists.list_budgets, models.BudgetPage, {"budgets": []}),
    _list("agents", lists.list_agents, models.AgentPage, {"agents": [{"name": "support"}]}, _NAME),
    _list("tools", lists.list_tools, models.ToolPage, {"tools": []}, _NAME),
    Operation(
        "POST",
        "/runs",
        "startRun",
        runs.start_run,
        {201: _STARTED["run"]},
        None,
        ("no_such_run", *_START),
        models.NewRun,
        {"agent": "support", "input": "Refund order A-1001, it arrived broken."},
        _START_HEADERS,
    ),
    Operation(
        "POST",
        "/calls",
        "startCall",
        runs.start_call,
        {201: _STARTED["call"]},
        None,
        _START,
        models.NewCall,
        {"tool": "refund", "arguments": {"order_id": "A-1001", "amount": 40}},
        _START_HEADERS,
    ),
    Operation(
        "POST",
        "/agui/{agent}",
        "watchThread",
        agui.run_agent,
        {200: _AGUI},
        None,
        (*_BODY, "too_many_streams"),
        models.RunAgentInput,
        _AGUI_INPUT,
        [
            parameter("agent", "path", "The agent's name."),
            parameter("taskQueue", "query", "The task queue of its worker."),
        ],
    ),
    Operation(
        "GET",
        "/runs/{run}/events",
        "watchRun",
        runs.follow,
        {
            200: Answer("The events, as they occur.", None, MEDIA_TYPE, _STREAMED),
            204: Answer("You have the last frame: the stream has ended."),
        },
        "read",
        (*_EVERY_RUN, "too_many_streams"),
        parameters=[
            parameter("Last-Event-ID", "header", "The id of the last frame that you have."),
            parameter("after", "query", _SAME, default="0"),
        ],
    ),
    Operation(
        "GET",
        "/runs/{run}/context",
        "readRun",
        runs.context,
        {200: Answer("A page.", models.LogPage, example={"entries": [], "next": 0})},
        "read",
        _ASKED,
        parameters=[
            _number("after", "The number of the last entry that you have.", 0, 0, runs.MAX_NUMBER),
            _number("limit", _MOST_ENTRIES, runs.DEFAULT_LIMIT, 1, runs.MAX_LIMIT),
        ],
    ),
    Operation(
        "GET",
        "/runs/{run}/approvals",
        "readApprovals",
        runs.approvals,
        {200: Answer("The pending approvals.", models.Approvals, example={"approvals": []})},
        ("read", "decide"),
        _ASKED,
    ),
    Operation(
        "GET",
        "/runs/{run}/diff/{other}",
        "compareRuns",
        runs.compare,
        {200: Answer("The comparison.", RunComparison, example=_COMPARISON)},
        "read",
        _ASKED,
        parameters=[parameter("other", "path", "The id of the second run, percent-encoded.")],
    ),
    Operation("GET", "/runs/{run}", "showRun", runs.show, _SHOWN, "read", _ASKED),
    Operation(
        "POST",
        "/runs/{run}/decisions",
        "decide",
        runs.decide,
        {200: Answer("The receipt.", Receipt, example=_RECEIPT)},
        "decide",
        (*_ASKED, *_BODY, "ended", "no_such_call", "already_decided", "invalid_decision"),
        Decision,
        {"callId": "t1c1", "decision": "approve"},
    ),
    Operation(
        "POST",
        "/runs/{run}/claims",
        "claim",
        runs.claim,
        {200: Answer("The run has it.", models.Started, example={"run": _RUN})},
        "decide",
        (*_ASKED, *_BODY, "ended", "no_such_call", "already_decided", "invalid_decision"),
        models.NewClaim,
        {"callId": "t1c1"},
    ),
    Operation(
        "POST",
        "/runs/{run}/messages",
        "say",
        runs.say,
        {200: _ANSWER, **_ACCEPTED},
        "message",
        (*_ASKED, *_BODY, "ended", "single_call", "no_answer"),
        models.NewMessage,
        {"content": "It was order A-1002."},
        [parameter("Prefer", "header", _PREFER)],
    ),
    Operation(
        "POST",
        "/runs/{run}/withdraw",
        "withdraw",
        runs.withdraw,
        {200: Answer("The run never reads it.", models.Started, example={"run": _RUN})},
        "message",
        (*_ASKED, *_BODY, "ended", "single_call", "no_such_message"),
        Withdrawal,
        {"message": 3},
    ),
    Operation(
        "POST",
        "/runs/{run}/renew",
        "renew",
        runs.renew,
        {200: Answer("The token is accepted.", models.Started, example={"run": _RUN})},
        "message",
        (*_ASKED, *_BODY, "ended"),
        models.NewToken,
        {"token": "eyJhbGciOi…"},
    ),
    Operation("POST", "/runs/{run}/close", "closeRun", runs.close, _ACCEPTED, "message", _CLOSE),
    Operation("POST", "/runs/{run}/cancel", "cancelRun", runs.cancel, _ACCEPTED, "cancel", _CANCEL),
]


def routes(parts: Services) -> list[BaseRoute]:
    """Return the routes of the operations and of their description."""
    # An address that ends with a run's id is matched last: the id may contain slashes.
    by_path = defaultdict[str, list[Operation]](list)
    for each in OPERATIONS:
        by_path[each.path].append(each)
    ordered = sorted(by_path.items(), key=lambda each: each[0].endswith("{run}"))
    found = [RunRoute(path, Resource(known, parts), None) for path, known in ordered]
    return [*found, *docs_routes(build_description(OPERATIONS))]


class Resource:
    """The operations of an address; an ASGI application."""

    def __init__(self, operations: Sequence[Operation], parts: Services) -> None:
        self.operations, self._parts = {each.method: each for each in operations}, parts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        request = Request(scope, receive)
        method = "GET" if request.method == "HEAD" else request.method
        try:
            if (operation := self.operations.get(method)) is None:
                allowed = ", ".join(self.operations)
                message = f"{request.method[:20]} is not supported here; use {allowed}."
                raise HttpProblem("method_not_allowed", message, headers={"Allow": allowed})
            run_id, right = request.path_params.get("run", ""), operation.right
            if right is not None:
                required = self._parts.require(person_of(request), right, run_id)
                request.state.access = await required
            api_request = ApiRequest(request, self._parts, run_id)
            answer = await operation.handler(api_request)
        except Exception as error:
            answer = problem_of(error).response()
        await answer(scope, receive, send)
