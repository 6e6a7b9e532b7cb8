"""The Messages API, from the server's side: by the types of the package `anthropic`."""

import json
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import httpx
from pydantic import TypeAdapter

from holdfast.providers.anthropic.format import AnthropicFormat
from holdfast.schemas.internal.solution import Usage
from tests.providers.fakes import stream
from tests.providers.wire.base import Wire, check_key
from tests.providers.writers import messages

# Models until Claude Opus 4.6 take them; the newest types know them no more.
_OLDER_SETTINGS = {"temperature", "top_k", "top_p"}


@cache
def published_params() -> TypeAdapter[Any]:
    from anthropic.types.message_create_params import MessageCreateParamsStreaming

    return TypeAdapter(MessageCreateParamsStreaming)


@cache
def published_event() -> TypeAdapter[Any]:
    from anthropic.types import RawMessageStreamEvent

    return TypeAdapter(RawMessageStreamEvent)


class AnthropicWire(Wire):
    format = AnthropicFormat()
    writer = messages
    base_url = "https://api.anthropic.com"
    usage = Usage(input_tokens=12, output_tokens=3, cached_tokens=4, written_tokens=3)
    is_partial = True

    def frame(self, events: Sequence[Any]) -> bytes:
        return stream(events, end="")

    def vouch(self, event: Any) -> None:
        published_event().validate_python(event, strict=True)

    def refuses(self, status: int, message: str) -> bytes:
        error = {"type": "invalid_request_error", "message": message}
        return json.dumps({"type": "error", "error": error, "request_id": "req_1"}).encode()

    def understands(self, request: httpx.Request) -> dict[str, Any]:
        assert request.url.path.endswith("/v1/messages")
        check_key(request, "x-api-key")
        assert request.headers["anthropic-version"] == "2023-06-01"
        made: dict[str, Any] = json.loads(request.content)
        if request.url.host in self.base_url:
            taken = _whole(published_params().validate_json(request.content))
            assert taken == {name: made[name] for name in made if name not in _OLDER_SETTINGS}
        _check_turns(made["messages"])
        return made


def _whole(value: Any) -> Any:
    """The value with what is only read when it is asked for, so that all of it is checked."""
    if isinstance(value, dict):
        return {key: _whole(each) for key, each in value.items()}
    if isinstance(value, str | int | float | None):
        return value
    return [_whole(each) for each in value]


def _check_turns(messages: list[dict[str, Any]]) -> None:
    """Roles take turns, the user first; the results of a turn are what stands first behind its
    calls."""
    roles = [each["role"] for each in messages]
    assert roles[0] == "user"
    assert all(one != other for one, other in pairwise(roles))
    for before, each in pairwise([{"content": []}, *messages]):
        asked = [block["id"] for block in before["content"] if block["type"] == "tool_use"]
        answered = [block.get("tool_use_id") for block in each["content"]]
        assert answered[: len(asked)] == asked
        assert not any(answered[len(asked) :])
