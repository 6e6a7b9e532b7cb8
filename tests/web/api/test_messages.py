"""A message of a program (§11), by what its run makes of it: an answer, none yet, or none ever."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import Request
from temporalio.client import Client

from holdfast.client.errors import RejectedError
from holdfast.client.holdfast_client import HoldfastClient
from holdfast.schemas import names
from holdfast.schemas.names import ErrorCode
from holdfast.web.api.api_request import ApiRequest
from holdfast.web.api.models import NewMessage
from holdfast.web.api.runs import say
from holdfast.web.auth.sessions import Person
from holdfast.web.http.problems import HttpProblem, problem_of
from holdfast.web.services import Services

MESSAGE = NewMessage(content="Hurry.")


class AnsweringRun:
    """A run that answers a message so."""

    id = "r"

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.told: list[Any] = []

    async def describe(self) -> SimpleNamespace:
        return SimpleNamespace(workflow_type=names.AGENT_WORKFLOW)

    async def send(self, message: Any, wait_seconds: float) -> Any:
        assert (message, wait_seconds) == (MESSAGE, 20)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def post(self, message: Any) -> None:
        self.told.append(message)


def asked(parts: Services, prefer: bytes) -> ApiRequest:
    async def receive() -> Any:
        return {"type": "http.request", "body": json.dumps({"content": "Hurry."}).encode()}

    head = [(b"content-type", b"application/json"), (b"prefer", prefer)]
    scope = {"type": "http", "headers": head, "state": {"person": Person("ann")}}
    return ApiRequest(Request(scope, receive), parts, "r")


def refusal(kind: str) -> RejectedError:
    return RejectedError("r", kind, "so it is")


async def answered(
    answer: Any, nowhere: Client, monkeypatch: pytest.MonkeyPatch, prefer: bytes = b"wait=20"
) -> tuple[int, Any, list[Any]]:
    """What is answered, and what the run received besides."""
    run = AnsweringRun(answer)
    monkeypatch.setattr(HoldfastClient, "run", lambda self, run_id: run)
    response = await say(asked(Services(HoldfastClient(nowhere)), prefer))
    return response.status_code, json.loads(bytes(response.body)), run.told


@pytest.mark.parametrize(
    ("answer", "status", "body", "told"),
    [
        ("Yes.", 200, {"run": "r", "answer": "Yes."}, False),
        (None, 200, {"run": "r", "answer": None}, False),
        (TimeoutError(), 202, {"run": "r"}, False),
        (refusal(names.CONTINUED), 202, {"run": "r"}, False),
        (refusal(names.NOT_A_CONVERSATION), 202, {"run": "r"}, True),
    ],
    ids=["answered", "with nothing", "not yet", "went on as new", "no conversation"],
)
async def test_a_run_has_a_message_once_whether_or_not_it_is_answered(
    nowhere: Client,
    monkeypatch: pytest.MonkeyPatch,
    answer: Any,
    status: int,
    body: Any,
    told: bool,
) -> None:
    posted = [MESSAGE] if told else []
    assert await answered(answer, nowhere, monkeypatch) == (status, body, posted)


async def test_who_does_not_wait_is_not_kept_waiting(
    nowhere: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await answered(AssertionError("no one waits"), nowhere, monkeypatch, b"wait=0")
    assert found == (202, {"run": "r"}, [MESSAGE])


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (names.INVALID_REQUEST, "invalid_request"),
        (ErrorCode.CANCELLED, "no_answer"),
        (names.BUDGET_EXCEEDED, "no_answer"),
        (names.WITHDRAWN, "no_answer"),
        ("of another version", "refused"),
    ],
)
async def test_a_message_without_an_answer_is_reported_as_such(
    nowhere: Client, monkeypatch: pytest.MonkeyPatch, kind: str, code: str
) -> None:
    with pytest.raises((HttpProblem, RejectedError)) as raised:
        await answered(refusal(kind), nowhere, monkeypatch)
    problem = problem_of(raised.value)
    assert problem.code == code
    assert "so it is" in problem.detail
