"""Whatever a model's server answers, or does not: a request is made again, or fails, or is read.

Every row of the table, over real connections, in each format that a server can use.
"""

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from typing import Any

import httpx
import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from holdfast.activities.generate import GenerateActivity
from holdfast.activities.model.conversation_cache import ConversationCache, PagePrefetch
from holdfast.activities.model.progress import DOUBTFUL_ATTEMPTS
from holdfast.catalog.endpoints import ModelEndpoints, ServedEndpoint, http_client
from holdfast.providers.model_errors import MAX_DOUBTFUL_ATTEMPTS
from holdfast.providers.transport import http as conversation
from holdfast.providers.transport.http import HttpProvider
from holdfast.providers.transport.target import EndpointTarget
from holdfast.schemas.names import MODEL_ERROR
from holdfast.schemas.settings.endpoints import Endpoint
from tests.activities.model.logged_run import RUN, LoggedRun
from tests.faults.harness.responses import Again, Final, Polite, Read, Row, send_all, whole
from tests.faults.harness.rude_responses import FOREIGN, MANY_BYTES, REFUSALS, rows_for
from tests.providers.fakes import KEY, ask, chat_message, serving
from tests.providers.wire.wires import WIRES

TEXT = "Guten Tag"
# Less than the endpoint's own patience.
SOON_SECONDS = 120
POLITE = {
    kind: Polite(kind, wire.answer("Guten Tag"), wire.breaks_off("Gut"))
    for kind, wire in WIRES.items()
}
SPOKEN = {kind: wire.format for kind, wire in WIRES.items()}
# A refusal is read before its format matters: one format does.
EACH = [
    (polite, row)
    for kind, polite in POLITE.items()
    for row in rows_for(kind)
    if kind == "openai" or row not in REFUSALS
]
DOUBTFUL = [
    each for each in EACH if isinstance(each[1].demands, Again) and each[1].demands.doubtful
]


def named(value: Polite | Row) -> str:
    """A row of the table, by the format and the name."""
    return value.kind if isinstance(value, Polite) else value.name


@pytest.fixture(scope="module")
async def http() -> AsyncIterator[httpx.AsyncClient]:
    """The client of a worker."""
    async with http_client() as client:
        yield client


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The words of a refusal are not waited for as long, nor as much read, as by a worker."""
    monkeypatch.setattr(conversation, "MAX_ERROR_SECONDS", 0.2)
    monkeypatch.setattr(conversation, "MAX_ANSWER_BYTES", 2 * MANY_BYTES)


class CountedGenerate:
    """The activity that asks a model, and how often it was asked."""

    def __init__(self, http: httpx.AsyncClient, polite: Polite, timeout: str = "20s") -> None:
        self._http = http
        self._polite = polite
        self._timeout = timeout
        self.requests = 0

    async def answered(self, row: Row, doubtful: int = 0) -> dict[str, Any] | ApplicationError:
        """What the activity makes of a row, when so many attempts before were doubtful."""
        async with serving(partial(self._send, row)) as url:
            run = LoggedRun(ask())
            run.append(chat_message("user", "Hi"))
            activity = GenerateActivity(
                self._models(url), run.page, PagePrefetch(ConversationCache())
            )
            environment = _environment(doubtful)
            try:
                async with asyncio.timeout(SOON_SECONDS):
                    return await environment.run(activity.generate, run.pointer().to_json())
            except ApplicationError as error:
                return error

    async def _send(self, row: Row, reader: Any, writer: Any) -> None:
        self.requests += 1
        await send_all(row.speak(self._polite), reader, writer)

    def _models(self, url: str) -> ModelEndpoints:
        kind = self._polite.kind
        settings = {"provider": kind, "baseUrl": url, "timeout": self._timeout}
        endpoint = Endpoint.model_validate({**settings, "apiKeyEnv": "TEST_KEY"})
        target = EndpointTarget("openai", endpoint, {"TEST_KEY": KEY})
        provider = HttpProvider(SPOKEN[kind], target, self._http)
        return ModelEndpoints({"openai": ServedEndpoint(target, provider)})


def _environment(doubtful: int) -> ActivityEnvironment:
    environment = ActivityEnvironment()
    environment.info = dataclasses.replace(
        environment.info,
        workflow_id=RUN.workflow_id,
        workflow_run_id=RUN.run_id,
        heartbeat_timeout=timedelta(seconds=60),
        heartbeat_details=[{DOUBTFUL_ATTEMPTS: doubtful}],
        attempt=7,  # However many were refused before: those are not doubtful.
    )
    return environment


def check(demands: Again | Final | Read, answered: dict[str, Any] | ApplicationError) -> None:
    """The demand of a row is met."""
    match demands, answered:
        case Read(), dict():
            check_read(demands, answered)
        case Again(), ApplicationError(non_retryable=False):
            check_error(demands.told, answered)
            check_delay(demands, answered.next_retry_delay)
        case Final(), ApplicationError(non_retryable=True):
            check_error(demands.told, answered)
        case _:
            pytest.fail(f"wanted {demands}, got {answered!r}")


def check_read(demands: Read, solution: dict[str, Any]) -> None:
    """An answer was read: the good one, or as much of one as there is room for."""
    if demands.cut:
        assert solution["stopReason"] == "length"
        assert solution["notices"]
    else:
        assert solution["text"].endswith(TEXT)
        assert demands.more or solution["text"] == TEXT


def check_error(told: str, error: ApplicationError) -> None:
    """An error states what happened, whose it is, and no secret; nothing lies under it."""
    assert told in error.message
    assert error.type == MODEL_ERROR
    assert error.message.startswith("endpoint `openai` (http://127.0.0.1:")
    assert KEY not in str(error)
    assert error.__cause__ is None
    assert len(error.message) < 2_500


def check_delay(demands: Again, delay: timedelta | None) -> None:
    """The request is made again when the server requests it, after its delay."""
    if demands.after_seconds is None:
        assert delay is None
    else:
        least, most = demands.after_seconds
        assert delay is not None
        assert least <= delay.total_seconds() <= most


@pytest.mark.parametrize(("polite", "row"), EACH, ids=named)
async def test_each_row(http: httpx.AsyncClient, polite: Polite, row: Row) -> None:
    asking = CountedGenerate(http, polite, "300ms" if row.silent else "20s")
    check(row.demands, await asking.answered(row))
    assert asking.requests == 1


@pytest.mark.parametrize(("polite", "row"), [DOUBTFUL[0], DOUBTFUL[-1]], ids=named)
async def test_what_is_no_answer_a_third_time_is_final(
    http: httpx.AsyncClient, polite: Polite, row: Row
) -> None:
    assert isinstance(row.demands, Again)
    asking = CountedGenerate(http, polite)
    check(row.demands, await asking.answered(row, MAX_DOUBTFUL_ATTEMPTS - 2))
    told = row.demands.told
    check(Final(told), await asking.answered(row, MAX_DOUBTFUL_ATTEMPTS - 1))


@pytest.mark.parametrize("kind", FOREIGN)
async def test_what_is_foreign_to_others_is_an_answer_at_home(
    http: httpx.AsyncClient, kind: str
) -> None:
    row = Row("at home", lambda _: iter((whole("200 OK", FOREIGN[kind]),)), Read())
    solution = await CountedGenerate(http, POLITE[kind]).answered(row)
    assert isinstance(solution, dict)
    assert solution["text"] == "Hello"
