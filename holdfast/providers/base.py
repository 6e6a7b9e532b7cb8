"""The interface of every model provider: its requests, its names of tools, its errors.

A further provider is one more folder with a `ProviderFormat` (see `transport.http`). A provider
makes one exchange with the server and never retries it (Temporal does). It raises the errors of
this module or those of `httpx`; `providers.model_errors` maps them to application errors.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, Final, NamedTuple, Protocol

from holdfast.schemas.agent import ForcedTool
from holdfast.schemas.internal.model_request import Ask, ToolOffer
from holdfast.schemas.internal.solution import Solution, Usage
from holdfast.schemas.message import ChatMessage

_PLAIN = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
_SHORTENED_CHARACTERS = 55
MAX_CACHED_NAMES = 10_000
MAX_CACHED_TOOL_SETS = 100
# Fields of requests by which some servers (LiteLLM, vLLM, SGLang, Azure, Anthropic's) can be sent
# to another server, given its keys, or given tools that the engine does not know.
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
_SCHEMA_INSTRUCTION = "Answer with JSON alone, valid against this JSON Schema:\n"


class IdForm(NamedTuple):
    """The form of ids of calls that a server requires: which fit, and how one is made of a digest.

    An id goes back unchanged to the server that it came from. One from elsewhere, such as another
    model of the agent's list, or the run's own where a server gave none, may not fit: then it is
    replaced by one made of its digest, the same in each request.
    """

    fits: re.Pattern[str]
    prefix: str
    digits: int

    def fitted(self, number: str) -> str:
        """Return an id that fits, itself if it does."""
        if self.fits.fullmatch(number):
            return number
        digest = hashlib.sha256(number.encode("utf-8", "surrogatepass")).hexdigest()
        return f"{self.prefix}{digest[: self.digits]}"


# By their names in a request (`ProviderRequest.id_form`).
NINE: Final = IdForm(re.compile(r"[a-zA-Z0-9]{9}"), "", 9)  # Mistral
FORTY: Final = IdForm(re.compile(r".{1,40}", re.DOTALL), "call_", 32)  # OpenAI, chat completions
SIXTY_FOUR: Final = IdForm(re.compile(r".{1,64}", re.DOTALL), "call_", 32)  # OpenAI, responses


@dataclass(frozen=True)
class EncodedMessage:
    """A message as the bytes that a provider receives.

    `deferred` must not be between the results of one turn: it follows the last of them. `notices`
    describe what was left out, and `problem` why the model cannot be sent the message.
    """

    fragments: tuple[bytes, ...] = ()
    deferred: tuple[bytes, ...] = ()
    notices: tuple[str, ...] = ()
    problem: str | None = None


@dataclass(frozen=True)
class ProviderRequest:
    """One request to a model: its settings, and the conversation as the provider encoded it.

    `cache_key` is the same in all requests of one conversation, and no other's. `notices` describe
    what was left out. `alternates_roles`: the model requires users and itself to take turns;
    `omits_reasoning`: it does not accept its reasoning back; `omitted_fields` are further fields of
    answers that the server does not, and `id_form` is the form of ids of calls that it requires.
    """

    ask: Ask
    fragments: tuple[bytes, ...]
    cache_key: str = ""
    notices: tuple[str, ...] = ()
    alternates_roles: bool = False
    omits_reasoning: bool = False
    omitted_fields: frozenset[str] = frozenset()
    id_form: IdForm | None = None

    @cached_property
    def tool_names(self) -> "ToolNames":
        return tool_names(self.ask.tools)

    def tool_choice(self, words: Mapping[str, Any], forced: Callable[[str], Any]) -> Any:
        """Return the tool choice in a provider's words, or that of one tool by its name."""
        choice = self.ask.tool_choice
        if isinstance(choice, ForcedTool):
            return forced(self.tool_names.to_provider(choice.name))
        return words.get(choice, choice)

    def options(self, reserved: Collection[str]) -> dict[str, Any]:
        """Return the agent's own settings, without the reserved and the redirecting ones."""
        options = self.ask.model.options
        excluded = {*reserved, *REDIRECTING_OPTIONS}
        return {name: value for name, value in options.items() if name not in excluded}

    def with_schema_in_instructions(self) -> "ProviderRequest":
        """Return the request with the schema of its answer in the instructions."""
        if self.ask.output is None or self.ask.output_told:
            return self
        schema = _SCHEMA_INSTRUCTION + json.dumps(self.ask.output, ensure_ascii=False)
        instructions = "\n\n".join(filter(None, (self.ask.instructions, schema)))
        return self.with_changes(instructions=instructions, output_told=True)

    def with_changes(self, *notices: str, **changes: Any) -> "ProviderRequest":
        """Return the request with `changes` of its ask, and notices of them."""
        ask = self.ask.model_copy(update=changes)
        return replace(self, ask=ask, notices=(*self.notices, *notices))


Encoder = Callable[[ChatMessage], EncodedMessage]


class AnswerSink(Protocol):
    """Receives an answer while it is streamed."""

    def text(self, piece: str) -> None:
        """Receive more of the answer's text."""

    def call(self, index: int, tool: str, piece: str) -> None:
        """Receive more of the arguments' text of the call at `index`, from 0, of `tool`."""

    def withdraw(self) -> None:
        """Forget what was received: the answer starts again, or is none."""


class Provider(Protocol):
    """A provider's format at one endpoint.

    Messages that two providers of one `kind` encode are the same bytes; `carries` are the types of
    parts that the format has beside text. `encode` is a function of
    the message and of the run's tools, so a sent message is never rendered differently later.
    """

    kind: str
    carries: tuple[str, ...]

    def encode(self, message: ChatMessage, names: "ToolNames") -> EncodedMessage:
        """Encode a message, the tools under these names."""

    async def solve(self, request: ProviderRequest, sink: AnswerSink) -> Solution:
        """Send the request, and stream the answer to the sink.

        Raises:
            ProviderError, httpx.HTTPError: there is no solution.
        """


class ProviderError(Exception):
    """A request without a solution. The text may quote the provider, secrets not yet redacted."""


@dataclass(eq=False)
class Rejection(ProviderError):
    """The provider answered with an error. `message` is its own.

    `is_within_answer`: a part of an answer, or its usage, had arrived before.
    """

    status: int
    message: str
    is_within_answer: bool = field(default=False, init=False, repr=False)


@dataclass(eq=False)
class ProviderRefused(Rejection):
    """An error that is not one of those below; `texts` are all its messages and codes."""

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    texts: str = field(default="", repr=False)


@dataclass(eq=False)
class ContextOverflow(Rejection):
    """The conversation is too long: the provider would accept a shorter one.

    `window` is how long it may be, in tokens, beside an answer of the requested length; None where
    the provider does not report it.
    """

    window: int | None = None


class ToolsUnsupported(Rejection):
    """The provider states that the model takes no tools."""


class TruncatedAnswer(ProviderError):
    """The answer ended before its end."""


class UnreadableAnswer(ProviderError):
    """The answer is not of the provider's format."""


@dataclass(eq=False)
class FailedAnswer(ProviderError):
    """The answer ended in a failure, or contradicts itself: none of it is used.

    `usage` is what it cost.
    """

    message: str
    usage: Usage

    def __str__(self) -> str:
        return self.message


@dataclass(eq=False)
class NoCredentials(ProviderError):
    """No request was made: a cloud's library gave no credentials, because there are none.

    If not `is_missing`, they could not be fetched or renewed at the moment.
    """

    reason: str
    is_missing: bool


class UnanswerableRequest(ProviderError):
    """No request was made: a setting is wrong, or a script has no further answer."""


class ToolNames:
    """The names of the tools of one request as a provider accepts them, and back.

    `clashes` are the names that needed a suffix to differ. While they are the same, so are all
    names.
    """

    def __init__(self, names: Collection[str]) -> None:
        uses = Counter(short_name(name) for name in names)
        self.clashes = tuple(
            name for name in names if uses[short_name(name)] > 1 and not _PLAIN.match(name)
        )
        self._from_provider = {self.to_provider(name): name for name in names}

    def to_provider(self, name: str) -> str:
        """Return a tool's name in the characters that every provider accepts."""
        return _with_digest(name) if name in self.clashes else short_name(name)

    def from_provider(self, name: str) -> str:
        """Return the tool's own name; a name that the model invented is unchanged."""
        return self._from_provider.get(name, name)

    def is_known(self, name: str) -> bool:
        return name in self._from_provider

    def offers(self, tools: Iterable[ToolOffer]) -> list[tuple[str, dict[str, Any], str]]:
        """Return each tool's name for the provider, its parameters and its description."""
        return [(self.to_provider(one.name), one.parameters, one.description) for one in tools]


def tool_names(tools: Iterable[ToolOffer]) -> ToolNames:
    """Return the names of a request's tools; requests with the same names share them."""
    return _tool_names(tuple(tool.name for tool in tools))


_tool_names = lru_cache(MAX_CACHED_TOOL_SETS)(ToolNames)


@lru_cache(MAX_CACHED_NAMES)
def short_name(name: str) -> str:
    """Return a name or an id in letters, digits, `_` and `-`, from 1 to 64 of them."""
    mapped = re.sub(r"[^a-zA-Z0-9_-]", "_", name)
    return mapped if _PLAIN.match(mapped) else _with_digest(name)


def _with_digest(name: str) -> str:
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{re.sub(r'[^a-zA-Z0-9_-]', '_', name)[:_SHORTENED_CHARACTERS]}_{digest}"
