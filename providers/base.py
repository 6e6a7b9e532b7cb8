"""What every provider of models is: its shape, what it is asked, and how it fails.

A further provider is one more folder with a `ProviderFormat` (see `http`): how its messages,
requests and answers are written. A provider holds one conversation with the world, never tries a
request again by itself (Temporal does), and raises what stands here or what `httpx` raises;
`providers.model_errors` decides what becomes of it.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

from holdfast.schemas.internal.model_request import Ask, ToolOffer
from holdfast.schemas.internal.solution import Solution
from holdfast.schemas.message import ChatMessage

_PLAIN = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
_SHORTENED_CHARACTERS = 55
# Fields of requests by which one server or another (LiteLLM, vLLM, SGLang, Azure, Anthropic's) can
# be led to a further one, given keys for it, or given tools that the engine knows nothing of.
REDIRECTING_OPTIONS = frozenset(
    {
        *("api_base", "base_url", "url", "endpoint", "host", "proxy", "custom_llm_provider"),
        *("api_key", "api_version", "organization", "headers", "extra_headers", "extra_query"),
        *("extra_body", "user_config", "model_list", "callbacks", "success_callback"),
        *("failure_callback", "webhook_url", "callback_url", "azure_ad_token"),
        *("vertex_credentials", "aws_access_key_id", "aws_secret_access_key", "aws_session_token"),
        *("aws_bedrock_runtime_endpoint", "aws_web_identity_token", "aws_sts_endpoint"),
        *("kv_transfer_params", "bootstrap_host", "bootstrap_port", "bootstrap_room"),
        *("data_sources", "dataSources", "mcp_servers", "container"),
    }
)
_FORM = "Answer with JSON alone, valid against this JSON Schema:\n"


@dataclass(frozen=True)
class EncodedMessage:
    """A message as the bytes that a provider is sent.

    `later` must not stand between the results of one turn: it goes behind the last of them.
    """

    fragments: tuple[bytes, ...] = ()
    deferred: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class ProviderRequest:
    """One request to a model: its settings, and the conversation as the provider encoded it.

    `cache_key` is the same in all requests of one conversation, and no other's. `notices` are the
    notices of what was left out of it. `alternates_roles`: the model insists that users and
    itself take turns; `omits_reasoning`: it does not take its reasoning back.
    """

    ask: Ask
    fragments: tuple[bytes, ...]
    cache_key: str = ""
    notices: tuple[str, ...] = ()
    alternates_roles: bool = False
    omits_reasoning: bool = False

    @cached_property
    def tool_names(self) -> "ToolNames":
        """What the provider knows the tools by."""
        return ToolNames(self.ask.tools)

    def options(self, reserved: Collection[str]) -> dict[str, Any]:
        """The agent's own settings, without those that are not the agent's to set."""
        kept_back = {*reserved, *REDIRECTING_OPTIONS}
        options = self.ask.model.options
        return {name: value for name, value in options.items() if name not in kept_back}

    def with_schema_in_instructions(self) -> "ProviderRequest":
        """The same request, with the schema of its answer in the instructions."""
        if self.ask.output is None or self.ask.output_told:
            return self
        told = _FORM + json.dumps(self.ask.output, ensure_ascii=False)
        instructions = "\n\n".join(filter(None, (self.ask.instructions, told)))
        return self.with_changes(instructions=instructions, output_told=True)

    def with_changes(self, *notices: str, **changes: Any) -> "ProviderRequest":
        """The same request with `changes` of its ask, and the notices of them."""
        ask = self.ask.model_copy(update=changes)
        return replace(self, ask=ask, notices=(*self.notices, *notices))


Encoder = Callable[[ChatMessage], EncodedMessage]


class AnswerSink(Protocol):
    """Who hears what a model says while it says it."""

    def text(self, piece: str) -> None:
        """More of the answer's text."""

    def call(self, index: int, tool: str, piece: str) -> None:
        """More of the arguments' text of the call at `index`, from 0, of `tool`."""


class Provider(Protocol):
    """A format in which models are asked, at one endpoint.

    Messages that two providers of one `kind` encode are the same bytes. `encode` is a function of
    the message and of the run's tools, so what was sent is never rendered differently later.
    """

    kind: str

    def encode(self, message: ChatMessage, names: "ToolNames") -> EncodedMessage:
        """The message as this kind of provider is sent it, the tools under these names."""

    async def solve(self, request: ProviderRequest, sink: AnswerSink) -> Solution:
        """Ask the model, and tell the sink what it says.

        Raises:
            ProviderError, httpx.HTTPError: it gave no solution.
        """


class ProviderError(Exception):
    """Why a model gave no solution. The text may quote the provider, secrets not yet taken out."""


@dataclass(eq=False)
class ProviderRefused(ProviderError):
    """The provider answered with an error. `message` is its own."""

    status: int
    message: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(eq=False)
class ContextOverflow(ProviderError):
    """The provider refused the conversation for its length: a shorter one it would take.

    `window` is how long it may be, in tokens, beside an answer as long as was asked for; None where
    the provider does not say. `message` is the provider's own.
    """

    status: int
    message: str
    window: int | None = None


class TruncatedAnswer(ProviderError):
    """The answer ended before its end."""


class UnreadableAnswer(ProviderError):
    """The answer is not of the provider's format."""


class UnanswerableRequest(ProviderError):
    """Nothing was asked: a setting is wrong, or there is nothing more to answer."""


class ToolNames:
    """The names of the tools of one request as a provider takes them, and back.

    `clashes` are those that had to be told apart. As long as they are the same, so are the names.
    """

    def __init__(self, tools: Iterable[ToolOffer]) -> None:
        names = [tool.name for tool in tools]
        crowd = Counter(_plain(name) for name in names)
        self.clashes = tuple(
            name for name in names if crowd[_plain(name)] > 1 and not _is_plain(name)
        )
        self._ours = {self.to_provider(name): name for name in names}

    def to_provider(self, name: str) -> str:
        """A tool's name in the characters that every provider takes."""
        return _told_apart(name) if name in self.clashes else _plain(name)

    def from_provider(self, said: str) -> str:
        """The tool's name that the model means; what it made up itself stays as it is."""
        return self._ours.get(said, said)


def _is_plain(name: str) -> bool:
    return _PLAIN.match(name) is not None


def _plain(name: str) -> str:
    mapped = re.sub(r"[^a-zA-Z0-9_-]", "_", name)
    return mapped if _is_plain(mapped) else _told_apart(name)


def _told_apart(name: str) -> str:
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{re.sub(r'[^a-zA-Z0-9_-]', '_', name)[:_SHORTENED_CHARACTERS]}_{digest}"
