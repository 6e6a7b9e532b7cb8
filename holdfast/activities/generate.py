"""The activity `generate`: one request to a model.

Its input is a pointer into the run's log, its result the model's answer. It reads the conversation
from the run, sends it to the model through a provider, and shows the answer in its heartbeat while
it is streamed. Everything cached between two requests can be dropped at any time.
"""

import math
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import httpx
from temporalio import activity
from temporalio.exceptions import ApplicationError

from holdfast.activities.budget_account import BudgetError
from holdfast.activities.model import conversation_reader
from holdfast.activities.model.chat_telemetry import record_chat
from holdfast.activities.model.conversation_cache import PagePrefetch, RunKey
from holdfast.activities.model.progress import Progress, RetryBudget, send_heartbeats
from holdfast.activities.model.shared_pages import SharedPages
from holdfast.activities.shared_budgets import Reserved, SharedBudgets
from holdfast.catalog.endpoints import ModelEndpoints
from holdfast.catalog.prices import PriceAt, list_version, price_of
from holdfast.providers import base, model_errors
from holdfast.providers.context_window import window_of, with_window
from holdfast.providers.model_errors import model_error
from holdfast.runtime.secrets import Secrets
from holdfast.runtime.storage.run_files import RunFiles
from holdfast.runtime.telemetry.telemetry import Telemetry
from holdfast.schemas.base import json_size, sha256
from holdfast.schemas.internal.model_request import ConversationPointer
from holdfast.schemas.internal.shared_budgets import Reservation, key_of
from holdfast.schemas.internal.solution import (
    NO_USAGE,
    OverBudget,
    Solution,
    Usage,
    decimal,
    round_amount,
)
from holdfast.schemas.names import GENERATE
from holdfast.schemas.settings.endpoints import Price

_PRICED_TOKENS = 1_000_000
# Of a reservation: fewer bytes than the tokens of any text have on average.
_BYTES_PER_TOKEN = 3
_DEFAULT_OUTPUT_TOKENS = 4_096
MAX_EARLIER = 20
MAX_MODELS_WITHOUT_TOOLS = 1_000


class GenerateActivity:
    """Sends requests of runs to models.

    A request is retried for `longest`, not counting the time in which it waits for its turn. Those
    that other processes make are in `shared` pages. `answers` has the newest running request of
    each run. Large `files` of messages are in the store.
    """

    def __init__(
        self,
        models: ModelEndpoints,
        query_page: conversation_reader.QueryPage,
        prefetch: PagePrefetch,
        longest: timedelta = timedelta.max,
        secrets: Secrets | None = None,
        telemetry: Telemetry | None = None,
        answers: dict[str, Progress] | None = None,
        budgets: SharedBudgets | None = None,
        files: RunFiles | None = None,
        shared: SharedPages | None = None,
    ) -> None:
        self._models = models
        self._telemetry = telemetry
        self._secrets = secrets or Secrets()
        self._longest = longest
        self._answers = {} if answers is None else answers
        self._budgets = budgets
        self._running = prefetch.conversations.running
        self._reader = conversation_reader.ConversationReader(query_page, prefetch, shared, files)
        # The models that take no tools, by endpoint and name.
        self._without_tools: dict[tuple[str, str], None] = {}

    @activity.defn(name=GENERATE)
    async def generate(self, pointer: dict[str, Any]) -> dict[str, Any]:
        """Send the request of a `ConversationPointer` to the model, and return its `Solution`.

        Raises:
            ApplicationError: of type `model_error`; retried or not, as `model_errors` decides.
        """
        info = activity.info()
        retry_budget = RetryBudget(info, self._longest)
        progress = Progress(
            f"{info.activity_id}/{info.attempt}",
            info.attempt,
            retry_budget.waited_seconds,
            retry_budget.doubtful_attempts,
            retry_budget.failed_usage,
            self._secrets,
        )
        beats = send_heartbeats(progress, info.heartbeat_timeout)
        async with beats, self._running.share() as take:
            run = RunKey(info.workflow_id or "", info.workflow_run_id or "")
            self._answers[run.workflow_id] = progress
            try:
                wanted = ConversationPointer.read(pointer)
                progress.about = wanted.about()
                read = await self._reader.read(
                    run, wanted, lambda ask: self._models.find(ask.model.endpoint).provider, take
                )
                retry_budget.shorten(read.ask.model.retry_for)
                # Not the id itself: it may hold personal data, and the provider receives this.
                key = sha256(run.workflow_id.encode())
                request = replace(read, cache_key=key)
                solution = await self._solve(request, wanted, progress)
            except (
                conversation_reader.RunNotOpen,
                conversation_reader.ConversationChanged,
            ) as error:
                raise model_error(str(error)) from None
            except conversation_reader.RunUnresponsive as error:
                message = f"the query for the run's conversation failed: {error}"
                retried = model_error(message, retried=True)
                raise retry_budget.limit_retries(retried, progress.failed_usage) from None
            except ApplicationError as error:
                raise retry_budget.limit_retries(error, progress.failed_usage) from None
            finally:
                progress.end()
                if self._answers.get(run.workflow_id) is progress:
                    del self._answers[run.workflow_id]
        return solution.to_json()

    async def _solve(
        self, request: base.ProviderRequest, pointer: ConversationPointer, progress: Progress
    ) -> Solution:
        served = self._models.find(request.ask.model.endpoint)
        target, model = served.target, request.ask.model
        progress.composed = request.ask.calling == "composed"
        is_known = (model.endpoint, model.name) in self._without_tools
        failed = progress.failed_usage
        if request.ask.tools and is_known:
            return Solution(no_tools=True, failed_usage=failed)
        attempt, price_at = activity.info().attempt, partial(price_of, target.endpoint, model)
        reserved = await self._reserve(request, price_at)
        if isinstance(reserved, list):
            return Solution(over_budget=reserved, failed_usage=failed)
        try:
            with record_chat(self._telemetry, request.ask, target, pointer, attempt) as chat:
                answer = await served.provider.solve(request, progress)
                usage = with_cost(answer.usage, price_at)
                is_last = request.ask.calling == "native" and not answer.calls
                notices = [*answer.notices, *reserved.settle(usage, is_last=is_last)]
                version = None if usage.cost is None else list_version(target.endpoint)
                found = {"usage": usage, "notices": notices, "genai_prices": version}
                solution = answer.model_copy(update=found)
                if chat is not None:
                    chat.record_answer(solution, progress.first_output_at)
        except base.ContextOverflow as error:
            reserved.settle(NO_USAGE)
            notice = model_errors.rejection_message(error, target, model.name)
            return Solution(
                too_long=True, window=error.window, notices=[notice], failed_usage=failed
            )
        except (base.ProviderError, httpx.HTTPError) as error:
            reserved.settle(with_cost(model_errors.used_by(error), price_at))
            if isinstance(error, base.ToolsUnsupported):
                self._without_tools[model.endpoint, model.name] = None
                if len(self._without_tools) > MAX_MODELS_WITHOUT_TOOLS:
                    del self._without_tools[next(iter(self._without_tools))]
                notice = model_errors.rejection_message(error, target, model.name)
                return Solution(no_tools=True, notices=[notice], failed_usage=failed)
            progress.withdraw()
            if isinstance(error, base.FailedAnswer):
                cost = with_cost(error.usage, price_at)
                before = progress.failed_usage
                progress.failed_usage = cost if before is None else before.plus(cost)
            progress.doubtful_attempts += model_errors.is_doubtful(error)
            doubtful = progress.doubtful_attempts
            raise model_errors.provider_error(error, target, model.name, doubtful) from None
        if progress.failed_usage is not None:
            whole = solution.usage.plus(progress.failed_usage)
            solution = solution.model_copy(update={"usage": whole})
        return with_window(solution, window_of(target.endpoint, model))

    async def _reserve(
        self, request: base.ProviderRequest, price_at: PriceAt
    ) -> Reserved | list[OverBudget]:
        """Reserve what the request may use; return the shared budgets that it does not fit into."""
        if self._budgets is None or self._budgets.is_empty:  # to measure a request takes long
            return Reserved()
        info, model = activity.info(), request.ask.model
        bytes_sent = sum(map(len, request.fragments)) + json_size(request.ask.to_json())
        used = Usage(
            input_tokens=math.ceil(bytes_sent / _BYTES_PER_TOKEN),
            output_tokens=model.max_output_tokens or _DEFAULT_OUTPUT_TOKENS,
        )
        price = price_at(used.input_tokens or 0)
        run = f"{info.workflow_id}/{info.workflow_run_id}"
        keys = [key_of(f"{run}/{info.activity_id}/{n}") for n in range(1, info.attempt + 1)]
        attempt = Reservation(
            key=keys.pop(),
            earlier=keys[-MAX_EARLIER:],
            run=key_of(info.workflow_id or ""),
            tokens=(used.input_tokens or 0) + (used.output_tokens or 0),
            cost=token_cost(used, price) or 0.0,
        )
        try:
            return await self._budgets.reserve(request.ask.budget_scopes, attempt, price)
        except BudgetError as error:
            raise model_error(str(error), retried=not error.is_final) from None


def with_cost(usage: Usage, price_at: PriceAt) -> Usage:
    price = price_at(usage.input_tokens or 0)
    cost = token_cost(usage, price)
    return usage.model_copy(update={"cost": cost, "currency": price and price.currency})


def token_cost(usage: Usage, price: Price | None) -> float | None:
    """Return the cost of the tokens, in the currency of `price`; None if either is unknown.

    Cached tokens are part of the input tokens, and so are those that are written to the cache.
    """
    if price is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    cached = min(usage.cached_tokens or 0, usage.input_tokens)
    written = min(usage.written_tokens or 0, usage.input_tokens - cached)
    cached_price = price.input if price.cached is None else price.cached
    written_price = price.input if price.cache_write is None else price.cache_write
    cost = (usage.input_tokens - cached - written) * decimal(price.input)
    cost += cached * decimal(cached_price) + written * decimal(written_price)
    cost += usage.output_tokens * decimal(price.output)
    return round_amount(cost / _PRICED_TOKENS)
