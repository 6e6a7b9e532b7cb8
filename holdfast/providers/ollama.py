"""The provider `ollama`: chats of an Ollama server, one's own or Ollama's.

Sources: Ollama's API reference (`docs/api.md` and docs.ollama.com: chat, errors, tool calling,
vision, structured outputs), and the server's own types (`api/types.go`) where the reference is
silent; and its `envconfig` (`Host`, `ConnectableHost`) and the FAQ on `OLLAMA_HOST`, the variable
that a server and its clients read.

A call comes whole, its arguments an object. Newer servers give it an id, older ones none.
"""

import contextlib
import ipaddress
import socket
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from holdfast.providers.answer.answer_reader import AnswerReader, UsageCounts
from holdfast.providers.answer.call_draft import CallDraft
from holdfast.providers.answer.call_matching import WholeCall
from holdfast.providers.answer.part_order import Part
from holdfast.providers.base import ProviderRequest, ToolNames
from holdfast.providers.contents import encode_json, inline_data, media_of, request_body, text_of
from holdfast.providers.json_fields import read_object, read_objects, read_text
from holdfast.providers.message_list import answer_or_result, list_messages
from holdfast.providers.tool_schemas import declared_tools
from holdfast.providers.transport.http import ProviderFormat
from holdfast.schemas.agent import ForcedTool
from holdfast.schemas.internal.model_request import Ask
from holdfast.schemas.json_schema import target_of
from holdfast.schemas.message import ChatMessage, Content
from holdfast.validation.content_cache import cached_by_content

# Definitions can use each other without end: expanded, they have a bound.
MAX_SCHEMAS = 2_000
MAX_DEPTH = 24

HOST_VARIABLE = "OLLAMA_HOST"
KEY_VARIABLE = "OLLAMA_API_KEY"
PORT = 11434
MAX_PROBE_SECONDS = 0.25
_LOOPBACK = {4: "127.0.0.1", 6: "::1"}
_CLOUD = "ollama.com"
_EXPANDED = ("$ref", "allOf", "$defs", "definitions")
# The server loaded or unloaded the model without a request to it.
_NO_ANSWER = ("load", "unload")
# Of an agent's `options`, the top-level fields of a request. All others are settings of the model,
# in the request's own `options`.
_TOP_LEVEL = (
    *("model", "format", "keep_alive", "think"),
    *("truncate", "shift", "logprobs", "top_logprobs"),
)


@cached_by_content
def _declared(offers: list[tuple[str, Part, str]]) -> list[Part]:
    return declared_tools(offers, "parameters", lambda schema, text: (ollama_schema(schema), text))


@cached_by_content
def ollama_schema(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of a tool as they are sent.

    The server parses tools into types of its own (`ToolProperty` in `api/types.go`). Keywords
    without a field there, such as `$ref`, `const`, `oneOf` and `allOf`, are lost; a schema that is
    `true`, or several types at the top, makes the whole request a bad one. So these are expressed
    by keywords that the types have. Arguments are checked by the tool's own schema anyway.
    """
    return {"properties": {}, **_Expansion(parameters).schema(parameters), "type": "object"}


class _Expansion:
    """Expands the references of a schema, and all that must hold at once."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._room = MAX_SCHEMAS

    def schema(self, schema: Any, within: tuple[str, ...] = (), depth: int = 0) -> dict[str, Any]:
        """Return the schema, expanded. `within` are the references that led to it."""
        self._room -= 1
        if not isinstance(schema, dict) or self._room < 0 or depth > MAX_DEPTH:
            return {}
        own = {
            name: self._part(name, value, within, depth)
            for name, value in schema.items()
            if name not in _EXPANDED
        }
        if "const" in own:
            own |= {"enum": [own["const"]]}
            del own["const"]
        if "oneOf" in own:
            own = {"anyOf": own["oneOf"], **own}
            del own["oneOf"]
        for other in self._others(schema, within, depth):
            # Both hold at once; where they differ, the schema's own keywords win.
            merged = {**other, **own}
            if "properties" in other and "properties" in own:
                merged["properties"] = {**other["properties"], **own["properties"]}
            if "required" in other and "required" in own:
                merged["required"] = list(dict.fromkeys([*other["required"], *own["required"]]))
            own = merged
        return own

    def _part(self, name: str, value: Any, within: tuple[str, ...], depth: int) -> Any:
        match name, value:
            case "properties", dict():
                return {key: self.schema(each, within, depth + 1) for key, each in value.items()}
            case "anyOf" | "oneOf", list():
                return [self.schema(each, within, depth + 1) for each in value]
            case "items", dict():
                return self.schema(value, within, depth + 1)
        return value

    def _others(
        self, schema: dict[str, Any], within: tuple[str, ...], depth: int
    ) -> Iterator[dict[str, Any]]:
        reference = schema.get("$ref")
        if isinstance(reference, str):
            target = target_of(reference, self._root)
            if reference not in within:
                yield self.schema(target, (*within, reference), depth + 1)
            elif isinstance(target, dict) and "type" in target:
                yield {"type": target["type"]}
        parts = schema.get("allOf")
        for part in parts if isinstance(parts, list) else ():
            yield self.schema(part, within, depth + 1)


class OllamaAnswerReader(AnswerReader):
    """One Ollama chat, as it arrives: pieces of one message, or the whole of it."""

    format_name = "Ollama chat"
    marker = '"model"'
    whole_endings = ("stop", "tool_calls", *_NO_ANSWER)
    counts: ClassVar[UsageCounts] = {
        "input_tokens": ("prompt_eval_count",),
        "output_tokens": ("eval_count",),
    }

    def read_event(self, value: dict[str, Any]) -> bool:
        """Read a piece of the message, the last one `done`; in old servers it has no message."""
        message = value.get("message")
        if "done" not in value or not (isinstance(message, dict) or self._recognised):
            return False
        self.answer.model = read_text(value.get("model")) or self.answer.model
        is_done = value.get("done") is True
        if isinstance(message, dict):
            if thinking := read_text(message.get("thinking")):
                self.answer.reasoning.add(thinking)
            self.answer.add_text(read_text(message.get("content")))
            calls = [
                WholeCall.read(function.get("name"), call.get("id"), function.get("arguments"))
                for call in read_objects(message.get("tool_calls"))
                if (function := read_object(call.get("function")))
            ]
            self.add_whole_calls(calls, is_closing=is_done)
        if is_done:
            self.is_done = True
            self.read_stop(value.get("done_reason"))
            # Old servers give no reason.
            self.is_finished = value.get("done_reason") not in _NO_ANSWER
            self.read_usage(value)
        return True

    def data_beside(self, calls: list[CallDraft]) -> Any:
        """Return the reasoning that led to calls: no other is sent back."""
        reasoning = self.answer.reasoning
        return {"thinking": str(reasoning)} if calls and reasoning.pieces else None


class OllamaFormat(ProviderFormat):
    """The format of Ollama's chats."""

    kind = "ollama"
    path = "/chat"
    version = "/api"
    reserved = ("messages", "tools", "stream")
    carries = ("image",)
    fetched = ()
    answer_reader = OllamaAnswerReader

    def unsupported_notices(self, ask: Ask) -> list[str]:
        """Return a notice for a tool choice, which Ollama does not have."""
        choice = ask.tool_choice
        if not ask.tools or choice in ("auto", "none"):
            return []
        if isinstance(choice, ForcedTool):
            only = f"only `{choice.name}` was offered"
            return [f"Ollama has no tool choice: {only}"]
        return ["Ollama has no tool choice: the model decides whether to call a tool"]

    def encode_user(self, content: Content) -> tuple[bytes, ...]:
        user: dict[str, Any] = {"role": "user", "content": text_of(content, lambda _: "")}
        images = [inline[1] for each in media_of(content) if (inline := inline_data(each))]
        return (encode_json({**user, "images": images} if images else user),)

    def encode_other(self, message: ChatMessage, names: ToolNames) -> tuple[bytes, ...]:
        """Encode a message; the reference requires the reasoning that led to calls with them."""
        reasoning = "thinking" if message.calls else ""
        encoded = answer_or_result(
            message,
            names,
            reasoning,
            lambda index, call: {"index": index, "arguments": call.arguments},
        )
        if message.role == "tool" and message.tool is not None:
            # Older servers identify a result by tool and position, newer ones by its id as well.
            encoded["tool_name"] = names.to_provider(message.tool)
        return (encode_json(encoded),)

    def body(self, request: ProviderRequest, host: str) -> bytes:
        """Return the request's body: the messages first, then the settings."""
        ask = request.ask
        options = request.options(self.reserved)
        top_level = {name: options.pop(name) for name in _TOP_LEVEL if name in options}
        # A copied request of Ollama's has `options` within ours.
        nested = read_object(options.pop("options", None))
        limits = {"temperature": ask.model.temperature, "num_predict": ask.model.max_output_tokens}
        # In place of a choice, the tool to call is offered, or none.
        offered = [] if ask.tool_choice == "none" else ask.tools
        if isinstance(ask.tool_choice, ForcedTool):
            offered = [tool for tool in ask.tools if tool.name == ask.tool_choice.name]
        tools = _declared(request.tool_names.offers(offered))
        json_mode = "json" if ask.output else None
        settings = {
            "model": ask.model.name,
            "stream": True,
            # By default the server drops what does not fit, without a notice: the oldest messages,
            # and newer servers the middle of the rest, to half the window.
            "truncate": False,
            "shift": False,
            "tools": [{"type": "function", "function": each} for each in tools] or None,
            "format": ask.output if isinstance(ask.output, dict) else json_mode,
            "options": {name: value for name, value in limits.items() if value is not None}
            | nested
            | options,
            **top_level,
        }
        return request_body(list_messages(request), settings)


def with_local_ollama(environ: Mapping[str, str], port: int = PORT) -> Mapping[str, str]:
    """Return the environment, with `OLLAMA_HOST` set if a server listens on `port` here.

    The worker looks once, when it starts. It never fails.
    """
    if environ.get(HOST_VARIABLE):
        return environ
    try:
        with socket.create_connection((_LOOPBACK[4], port), MAX_PROBE_SECONDS):
            return {**environ, HOST_VARIABLE: f"127.0.0.1:{port}"}
    except OSError:
        return environ


def ollama_endpoint(environ: Mapping[str, str]) -> dict[str, object] | None:
    """Return the endpoint of the environment, in the form of `endpoints.yaml`, if there is one."""
    host = environ.get(HOST_VARIABLE)
    if not host:
        return None
    endpoint: dict[str, object] = {"provider": "ollama", "baseUrl": ollama_url(host)}
    return {**endpoint, "apiKeyEnv": KEY_VARIABLE} if environ.get(KEY_VARIABLE) else endpoint


def ollama_url(host: str) -> str:
    """Return the address of an `OLLAMA_HOST`, such as `host`, `:11434` or `http://host`.

    The variable is also where a server listens: 0.0.0.0 is reached at 127.0.0.1.
    """
    scheme, _, place = host.strip().strip("\"'").rpartition("://")
    place, _, path = place.partition("/")
    name, colon, port = place.rpartition(":")
    name, port = (name.strip("[]"), port) if colon else (place, "")
    with contextlib.suppress(ValueError):
        name, port = str(ipaddress.ip_address(place.strip("[]"))), ""
    if not scheme:
        scheme, port = ("https", port) if name == _CLOUD else ("http", port or str(PORT))
    with contextlib.suppress(ValueError):
        address = ipaddress.ip_address(name or _LOOPBACK[4])
        name = _LOOPBACK[address.version] if address.is_unspecified else str(address)
        name = f"[{name}]" if address.version == 6 else name
    return f"{scheme}://{name}{f':{port}' if port else ''}/{path}".rstrip("/")
