"""One conversation with a model's server over HTTP, in any format.

A format is all that tells one provider from another: how a message, a request and an answer are
written. What is the same for all stands here: the request itself, what is read of the answer and
how much of it, and what is left out when a server says that it cannot take it.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, Protocol

import httpx

from holdfast.providers.base import (
    REDIRECTING_OPTIONS,
    AnswerSink,
    EncodedMessage,
    ProviderRefused,
    ProviderRequest,
    ToolNames,
    UnreadableAnswer,
)
from holdfast.providers.content import encode_json, without_remote_images
from holdfast.providers.parameter_fallback import ParameterFallback, fallback_for
from holdfast.providers.streamed_answer import StreamedAnswer
from holdfast.providers.transport.error_response import error_of_response
from holdfast.providers.transport.target import EndpointTarget
from holdfast.schemas.base import sha256
from holdfast.schemas.internal.model_request import Ask
from holdfast.schemas.internal.solution import Solution
from holdfast.schemas.message import ChatMessage

MAX_ANSWER_BYTES = 16 * 1024 * 1024
MAX_ERROR_BYTES = 64 * 1024
# The status alone says what to do; its words are not waited for as an answer is.
MAX_ERROR_SECONDS = 10.0
MAX_LEARNED_SETTINGS = 1_000
# What a server that may fetch pictures is asked to fetch: no file of its own machine.
_FETCHED = ("https://", "http://", "gs://")
# How long a response may take to end once all of the answer is there.
END_SECONDS = 0.05

_TOO_LARGE = f"the answer was larger than {MAX_ANSWER_BYTES} bytes; the rest was not read"


class EventDecoder(Protocol):
    """Takes the bytes of a response and gives the text of each event once it is whole.

    `stray` is the first line that has no place in such a stream.
    """

    stray: str

    def feed(self, chunk: bytes) -> list[str]:
        """The events that these bytes make whole."""

    def rest(self) -> str | None:
        """What stands after the last whole event, and may be cut off."""


class Reading(Protocol):
    """An answer, as it arrives.

    `is_finished`: the model has said why it stopped. `is_done`: nothing more will come.
    """

    is_finished: bool
    is_done: bool

    def read(self, data: str) -> None:
        """One event, or a whole answer.

        Raises:
            Refused: it is an error.
            Unreadable: it is not JSON.
        """

    def finish(self, rest: str, stray: str) -> None:
        """No more comes. `rest` stood after the last whole event, and may be cut off; `stray` is
        what stood where no event can."""

    def stop_reading(self, why: str) -> None:
        """The answer is too large: what came so far is all of it.

        Raises:
            Unreadable: nothing in it was of the format.
        """

    def solution(self) -> Solution:
        """The whole answer.

        Raises:
            CutOff: it is not whole.
            Unreadable: nothing in it was of the format.
        """


class ProviderFormat(Protocol):
    """How one provider's servers are spoken to. It holds nothing: all its methods are functions.

    `reserved` are the options that are the engine's own, and no agent's to set.
    """

    kind: str
    reserved: tuple[str, ...]

    def url(self, target: EndpointTarget, ask: Ask) -> httpx.URL:
        """Where the request goes."""

    def headers(self, key: str | None) -> dict[str, str]:
        """The headers of the format, the key among them where there is one; in lower case."""

    def unsupported_notices(self, ask: Ask) -> list[str]:
        """What of the request the format has no words for: a notice for each."""

    def shows_schema(self, ask: Ask, host: str) -> bool:
        """Whether the server at `host` itself shows the model the schema of its answer."""

    def encode(self, message: ChatMessage, names: ToolNames) -> EncodedMessage:
        """The message as the format has it."""

    def body(self, request: ProviderRequest, host: str) -> bytes:
        """The body of the request to the server at `host`."""

    def event_decoder(self) -> EventDecoder:
        """What takes the bytes of one response apart."""

    def answer_reader(self, answer: StreamedAnswer) -> Reading:
        """What reads one response into an answer."""


class HttpProvider:
    """Asks one endpoint in one format."""

    def __init__(
        self, spoken: ProviderFormat, target: EndpointTarget, http: httpx.AsyncClient
    ) -> None:
        self._hands_on_addresses = target.fetches_image_urls
        # The same message is other bytes where the addresses of pictures are kept back.
        self.kind = f"{spoken.kind}, addresses" if self._hands_on_addresses else spoken.kind
        self._format = spoken
        self._target = target
        self._http = http
        # What lasts of what was conceded, by the settings of the model: many take no temperature,
        # and an agent that says nothing of it sends one with every request.
        self._learned: dict[str, list[ParameterFallback]] = {}

    def encode(self, message: ChatMessage, names: ToolNames) -> EncodedMessage:
        """The message as the format has it."""
        fetched = _FETCHED if self._hands_on_addresses else ()
        return self._format.encode(without_remote_images(message, fetched), names)

    async def solve(self, request: ProviderRequest, sink: AnswerSink) -> Solution:
        """Ask the model. What a server says that it cannot take is left out, each thing once.

        Raises:
            ProviderError, httpx.HTTPError: it gave no solution.
        """
        settings = sha256(encode_json(dict(request.ask.model)))
        ignored = _ignored(request.ask, self._format.reserved)
        for concession in self._learned.get(settings, ()):
            request = concession.apply(request)
        while True:  # It ends: a concession is made once.
            try:
                solution = await self._ask(request, sink)
                break
            except ProviderRefused as refused:
                concession = fallback_for(refused, request)
            request = concession.apply(request)
            self._learn(settings, concession)
        notices = [
            *ignored,
            *request.notices,
            *self._format.unsupported_notices(request.ask),
            *solution.notices,
        ]
        return solution.model_copy(update={"notices": notices})

    def _learn(self, settings: str, concession: ParameterFallback) -> None:
        if not concession.is_permanent:
            return
        learned = self._learned.setdefault(settings, [])
        if concession not in learned:
            learned.append(concession)
        while len(self._learned) > MAX_LEARNED_SETTINGS:
            del self._learned[next(iter(self._learned))]

    async def _ask(self, request: ProviderRequest, sink: AnswerSink) -> Solution:
        headers = {
            "content-type": "application/json",
            "accept": "text/event-stream, application/json",
            # Compressed, a stream may wait in a buffer, and its size is anybody's guess.
            "accept-encoding": "identity",
            **self._target.headers(self._format.headers),
        }
        if not self._format.shows_schema(request.ask, self._target.host):
            request = request.with_schema_in_instructions()
        reading = self._format.answer_reader(StreamedAnswer(sink, request.tool_names))
        sent = self._http.build_request(
            "POST",
            self._format.url(self._target, request.ask),
            content=self._format.body(request, self._target.host),
            headers=headers,
            timeout=self._target.timeout,
        )
        async with contextlib.aclosing(await self._response(sent)) as response:
            if not response.is_success:
                error = await _read_bytes(response, MAX_ERROR_BYTES)
                raise error_of_response(response.status_code, response.headers, error)
            await _read(response, self._format.event_decoder(), reading)
        return reading.solution()

    async def _response(self, sent: httpx.Request) -> httpx.Response:
        """The response, its body still to come.

        A server may close a connection that was kept at the moment when it is used again. Then the
        request goes over another one: no connection that failed is kept, so the last is a new one.
        """
        while True:
            connection = _Connection()
            sent.extensions["trace"] = connection.see
            try:
                return await self._http.send(sent, stream=True)
            except (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError):
                if not connection.was_kept:
                    raise


class _Connection:
    """What goes on with the connection of one request, as httpx tells it."""

    def __init__(self) -> None:
        self._is_new = self._is_used = False

    @property
    def was_kept(self) -> bool:
        """Whether the request went over a connection that had served another."""
        return self._is_used and not self._is_new

    async def see(self, event: str, _: Any) -> None:
        """An event; httpx calls this."""
        self._is_new = self._is_new or event.startswith("connection.connect")
        self._is_used = self._is_used or event.startswith("http11.send_request")


async def _read(response: httpx.Response, stream: EventDecoder, reading: Reading) -> None:
    """Take the answer in, up to its end or to the most that is read of any."""
    size_bytes = 0
    chunks = response.aiter_bytes()
    try:
        async for chunk in chunks:
            for event in stream.feed(chunk):
                reading.read(event)
                if reading.is_done:
                    await _end(chunks)
                    return
            size_bytes += len(chunk)
            if size_bytes > MAX_ANSWER_BYTES:
                reading.stop_reading(_TOO_LARGE)
                return
    except (httpx.TransportError, httpx.DecodingError) as error:
        # Once the model has said why it stopped, only the usage can be missing.
        if not reading.is_finished:
            raise _unpacked(error) from None
    reading.finish(stream.rest() or "", stream.stray)


async def _end(chunks: AsyncIterator[bytes]) -> None:
    """See the response's own end, if it comes at once: then its connection can be used again."""
    with contextlib.suppress(TimeoutError, httpx.TransportError):
        async with asyncio.timeout(END_SECONDS):
            async for _ in chunks:
                pass


def _unpacked(error: httpx.TransportError | httpx.DecodingError) -> Exception:
    """The error; as one of the answer, where the answer came, and is not compressed as it says."""
    if isinstance(error, httpx.DecodingError):
        return UnreadableAnswer(
            f"the answer is not compressed as its `content-encoding` says: {error}"
        )
    return error


async def _read_bytes(response: httpx.Response, limit_bytes: int) -> bytes:
    read = bytearray()
    with contextlib.suppress(TimeoutError, httpx.TransportError, httpx.DecodingError):
        async with asyncio.timeout(MAX_ERROR_SECONDS):
            async for chunk in response.aiter_bytes():
                read += chunk
                if len(read) >= limit_bytes:
                    break
    return bytes(read[:limit_bytes])


def _ignored(ask: Ask, reserved: tuple[str, ...]) -> list[str]:
    """A notice for each option that is not the agent's to set."""
    whose = {
        **dict.fromkeys(
            sorted(REDIRECTING_OPTIONS), "where requests go is the worker's own to say"
        ),
        **dict.fromkeys(reserved, "it is the engine's own"),
    }
    return [
        f"the option `{name}` was left out of the request: {why}"
        for name, why in whose.items()
        if name in ask.model.options
    ]
