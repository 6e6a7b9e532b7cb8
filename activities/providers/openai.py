"""The provider `openai`: chat completions, of OpenAI or of any server that speaks them."""

import contextlib

import httpx

from activities.providers.answer import Answer
from activities.providers.base import Encoded, Refused, Request, Sink, ToolNames
from activities.providers.openai_answer import Completion
from activities.providers.openai_request import body, encode, ignored_options
from activities.providers.refusal import refusal_of
from activities.providers.sse import EventStream
from activities.providers.target import Target
from schemas.message import ChatMessage
from schemas.solution import Solution

MAX_ANSWER_BYTES = 16 * 1024 * 1024
MAX_ERROR_BYTES = 64 * 1024

_TOO_LARGE = f"the answer was larger than {MAX_ANSWER_BYTES} bytes; the rest was not read"
_NO_TOOLS = "the endpoint has no tools: it was asked without, so no call could be made"
_NO_TEMPERATURE = "the model takes no `temperature`: it was asked without; set it to null"


class OpenAI:
    """Asks one endpoint."""

    kind = "openai"

    def __init__(self, target: Target, http: httpx.AsyncClient) -> None:
        self._target = target
        self._http = http

    def encode(self, message: ChatMessage, names: ToolNames) -> Encoded:
        """The message as chat completions have it."""
        return encode(message, names)

    async def solve(self, request: Request, sink: Sink) -> Solution:
        """Ask the model. What a server says that it cannot take is left out, each thing once.

        Raises:
            ProviderError, httpx.HTTPError: it gave no solution.
        """
        notices = ignored_options(request.ask)
        while True:
            try:
                solution = await self._ask(request, sink)
                break
            except Refused as refused:
                request, notice = _conceded(request, refused)
                notices += notice
        return solution.model_copy(update={"notices": [*notices, *solution.notices]})

    async def _ask(self, request: Request, sink: Sink) -> Solution:
        headers = {
            "content-type": "application/json",
            "accept": "text/event-stream, application/json",
            # Compressed, a stream may wait in a buffer, and its size is anybody's guess.
            "accept-encoding": "identity",
            **self._target.headers(),
        }
        completion = Completion(Answer(sink, request.names))
        async with self._http.stream(
            "POST",
            self._target.url("/chat/completions"),
            content=body(request, self._target.host),
            headers=headers,
            timeout=self._target.timeout,
        ) as response:
            if not response.is_success:
                error = await _read_bytes(response, MAX_ERROR_BYTES)
                raise refusal_of(response.status_code, response.headers, error)
            await _read(response, completion)
        return completion.solution()


async def _read(response: httpx.Response, completion: Completion) -> None:
    """Take the answer in, up to its end or to the most that is read of any."""
    stream = EventStream()
    size_bytes = 0
    try:
        async for chunk in response.aiter_bytes():
            for event in stream.feed(chunk):
                completion.take(event)
            size_bytes += len(chunk)
            if size_bytes > MAX_ANSWER_BYTES and not completion.is_done:
                completion.stop_reading(_TOO_LARGE)
            if completion.is_done:
                return
    except httpx.TransportError:
        # Once the model has said why it stopped, only the usage can be missing.
        if not completion.is_finished:
            raise
    completion.end(stream.rest() or "", stream.stray)


async def _read_bytes(response: httpx.Response, limit_bytes: int) -> bytes:
    read = bytearray()
    with contextlib.suppress(httpx.TransportError):
        async for chunk in response.aiter_bytes():
            read += chunk
            if len(read) >= limit_bytes:
                break
    return bytes(read[:limit_bytes])


def _conceded(request: Request, refused: Refused) -> tuple[Request, list[str]]:
    """The request without what the server says that it cannot take, and what to tell of it.

    Raises:
        Refused: it says no such thing, or that was left out already.
    """
    ask = request.ask
    if ask.tools and _lacks_tools(refused):
        notice = [] if ask.tool_choice in ("auto", "none") else [_NO_TOOLS]
        return request.asking(ask.model_copy(update={"tools": []})), notice
    if ask.model.temperature is not None and _refuses_temperature(refused):
        model = ask.model.model_copy(update={"temperature": None})
        notice = [_NO_TEMPERATURE]
        return request.asking(ask.model_copy(update={"model": model})), notice
    raise refused


def _lacks_tools(refused: Refused) -> bool:
    """Whether the server says that it, or the model, has no tools. Servers whose tools are only
    switched off say how to switch them on: their operator should read that."""
    said = refused.message.lower()
    names_tools = any(word in said for word in ("tools", "tool use", "tool call", "function call"))
    lacks = any(word in said for word in ("not support", "unsupported", "that support"))
    return refused.status in (400, 404, 422, 500, 501) and names_tools and lacks


def _refuses_temperature(refused: Refused) -> bool:
    said = refused.message.lower()
    lacks = any(word in said for word in ("not support", "unsupported"))
    return refused.status in (400, 422) and "temperature" in said and lacks
