"""One exchange with a model's server over HTTP, in any format.

A `ProviderFormat` is the difference between two providers: how messages, requests and answers are
written. This module makes the request, bounds what is read of the answer, and leaves out the parts
of a request that a server cannot accept. The setting `reasoning` is translated to each provider's
options here, by the model's name.
"""

import asyncio
import contextlib
import math
import re
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import httpx

from holdfast.providers import base, contents
from holdfast.providers.answer.answer_reader import AnswerReader
from holdfast.providers.answer.streamed_answer import StreamedAnswer
from holdfast.providers.message_list import fragments_with_ids
from holdfast.providers.parameter_fallback import ParameterFallback, fallback_for
from holdfast.providers.transport.error_response import error_of_response
from holdfast.providers.transport.event_decoders import EventDecoder, LineDecoder
from holdfast.providers.transport.target import EndpointTarget
from holdfast.schemas.agent import ModelSettings, Reasoning
from holdfast.schemas.base import sha256
from holdfast.schemas.internal.model_request import Ask
from holdfast.schemas.internal.solution import Solution
from holdfast.schemas.message import ChatMessage, Content, ImagePart, TextPart

MAX_ANSWER_BYTES = 16 * 1024 * 1024
MAX_ERROR_BYTES = 64 * 1024
# The status alone decides what to do; its text is not waited for as an answer is.
MAX_ERROR_SECONDS = 10.0
MAX_LEARNED_SETTINGS = 1_000
# How long a response may take to end after the whole answer.
END_SECONDS = 0.05
# How long after a request a kept connection may end because the server had closed it before.
CLOSED_SECONDS = 1.0

_NOT_REDIRECTED = "only the worker decides where requests go"
_TOO_LARGE = f"the answer was larger than {MAX_ANSWER_BYTES} bytes; the rest was not read"
# Claude's models that decide by themselves how long to think, at an effort. Others take a budget.
_ADAPTIVE = re.compile(
    r"claude-(?:fable|mythos|(?:opus|sonnet)-4[-.][6-9]|(?:opus|sonnet|haiku)-[5-9])"
)
_BETWEEN_TOOLS = re.compile(r"claude-sonnet-5[-.]5")
_CLAUDE_BUDGETS = {"low": 1_024, "medium": 8_192, "high": 16_384}
# As Google translates the efforts of OpenAI's format.
_GEMINI_BUDGETS = {"none": 0, "low": 1_024, "medium": 8_192, "high": 24_576}
# An agent's own fields of these are merged with those here; any other replaces its whole option.
_MERGED = ("output_config", "reasoning")


class ProviderFormat(ABC):
    """The format of one provider's servers. It has no state.

    Requests are sent to `path`, below a `version` where the endpoint's own address may have it.
    `reserved` names the options that only the engine sets; `carries` are the types of parts that
    the format has beside text; `fetched` are the beginnings of addresses that a server may fetch
    these from: no file of its own machine. `results_show_media`: a call's result may have media in
    it, as messages of the user may; those of any other message follow it as the user's. `id_forms`
    are the forms of ids of calls that known hosts require.
    """

    kind: ClassVar[str]
    path: ClassVar[str] = ""
    version: ClassVar[str] = ""
    key_header: ClassVar[str] = "authorization"
    fixed_headers: ClassVar[Mapping[str, str]] = {}
    reserved: ClassVar[tuple[str, ...]]
    carries: ClassVar[tuple[str, ...]] = ("image", "document")
    fetched: ClassVar[tuple[str, ...]] = ("https://", "http://", "gs://")
    results_show_media: ClassVar[bool] = False
    id_forms: ClassVar[Mapping[tuple[str, ...], base.IdForm]] = {}
    answer_reader: ClassVar[type[AnswerReader]]
    event_decoder: ClassVar[type[EventDecoder]] = LineDecoder

    def url(self, target: EndpointTarget, ask: Ask) -> httpx.URL:
        return target.url(self.path, self.version)

    def headers(self, key: str | None) -> dict[str, str]:
        """Return the format's headers, in lower case, and the key in the one that is for it."""
        scheme = "Bearer " if self.key_header == "authorization" else ""
        named = {self.key_header: f"{scheme}{key}"} if key is not None else {}
        return {**self.fixed_headers, **named}

    def data_of_endpoint(self, data: Any, endpoint: str) -> Any:
        """Return an answer's data with the name of its endpoint, if it is of no use to another."""
        return data

    def data_for_endpoint(self, data: Any, endpoint: str) -> Any:
        """Return the part of an answer's data that may go to an endpoint."""
        return data

    @abstractmethod
    def unsupported_notices(self, ask: Ask) -> list[str]:
        """Return a notice for each part of the request that the format cannot express."""

    def shows_schema(self, ask: Ask, host: str) -> bool:
        """Report whether the server at `host` shows every model the schema of its answer.

        If not, it is in the instructions.
        """
        return False

    def encode(self, message: ChatMessage, names: base.ToolNames) -> base.EncodedMessage:
        """Encode a message."""
        content, is_result = message.content, message.role == "tool"
        # Formats have no result of a call that no request made: it is the user's.
        is_orphan = is_result and not (message.provider_id or message.call_id)
        if message.role == "user" or is_orphan:
            return base.EncodedMessage(self.encode_user(content))
        encoded, media = self.encode_other(message, names), contents.media_of(content)
        if not media or (is_result and self.results_show_media):
            return base.EncodedMessage(encoded)
        # The format has no place for them in this message: they follow it.
        above = f"the result of {names.to_provider(message.tool)}" if message.tool else ""
        noun = "pictures" if all(isinstance(part, ImagePart) for part in media) else "files"
        introduction = TextPart(text=f"The {noun} of {above or 'the message above'}:")
        return base.EncodedMessage(encoded, self.encode_user([introduction, *media]))

    @abstractmethod
    def encode_user(self, content: Content) -> tuple[bytes, ...]:
        """Encode a content of the user, with its media."""

    @abstractmethod
    def encode_other(self, message: ChatMessage, names: base.ToolNames) -> tuple[bytes, ...]:
        """Encode an answer, a call's result, or a system message within the conversation."""

    @abstractmethod
    def body(self, request: base.ProviderRequest, host: str) -> bytes:
        """Return the body of the request to the server at `host`."""


class HttpProvider:
    """Sends requests to one endpoint in one format."""

    def __init__(
        self, provider_format: ProviderFormat, target: EndpointTarget, http: httpx.AsyncClient
    ) -> None:
        kind = provider_format.kind
        # The same message is other bytes where the addresses of images are withheld, and where data
        # that only its own endpoint is sent is left out.
        self.kind = f"{kind} at {target.name}"
        self.kind += ", addresses" * target.fetches_image_urls
        self.carries = provider_format.carries
        self._format = provider_format
        self._target = target
        self._http = http
        # The fallbacks that requests needed, by the model's name or by all of its settings: many
        # models take no temperature, and an agent without one of its own sends the default.
        self._learned: dict[str, list[ParameterFallback]] = {}

    def encode(self, message: ChatMessage, names: base.ToolNames) -> base.EncodedMessage:
        """Encode a message in the format."""
        fetched = self._format.fetched if self._target.fetches_image_urls else ()
        message = contents.without_remote_media(message, fetched)
        if message.provider_data is not None:
            data = self._format.data_for_endpoint(message.provider_data, self._target.name)
            message = message.model_copy(update={"provider_data": data})
        encoded = self._format.encode(message, names)
        forms, host = self._format.id_forms.items(), self._target.host
        form = next((each for hosts, each in forms if host.endswith(hosts)), None)
        if form is None or message.role not in ("assistant", "tool"):
            return encoded
        return replace(encoded, fragments=fragments_with_ids(encoded.fragments, form))

    async def solve(self, request: base.ProviderRequest, sink: base.AnswerSink) -> Solution:
        """Send the request; leave out each part that the server rejects, each once."""
        own = request.ask.model.model_dump(mode="json", exclude={"retry_for"})
        scopes = {"model": request.ask.model.name, "settings": sha256(contents.encode_json(own))}
        reasons = {
            **dict.fromkeys(sorted(base.REDIRECTING_OPTIONS), _NOT_REDIRECTED),
            **dict.fromkeys(self._format.reserved, "only the engine sets it"),
        }
        ignored = [
            f"the option `{name}` was left out of the request: {why}"
            for name, why in reasons.items()
            if name in request.ask.model.options
        ]
        for scope in scopes.values():
            for fallback in self._learned.get(scope, ()):
                request = fallback.change(request) or request
        used: list[ParameterFallback] = []
        while True:  # It ends: each fallback applies once.
            try:
                solution = await self._send(request, sink)
                break
            except base.ProviderRefused as refused:
                fallback, request = fallback_for(refused, request)
                used.append(fallback)
        for fallback in used:
            if fallback.scope != "request":
                learned = self._learned.setdefault(scopes[fallback.scope], [])
                if fallback not in learned:
                    learned.append(fallback)
                if len(self._learned) > MAX_LEARNED_SETTINGS:
                    del self._learned[next(iter(self._learned))]
        unsupported = self._format.unsupported_notices(request.ask)
        notices = [*ignored, *request.notices, *unsupported, *solution.notices]
        data = self._format.data_of_endpoint(solution.provider_data, self._target.name)
        return solution.model_copy(update={"notices": notices, "provider_data": data})

    async def _send(self, request: base.ProviderRequest, sink: base.AnswerSink) -> Solution:
        headers = {
            "content-type": "application/json",
            "accept": "text/event-stream, application/json",
            # A compressed stream may wait in a buffer, and its size is unknown.
            "accept-encoding": "identity",
            **self._target.headers(self._format.headers),
        }
        if not self._format.shows_schema(request.ask, self._target.host):
            request = request.with_schema_in_instructions()
        model = with_reasoning(self._format.kind, request.ask.model)
        request = request.with_changes(model=model)
        reader = self._format.answer_reader(StreamedAnswer(sink, request.tool_names))
        sent = self._http.build_request(
            "POST",
            self._format.url(self._target, request.ask),
            content=self._format.body(request, self._target.host),
            headers=headers,
            timeout=self._target.timeout,
        )
        if self._target.identity is not None:
            await self._target.identity.authorize(sent)
        async with _closed_at_end(await self._response(sent)) as response:
            if not response.is_success:
                error = b""
                with contextlib.suppress(TimeoutError, httpx.TransportError, httpx.DecodingError):
                    async with asyncio.timeout(MAX_ERROR_SECONDS):
                        async for chunk in response.aiter_bytes():
                            error += chunk
                            if len(error) >= MAX_ERROR_BYTES:
                                break
                body = error[:MAX_ERROR_BYTES]
                raise error_of_response(response.status_code, response.headers, body)
            await _read(response, self._format.event_decoder(), reader)
        return reader.solution()

    async def _response(self, sent: httpx.Request) -> httpx.Response:
        """Send the request and return the response, whose body is not read yet.

        A server may close a kept connection at the moment when it is used again. Then the request
        is sent over another one: a failed connection is not kept, so the last is a new one. One
        that ends later may have brought the request, which costs: it fails the attempt.
        """
        while True:
            seen: dict[str, float] = {}

            async def trace(event: str, _: Any, seen: dict[str, float] = seen) -> None:
                seen.setdefault(event.rpartition(".")[0], time.monotonic())

            sent.extensions["trace"] = trace
            try:
                return await self._http.send(sent, stream=True)
            except (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError):
                sent_at = seen.get("http11.send_request_headers", -math.inf)
                is_late = time.monotonic() - sent_at > CLOSED_SECONDS
                if is_late or any(event.startswith("connection.connect") for event in seen):
                    raise


@contextlib.asynccontextmanager
async def _closed_at_end(response: httpx.Response) -> AsyncIterator[httpx.Response]:
    """Close the response at the end, and free its request's body.

    httpx's response and its stream refer to each other: together they would keep the bytes of the
    whole conversation until the garbage collector runs.
    """
    try:
        yield response
    finally:
        await response.aclose()
        response.stream = httpx.ByteStream(b"")


async def _read(response: httpx.Response, decoder: EventDecoder, reader: AnswerReader) -> None:
    size_bytes = 0
    chunks = response.aiter_bytes()
    try:
        async for chunk in chunks:
            for event in decoder.feed(chunk):
                reader.read(event)
                if reader.is_done:
                    # If the response ends at once, its connection can be used again.
                    with contextlib.suppress(TimeoutError, httpx.TransportError):
                        async with asyncio.timeout(END_SECONDS):
                            async for _ in chunks:
                                pass
                    return
            size_bytes += len(chunk)
            if size_bytes > MAX_ANSWER_BYTES:
                reader.stop_reading(_TOO_LARGE)
                return
    except (httpx.TransportError, httpx.DecodingError) as error:
        # After the reason why the model stopped, only the usage can be missing.
        if not reader.is_finished:
            if isinstance(error, httpx.DecodingError):
                reason = f"the answer is not compressed as its `content-encoding` states: {error}"
                raise base.UnreadableAnswer(reason) from None
            raise error from None
    reader.finish(decoder.rest() or "", decoder.stray)


def with_reasoning(kind: str, model: ModelSettings) -> ModelSettings:
    """Return the model with the options that its `reasoning` means; its own options win.

    Sources: OpenAI's, Google's and Ollama's API references (`reasoning_effort`, `reasoning.effort`;
    `thinkingConfig`; `think`), Anthropic's "Thinking" and "Effort", Amazon's "Extended thinking in
    Amazon Nova 2", and answers of Bedrock in the tests of Vercel's AI SDK. What a model does not
    take, its server refuses: `providers.parameter_fallback`.
    """
    if model.reasoning is None:
        return model
    translated = _reasoning_options(kind, model, model.reasoning)
    own = dict(model.options)
    for name in _MERGED:
        if isinstance(own.get(name), dict):
            own[name] = translated.get(name, {}) | own[name]
    changes: dict[str, Any] = {"options": translated | own}
    if "reasoningConfig" in translated and model.reasoning == "high":
        # "`maxTokens` must be unset when … maxReasoningEffort is 'high'", and the temperature too.
        changes |= {"max_output_tokens": None, "temperature": None}
    return model.model_copy(update=changes)


def _reasoning_options(kind: str, model: ModelSettings, level: Reasoning) -> dict[str, Any]:
    name = model.name.lower()
    match kind:
        case "openai-responses":
            return {"reasoning": {"effort": level}}
        case "anthropic":
            return _claude(name, level, model.max_output_tokens)
        case "bedrock" if "claude" in name:
            return _claude(name, level, model.max_output_tokens)
        case "bedrock" if "nova" in name:
            # Nova does not reason by default, and its first models reject the field.
            enabled = {"type": "enabled", "maxReasoningEffort": level}
            return {} if level == "none" else {"reasoningConfig": enabled}
        case "bedrock" if re.search(r"openai\.(?!gpt-oss)", name):
            return {"reasoning": {"effort": level}}
        case "gemini" if "gemini-2" in name:
            return {"thinkingConfig": {"thinkingBudget": _GEMINI_BUDGETS[level]}}
        case "gemini":
            least = "MINIMAL" if level == "none" else level.upper()
            return {"thinkingConfig": {"thinkingLevel": least}}
        case "ollama":
            # Only gpt-oss has levels, and it always thinks.
            levels = "gpt-oss" in name and level != "none"
            return {"think": level if levels else level != "none"}
    return {"reasoning_effort": level}


def _claude(name: str, level: Reasoning, max_output_tokens: int | None) -> dict[str, Any]:
    if (adaptive := _ADAPTIVE.search(name)) is not None:
        if level != "none":
            return {"thinking": {"type": "adaptive"}, "output_config": {"effort": level}}
        kind = "between_tools" if _BETWEEN_TOOLS.search(name) else "disabled"
        # Before the fifth generation they do not think by default.
        return {} if "-4" in adaptive[0] else {"thinking": {"type": kind}}
    if level == "none":
        return {}
    # The budget is a part of the longest answer, and has a least value.
    budget = _CLAUDE_BUDGETS[level]
    if max_output_tokens is not None:
        budget = min(budget, max_output_tokens // 2)
    least = _CLAUDE_BUDGETS["low"]
    return {"thinking": {"type": "enabled", "budget_tokens": max(budget, least)}}
