"""A run is asked again at once when the server has no room for a query, and no more than needed."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from temporalio.api.common.v1 import Payloads
from temporalio.api.enums.v1.workflow_pb2 import WORKFLOW_EXECUTION_STATUS_COMPLETED
from temporalio.api.query.v1 import QueryRejected
from temporalio.api.workflowservice.v1 import QueryWorkflowRequest, QueryWorkflowResponse
from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.service import RPCError, RPCStatusCode

from holdfast.activities.model.conversation_reader import RunNotOpen, RunUnresponsive
from holdfast.activities.model.run_queries import TRIES_SECONDS, RunQueries
from holdfast.schemas.internal.model_request import ConversationPage, ConversationPageRequest
from holdfast.schemas.names import AHEAD_MESSAGE
from tests.activities.model.logged_run import RUN
from tests.providers.fakes import ask

FULL = RPCError("consistent query buffer is full", RPCStatusCode.RESOURCE_EXHAUSTED, b"")
WANT = ConversationPageRequest(after=2, upto=9, offset=4)


class QueryServer:
    """The server's answers to queries, one after the other, and what it was asked."""

    namespace = "default"
    data_converter = DataConverter.default

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[QueryWorkflowRequest] = []
        self.workflow_service = SimpleNamespace(query_workflow=self.query)

    async def query(self, request: QueryWorkflowRequest, **how: Any) -> QueryWorkflowResponse:
        assert how["retry"] is False, "the client's own retries wait for a second"
        self.asked.append(request)
        answer = self.answers[min(len(self.asked), len(self.answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, QueryWorkflowResponse):
            return answer
        payloads = await self.data_converter.encode([answer])
        return QueryWorkflowResponse(query_result=Payloads(payloads=payloads))

    async def page(self) -> ConversationPage:
        return await RunQueries(cast(Client, self)).page(RUN, WANT)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "holdfast.activities.model.run_queries.TRIES_SECONDS", ((1, 0.0),) * len(TRIES_SECONDS)
    )


async def test_the_query_asks_the_very_run_for_the_page() -> None:
    server = QueryServer({"items": ["#ab"], "cut": False})
    assert await server.page() == ConversationPage(items=["#ab"])
    [request] = server.asked
    assert request.query.query_type == "request"
    assert (request.execution.workflow_id, request.execution.run_id) == RUN
    [sent] = await server.data_converter.decode(request.query.query_args.payloads)
    assert sent == {"after": 2, "upto": 9, "offset": 4}


async def test_a_setting_that_is_null_stays_null_on_the_way() -> None:
    page = ConversationPage(items=[], ask=ask(model={"temperature": None}))
    assert await QueryServer(page.to_json()).page() == page


@pytest.mark.parametrize(
    "error",
    [
        FULL,
        RPCError("query buffer", RPCStatusCode.FAILED_PRECONDITION, b""),
        RPCError("no connection", RPCStatusCode.UNAVAILABLE, b""),
        RPCError("too slow", RPCStatusCode.DEADLINE_EXCEEDED, b""),
        RPCError(AHEAD_MESSAGE, RPCStatusCode.INVALID_ARGUMENT, b""),
    ],
)
async def test_what_passes_is_tried_again(error: RPCError) -> None:
    server = QueryServer(error, error, {"items": []})
    assert await server.page() == ConversationPage(items=[])
    assert len(server.asked) == 3


async def test_it_is_not_tried_for_ever() -> None:
    server = QueryServer(FULL)
    with pytest.raises(RunUnresponsive, match="buffer is full"):
        await server.page()
    assert len(server.asked) == len(TRIES_SECONDS)
    assert TRIES_SECONDS[0][1] == 0
    assert list(TRIES_SECONDS) == sorted(TRIES_SECONDS)


OVER = QueryRejected(status=WORKFLOW_EXECUTION_STATUS_COMPLETED)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (RPCError("sql: no rows", RPCStatusCode.NOT_FOUND, b""), RunNotOpen),
        (QueryWorkflowResponse(query_rejected=OVER), RunNotOpen),
        (RPCError("handler raised", RPCStatusCode.INVALID_ARGUMENT, b""), RunUnresponsive),
        (RPCError("no", RPCStatusCode.PERMISSION_DENIED, b""), RunUnresponsive),
        ({"pages": []}, RunUnresponsive),
        (None, RunUnresponsive),
        (QueryWorkflowResponse(), RunUnresponsive),
    ],
)
async def test_an_ended_run_or_one_without_the_query_is_queried_once(
    answer: Any, error: type[Exception]
) -> None:
    server = QueryServer(answer)
    with pytest.raises(error):
        await server.page()
    assert len(server.asked) == 1
