"""The activity, from pointer to solution: what it asks, shows, costs, and how it fails."""

import asyncio
import dataclasses
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import genai_prices
import httpx
import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from holdfast.activities.generate import GenerateActivity, token_cost
from holdfast.activities.model.conversation_cache import (
    MAX_RUNNING_BYTES,
    ConversationCache,
    PagePrefetch,
)
from holdfast.activities.model.conversation_reader import (
    ConversationChanged,
    RunNotOpen,
    RunUnresponsive,
)
from holdfast.activities.shared_budgets import Reserved, SharedBudgets
from holdfast.catalog.endpoints import ModelEndpoints, ServedEndpoint
from holdfast.providers.base import AnswerSink, EncodedMessage, Provider, ProviderRequest, ToolNames
from holdfast.providers.openai.format import OpenAIFormat
from holdfast.providers.transport.http import HttpProvider
from holdfast.schemas.internal.shared_budgets import Reservation
from holdfast.schemas.internal.solution import OverBudget, Solution, Usage
from holdfast.schemas.message import ChatMessage
from holdfast.schemas.settings.endpoints import Price
from tests.activities.model.logged_run import RUN, LoggedRun
from tests.providers.fakes import (
    KEY,
    TOOLS,
    Handler,
    answering,
    ask,
    chat_message,
    chunk,
    stream,
    target,
)
from tests.providers.test_parameter_fallback import refusing
from tests.support.eventually import eventually

USAGE = {"prompt_tokens": 1_000, "completion_tokens": 100, "total_tokens": 1_100}
HELLO = stream([chunk({"content": "Hello"}), chunk(finish="stop"), chunk(usage=USAGE)])


class Setting:
    """A worker with one endpoint, a run, and the heartbeats of the activity."""

    def __init__(
        self,
        provider: Provider | None = None,
        handler: Handler | None = None,
        longest: timedelta = timedelta.max,
        beat: timedelta = timedelta(seconds=60),
        budgets: SharedBudgets | None = None,
        **endpoint: Any,
    ) -> None:
        at = target(**endpoint)
        transport = httpx.MockTransport(handler or answering(HELLO)[0])
        openai = HttpProvider(OpenAIFormat(), at, httpx.AsyncClient(transport=transport))
        self.run = LoggedRun(ask(tools=TOOLS))
        self.run.append(chat_message("user", "Hi"))
        cache = ConversationCache()
        self.shared = cache.running
        models = ModelEndpoints({"openai": ServedEndpoint(at, provider or openai)})
        self.activity = GenerateActivity(
            models,
            self.run.page,
            PagePrefetch(cache),
            longest=longest,
            budgets=budgets,
        )
        self.heartbeats: list[dict[str, Any]] = []
        self.environment = ActivityEnvironment()
        self.environment.on_heartbeat = self.heartbeats.append
        self.environment.info = dataclasses.replace(
            self.environment.info,
            workflow_id=RUN.workflow_id,
            workflow_run_id=RUN.run_id,
            heartbeat_timeout=beat,
            attempt=2,
        )

    async def generate(self) -> dict[str, Any]:
        pointer = self.run.pointer().to_json()
        return await self.environment.run(self.activity.generate, pointer)

    async def failure(self) -> ApplicationError:
        with pytest.raises(ApplicationError) as error:
            await self.generate()
        assert error.value.__cause__ is None
        assert KEY not in str(error.value)
        return error.value


class Speaker:
    kind = "openai"
    carries: tuple[str, ...] = ()

    def __init__(self, *pieces: str) -> None:
        self.pieces = pieces
        self.said = asyncio.Event()
        self.go_on = asyncio.Event()

    def encode(self, message: ChatMessage, names: ToolNames) -> EncodedMessage:
        return EncodedMessage((str(message.content).encode(),))

    async def solve(self, request: ProviderRequest, sink: AnswerSink) -> Solution:
        for piece in self.pieces:
            sink.text(piece)
        sink.call(0, "refund", '{"n": ')
        self.said.set()
        await self.go_on.wait()
        return Solution(text="".join(self.pieces))


async def test_a_pointer_becomes_a_solution_and_nothing_at_its_default_is_recorded() -> None:
    handler, asked = answering(HELLO)
    solution = await Setting(handler=handler).generate()
    assert solution == {
        "text": "Hello",
        "usage": {"inputTokens": 1_000, "outputTokens": 100},
        "model": "gpt-test-2026",
    }
    assert [message["content"] for message in asked[0]["messages"]] == ["Be brief.", "Hi"]
    assert asked[0]["model"] == "gpt-test"


async def test_a_request_holds_the_bytes_of_its_conversation_until_it_ends() -> None:
    speaker = Speaker("Hello")
    setting = Setting(speaker)

    async def is_read() -> bool:
        return bool(setting.run.wanted)

    async def rest() -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    async with setting.shared.share() as take:
        await take(MAX_RUNNING_BYTES)
        running = asyncio.ensure_future(setting.generate())
        await eventually(is_read)
        await rest()
        assert not speaker.said.is_set()
    await speaker.said.wait()
    async with setting.shared.share() as take:
        other = asyncio.ensure_future(take(MAX_RUNNING_BYTES))
        await rest()
        assert not other.done()
        speaker.go_on.set()
        await running
        await other


async def test_its_heartbeat_shows_the_text() -> None:
    speaker = Speaker("Guten ", "Tag")
    setting = Setting(speaker, beat=timedelta(seconds=0.06))
    running = asyncio.ensure_future(setting.generate())

    async def shown() -> dict[str, Any] | None:
        return next((beat for beat in setting.heartbeats if beat["calls"]), None)

    beat = await eventually(shown)
    speaker.go_on.set()
    await running
    assert beat == {
        "turn": 1,
        "text": "Guten Tag",
        "offset": 0,
        "calls": [{"tool": "refund", "arguments": '{"n": '}],
        "attempt": 2,
        "composed": False,
        "waitedSeconds": 0.0,
        "doubtfulAttempts": 0,
    }


async def test_cancellation_ends_it() -> None:
    speaker = Speaker("Guten ")
    setting = Setting(speaker)
    running = asyncio.ensure_future(setting.generate())
    await speaker.said.wait()
    setting.environment.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    beats = len(setting.heartbeats)
    await asyncio.sleep(0)
    assert len(setting.heartbeats) == beats


def at_an_attempt(setting: Setting, beat: Any, **info: Any) -> None:
    """Have an attempt before left this heartbeat."""
    setting.environment.info = dataclasses.replace(
        setting.environment.info, heartbeat_details=[beat], **info
    )


@pytest.mark.parametrize(
    ("asked", "waited", "retry_after", "final"),
    [
        (timedelta(minutes=50), timedelta(hours=9), 60, False),
        (timedelta(minutes=50), timedelta(hours=9), 1_200, True),
        (timedelta(minutes=61), timedelta(hours=9), 0, True),
        (timedelta(minutes=61), timedelta(), 0, True),
    ],
)
async def test_a_request_is_tried_for_an_hour_without_the_wait_for_its_turn(
    asked: timedelta, waited: timedelta, retry_after: int, final: bool
) -> None:
    def handler(_: httpx.Request) -> httpx.Response:
        return httpx.Response(429, headers={"retry-after": str(retry_after)})

    setting = Setting(handler=handler, longest=timedelta(hours=1))
    # Half of the wait was for the turns of earlier attempts, half for this one's.
    scheduled = datetime(2026, 5, 4, tzinfo=UTC)
    at_an_attempt(
        setting,
        {"waitedSeconds": waited.total_seconds() / 2},
        scheduled_time=scheduled,
        current_attempt_scheduled_time=scheduled + asked + waited / 2,
        started_time=scheduled + asked + waited,
    )
    error = await setting.failure()
    assert error.non_retryable is final
    assert "answered 429" in error.message
    assert setting.heartbeats[0]["waitedSeconds"] == waited.total_seconds()


@pytest.mark.parametrize("beat", [None, {}, {"waitedSeconds": "long"}, {"waitedSeconds": -1e9}])
async def test_a_heartbeat_in_another_form_has_no_wait(beat: Any) -> None:
    setting = Setting(handler=lambda _: httpx.Response(503))
    at_an_attempt(setting, beat)
    await setting.failure()
    assert setting.heartbeats[0]["waitedSeconds"] == 0


@pytest.mark.parametrize(
    ("before", "body", "after", "final"),
    [
        (0, b"<html>", 1, False),
        (1, b"<html>", 2, False),
        (2, b"<html>", 3, True),
        (2, b"", 2, False),
        (-5, b"<html>", 1, False),
        ("many", b"<html>", 1, False),
    ],
)
async def test_of_all_attempts_those_count_that_may_be_in_vain(
    before: Any, body: bytes, after: int, final: bool
) -> None:
    setting = Setting(handler=answering(body)[0])
    at_an_attempt(setting, {"doubtfulAttempts": before})
    error = await setting.failure()
    assert error.non_retryable is final
    assert setting.heartbeats[-1]["doubtfulAttempts"] == after


async def test_an_endpoint_that_this_worker_lacks_is_reported_with_those_it_has() -> None:
    setting = Setting()
    setting.run.ask = ask(model={"endpoint": "nowhere"})
    error = await setting.failure()
    assert error.non_retryable
    assert error.message == "this worker has no endpoint `nowhere`; it has `openai`"


@pytest.mark.parametrize(
    ("error", "final"),
    [
        (RunNotOpen("over"), True),
        (ConversationChanged("no"), True),
        (RunUnresponsive("busy"), False),
    ],
)
async def test_a_run_that_does_not_answer_fails_it(error: Exception, final: bool) -> None:
    setting = Setting()
    setting.run.error = error
    assert (await setting.failure()).non_retryable is final


async def test_the_cost_is_reported_where_there_is_a_price() -> None:
    solution = await Setting(price={"input": 2, "output": 10, "currency": "EUR"}).generate()
    assert (solution["usage"]["cost"], solution["usage"]["currency"]) == (0.003, "EUR")


class Reservations:
    """What shared budgets would reserve, and the prices."""

    is_empty = False

    def __init__(self) -> None:
        self.made: list[tuple[Reservation, Price | None]] = []

    async def reserve(self, scopes: Any, attempt: Reservation, price: Price | None) -> Reserved:
        self.made.append((attempt, price))
        return Reserved()


async def test_the_cost_is_by_genai_prices_where_the_endpoint_has_no_price() -> None:
    """The version of its list is reported, and reservations are by the same price."""
    budgets = Reservations()
    setting = Setting(budgets=cast(SharedBudgets, budgets))
    setting.run.ask = ask(model={"name": "gpt-4o", "maxOutputTokens": 10_000})
    solution = await setting.generate()
    tokens = genai_prices.Usage(input_tokens=1_000, output_tokens=100)
    listed = genai_prices.calc_price(tokens, "gpt-4o", provider_id="openai")
    assert solution["usage"]["cost"] == float(listed.total_price)
    assert solution["genaiPrices"] == genai_prices.__version__
    [(attempt, price)] = budgets.made
    assert price is not None
    estimated = Usage(input_tokens=attempt.tokens - 10_000, output_tokens=10_000)
    assert attempt.cost == token_cost(estimated, price)
    assert price.currency == "USD"


@pytest.mark.parametrize("price", [None, {"input": 2, "output": 10}])
async def test_an_answer_that_the_list_does_not_price_names_no_version(price: Any) -> None:
    solution = await Setting(baseUrl="http://127.0.0.1/v1", price=price).generate()
    assert "genaiPrices" not in solution
    assert ("cost" in solution["usage"]) is (price is not None)


async def test_a_failed_answer_is_withdrawn_and_counted_with_the_next_one() -> None:
    chunks = [chunk({"content": "The total is 4"}), chunk(usage=USAGE), chunk(finish="error")]
    price = {"input": 2, "output": 10}
    failing = Setting(handler=answering(stream(chunks))[0], price=price)
    assert not (await failing.failure()).non_retryable
    beat = failing.heartbeats[-1]
    assert (beat["text"], beat["calls"]) == ("", [])
    setting = Setting(price=price)
    at_an_attempt(setting, beat)
    usage = (await setting.generate())["usage"]
    assert (usage["inputTokens"], usage["outputTokens"], usage["cost"]) == (2_000, 200, 0.006)


@pytest.mark.parametrize(
    ("status", "message", "flag"),
    [
        (400, "bad", None),
        (400, "tiny does not support tools", "noTools"),
        (400, "prompt is too long", "tooLong"),
    ],
)
async def test_a_failed_answer_is_counted_however_its_request_ends(
    status: int, message: str, flag: str | None
) -> None:
    handler, _ = refusing(status, message, "messages")
    setting = Setting(handler=handler)
    spent = {"inputTokens": 1_000, "outputTokens": 100, "cost": 0.003}
    at_an_attempt(setting, {"failedUsage": spent})
    if flag is None:
        [details] = (await setting.failure()).details
        assert details["failedUsage"]["cost"] == 0.003
    else:
        solution = await setting.generate()
        assert (solution[flag], solution["failedUsage"]["cost"]) == (True, 0.003)


async def test_a_failed_answer_is_counted_where_a_budget_refuses_the_next_attempt() -> None:
    class Full(SharedBudgets):
        is_empty = False

        async def reserve(self, *_: Any) -> list[OverBudget]:
            budget = {"name": "all", "scope": "all", "limit": "maxTokens", "used": 9, "most": 9}
            return [OverBudget.read({**budget, "onLimit": "fail"})]

    setting = Setting(budgets=Full.__new__(Full))
    at_an_attempt(setting, {"failedUsage": {"inputTokens": 7, "outputTokens": 1}})
    solution = await setting.generate()
    assert (solution["overBudget"][0]["name"], solution["failedUsage"]["inputTokens"]) == ("all", 7)


CACHED = {"input": 2, "output": 10, "cached": 0.5}
MILLION = 1_000_000


@pytest.mark.parametrize(
    ("price", "tokens", "cost"),
    [
        (CACHED, {"input": MILLION, "output": 0}, 2.0),
        (CACHED, {"input": MILLION, "output": 100_000, "cached": 400_000}, 2.4),
        (CACHED, {"input": 10, "output": 0, "cached": 99}, 0.000005),
        (CACHED, {"input": 10}, None),
        (CACHED, {"output": 10}, None),
        # A cache without a price of its own costs what other input does.
        ({"input": 2, "output": 10}, {"input": MILLION, "output": 0, "cached": 500_000}, 2.0),
        (CACHED, {"input": 2_000, "output": 0, "cached": 1_400, "written": 500}, 0.0019),
        (
            {**CACHED, "cacheWrite": 4},
            {"input": 2_000, "output": 0, "cached": 1_400, "written": 500},
            0.0029,
        ),
        # Decimals, of which nine places are kept.
        ({"input": 0.1, "output": 0.2}, {"input": MILLION, "output": MILLION}, 0.3),
        ({"input": 0.0016, "output": 0}, {"input": 1, "output": 0}, 0.000000002),
        # No more can be written than was sent.
        (
            {"input": 1, "output": 0, "cached": 0, "cacheWrite": 2},
            {"input": 10, "output": 0, "cached": 8, "written": 99},
            0.000004,
        ),
    ],
)
def test_what_is_read_of_a_cache_or_written_to_it_has_its_own_price(
    price: dict[str, Any], tokens: dict[str, int], cost: float | None
) -> None:
    usage = Usage.model_validate({f"{name}_tokens": count for name, count in tokens.items()})
    assert token_cost(usage, Price.model_validate(price)) == cost


async def test_the_window_is_reported_when_the_conversation_takes_half_of_it() -> None:
    assert "window" not in await Setting(contextWindow=2_201).generate()
    assert (await Setting(contextWindow=2_200).generate())["window"] == 2_200


async def test_all_requests_of_a_run_have_one_key_that_does_not_show_its_id() -> None:
    handler, asked = answering(HELLO)
    setting = Setting(handler=handler)
    await setting.generate()
    await setting.generate()
    first, second = (each["prompt_cache_key"] for each in asked)
    assert first == second
    assert RUN.workflow_id not in first


async def test_a_model_without_tools_is_remembered_and_not_asked_with_tools_again() -> None:
    handler, asked = refusing(400, "tiny does not support tools", "tools")
    setting = Setting(handler=handler)
    setting.run.ask = ask(tools=TOOLS)
    first, second = await setting.generate(), await setting.generate()
    assert (first["noTools"], second) == (True, {"noTools": True})
    [notice] = first["notices"]
    assert notice.endswith("answered 400: tiny does not support tools")
    assert len(asked) == 1


async def test_a_model_is_retried_for_no_longer_than_its_setting() -> None:
    setting = Setting(handler=lambda _: httpx.Response(503, headers={"retry-after": "60"}))
    assert not (await setting.failure()).non_retryable
    setting.run.ask = ask(tools=TOOLS, model={"retryFor": "59s"})
    assert (await setting.failure()).non_retryable
