"""The activity `generate`: one request to a model.

Its input is a pointer into the run's log, its result what the model said. In between it reads the
conversation from the run, asks the model through a provider, and shows in its heartbeat what is
being said. All that is kept between two requests can be lost at any time.
"""

from datetime import timedelta
from typing import Any

import httpx
from temporalio import activity
from temporalio.exceptions import ApplicationError

from holdfast.activities.model.chat_telemetry import ChatTelemetry
from holdfast.activities.model.conversation_cache import ConversationCache, RunKey
from holdfast.activities.model.conversation_reader import (
    ConversationChanged,
    ConversationReader,
    PageSource,
    RunNotOpen,
    RunUnresponsive,
    conversation_error,
)
from holdfast.activities.model.page_prefetch import PagePrefetch
from holdfast.activities.model.progress import Progress, RedactingSink, send_heartbeats
from holdfast.activities.model.retry_budget import RetryBudget
from holdfast.catalog.endpoints import ModelEndpoints, ServedEndpoint
from holdfast.providers import model_errors
from holdfast.providers.base import ContextOverflow, Provider, ProviderError, ProviderRequest
from holdfast.providers.context_window import window_of, with_window
from holdfast.runtime.secrets import Secrets
from holdfast.schemas.base import sha256
from holdfast.schemas.internal.model_request import Ask, ConversationPointer
from holdfast.schemas.internal.solution import Solution, Usage
from holdfast.schemas.names import GENERATE
from holdfast.schemas.settings.endpoints import Price

_PRICED_TOKENS = 1_000_000


class GenerateActivity:
    """Asks models for runs: again and again for `longest`, waits for leave to ask left out."""

    def __init__(
        self,
        models: ModelEndpoints,
        pages: PageSource,
        conversations: ConversationCache,
        prefetch: PagePrefetch | None = None,
        longest: timedelta = timedelta.max,
        secrets: Secrets | None = None,
        chats: ChatTelemetry | None = None,
    ) -> None:
        self._models = models
        self._chats = chats
        self._secrets = secrets or Secrets()
        self._longest = longest
        self._reader = ConversationReader(pages, conversations, prefetch)

    @activity.defn(name=GENERATE)
    async def generate(self, pointer: dict[str, Any]) -> dict[str, Any]:
        """Ask the model of the run that this activity belongs to.

        Args:
            pointer: a `ConversationPointer` as JSON.

        Returns:
            A `Solution` as JSON, without what is at its default.

        Raises:
            ApplicationError: of type `model_error`; retried or not, as `failures` decides.
        """
        info = activity.info()
        patience = RetryBudget(info, self._longest)
        progress = Progress(info.attempt, patience.waited_seconds, patience.doubtful_attempts)
        async with send_heartbeats(progress, info.heartbeat_timeout):
            try:
                asked = ConversationPointer.read(pointer)
                progress.about = asked.about()
                request = await self._request(asked)
                solution = await self._solve(request, asked, progress)
            except ApplicationError as error:
                raise patience.limit_retries(error) from None
        return solution.to_json()

    async def _request(self, pointer: ConversationPointer) -> ProviderRequest:
        info = activity.info()
        run = RunKey(info.workflow_id or "", info.workflow_run_id or "")
        try:
            fragments, ask = await self._reader.read(run, pointer, self._provider)
        except (RunNotOpen, RunUnresponsive, ConversationChanged) as error:
            raise conversation_error(error) from None
        # Not the id itself: people write what they like into it, and it would go to the provider.
        return ProviderRequest(ask, fragments, cache_key=sha256(run.workflow_id.encode()))

    async def _solve(
        self, request: ProviderRequest, pointer: ConversationPointer, progress: Progress
    ) -> Solution:
        served = self._served(request.ask)
        progress.composed = request.ask.calling == "composed"
        try:
            solution = await self._answer(served, request, pointer, progress)
        except ContextOverflow as error:
            said = model_errors.overflow_message(error, served.target)
            return Solution(too_long=True, window=error.window, notices=[said])
        except (ProviderError, httpx.HTTPError) as error:
            progress.doubtful_attempts += model_errors.is_doubtful(error)
            name, doubtful = request.ask.model.name, progress.doubtful_attempts
            raise model_errors.provider_error(error, served.target, name, doubtful) from None
        return with_window(solution, window_of(served.target.endpoint, request.ask.model))

    async def _answer(
        self,
        served: ServedEndpoint,
        request: ProviderRequest,
        pointer: ConversationPointer,
        progress: Progress,
    ) -> Solution:
        """What the model says, and its price."""
        sink, price = RedactingSink(progress, self._secrets), served.target.endpoint.price
        if self._chats is None:
            return with_cost(await served.provider.solve(request, sink), price)
        attempt = activity.info().attempt
        with self._chats.record_request(request.ask, served.target, pointer, attempt) as chat:
            solution = await served.provider.solve(request, chat.observe(sink))
            return chat.record_answer(with_cost(solution, price))

    def _provider(self, ask: Ask) -> Provider:
        return self._served(ask).provider

    def _served(self, ask: Ask) -> ServedEndpoint:
        return self._models.find(ask.model.endpoint)


def with_cost(solution: Solution, price: Price | None) -> Solution:
    """The solution with what it cost, where its tokens and their price are known."""
    usage = solution.usage
    cost = token_cost(usage, price) if price is not None else None
    if cost is None:
        return solution
    return solution.model_copy(update={"usage": usage.model_copy(update={"cost": cost})})


def token_cost(usage: Usage, price: Price) -> float | None:
    """What the tokens cost, in the currency of `price`; None where they are not known.

    Cached tokens are some of the input tokens, and so are those that are written to the cache.
    """
    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    cached = min(usage.cached_tokens or 0, usage.input_tokens)
    written = min(usage.written_tokens or 0, usage.input_tokens - cached)
    cached_price = price.input if price.cached is None else price.cached
    written_price = price.input if price.cache_write is None else price.cache_write
    cost = (usage.input_tokens - cached - written) * price.input
    cost += cached * cached_price + written * written_price + usage.output_tokens * price.output
    return round(cost / _PRICED_TOKENS, 10)
