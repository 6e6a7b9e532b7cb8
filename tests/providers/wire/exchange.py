"""An exchange: a provider, and a server that sends one reply after the other."""

from typing import Any

import httpx
import pytest
from temporalio.exceptions import ApplicationError

from holdfast.providers import model_errors
from holdfast.providers.base import ProviderError, ProviderRequest, tool_names
from holdfast.providers.transport.http import HttpProvider
from holdfast.schemas.internal.solution import Solution
from holdfast.schemas.message import ChatMessage
from tests.providers.fakes import ReceivedText, ask, chat_message, fragments_of, target
from tests.providers.wire.base import Wire


class Exchange:
    """A provider whose server answers with one reply after the other."""

    def __init__(self, wire: Wire, *replies: httpx.Response, **endpoint: Any) -> None:
        self._wire = wire
        self._replies = iter(replies)
        self.received = ReceivedText()
        self.requests: list[httpx.Request] = []
        self.bodies: list[dict[str, Any]] = []
        kind = wire.format.kind
        self.target = target(**{"provider": kind, "baseUrl": wire.base_url, **endpoint})
        http = httpx.AsyncClient(transport=httpx.MockTransport(self._answer))
        self._provider = HttpProvider(wire.format, self.target, http)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        self.bodies.append(self._wire.understands(request))
        return next(self._replies)

    async def solve(self, *messages: ChatMessage, **asked: Any) -> Solution:
        wanted = ask(**asked)
        conversation = messages or (chat_message("user", "Hi"),)
        names = tool_names(wanted.tools)
        sent = fragments_of(self._provider, *conversation, names=names)
        return await self._provider.solve(ProviderRequest(wanted, sent, "run"), self.received)

    async def failure(self, *messages: ChatMessage, **asked: Any) -> ApplicationError:
        try:
            solution = await self.solve(*messages, **asked)
        except (ProviderError, httpx.HTTPError) as error:
            return model_errors.provider_error(error, self.target, "gpt-test", 1)
        pytest.fail(f"it went well: {solution}")


def good(body: bytes) -> httpx.Response:
    return httpx.Response(200, content=body)


def refusal(wire: Wire, status: int, message: str, **headers: str) -> httpx.Response:
    return httpx.Response(status, content=wire.refuses(status, message), headers=headers)


async def sent_twice(
    wire: Wire, name: str, refusal_text: str, **model: Any
) -> tuple[list[dict[str, Any]], list[str]]:
    """The bodies of two requests, to a server that refuses the first one so; and the notices."""
    replies = [refusal(wire, 400, refusal_text), *(good(wire.answer("Hi")) for _ in range(2))]
    exchange = Exchange(wire, *replies)
    solutions = [await exchange.solve(model={"name": name, **model}) for _ in range(2)]
    return exchange.bodies, [notice for each in solutions for notice in each.notices]
