"""Converse and ConverseStream, from the server's side: by the service model that botocore ships.

A request is what botocore's own serializer makes of the same parameters, whose shapes it checks; so
are the events of an answer checked.
"""

import base64
import json
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

import httpx
from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.serialize import create_serializer
from botocore.validate import ParamValidator

from holdfast.providers.bedrock import BedrockFormat
from holdfast.schemas.internal.solution import Usage
from tests.providers.wire.base import Wire, check_key
from tests.providers.writers import converse
from tests.providers.writers.framing import event_stream


@cache
def model() -> ServiceModel:
    return ServiceModel(Loader().load_service_model("bedrock-runtime", "service-2"))


class BedrockWire(Wire):
    format = BedrockFormat()
    writer = converse
    base_url = "https://bedrock-runtime.eu-central-1.amazonaws.com"
    usage = Usage(input_tokens=12, output_tokens=3, cached_tokens=4, written_tokens=3)
    is_partial = True

    def frame(self, events: Sequence[Any]) -> bytes:
        return event_stream(events)

    def vouch(self, event: Any) -> None:
        [(name, value)] = event.items()
        members = model().shape_for("ConverseStreamOutput").members
        checked = json.loads(json.dumps(value), object_hook=_blobs_decoded)
        report = ParamValidator().validate(checked, members[name])
        assert not report.has_errors(), report.generate_report()

    def refuses(self, status: int, message: str) -> bytes:
        return json.dumps({"message": message}).encode()

    def understands(self, request: httpx.Request) -> dict[str, Any]:
        """The body, which is what botocore would send for it, at the same path."""
        check_key(request)
        assert "application/vnd.amazon.eventstream" in request.headers["accept"]
        made: dict[str, Any] = json.loads(request.content)
        path = request.url.raw_path.decode()
        name, operation = path.removeprefix("/model/").split("/")
        method = {"converse": "Converse", "converse-stream": "ConverseStream"}[operation]
        unquoted = urlsplit(name).path.replace("%3A", ":").replace("%2F", "/")
        parameters = json.loads(request.content, object_hook=_blobs_decoded)
        serializer = create_serializer("rest-json", include_validation=True)
        ours = serializer.serialize_to_request(
            parameters | {"modelId": unquoted}, model().operation_model(method)
        )
        assert (ours["url_path"], json.loads(ours["body"])) == (path, made)
        _check_turns(made["messages"], has_tools="toolConfig" in made)
        return made


def _blobs_decoded(value: dict[str, Any]) -> dict[str, Any]:
    """An object as botocore takes it: it encodes bytes itself."""
    blobs = {key: value[key] for key in ("bytes", "redactedContent") if key in value}
    return value | {key: base64.b64decode(each) for key, each in blobs.items()}


def _check_turns(messages: list[dict[str, Any]], *, has_tools: bool) -> None:
    """Roles take turns, the user first; no message and no text is empty; the results of a turn
    stand first behind its calls; and there are tools where there were calls."""
    roles = [each["role"] for each in messages]
    assert roles[0] == "user"
    assert all(one != other for one, other in pairwise(roles))
    assert all(each["content"] for each in messages)
    for before, each in pairwise([{"content": []}, *messages]):
        asked = [block["toolUse"]["toolUseId"] for block in before["content"] if "toolUse" in block]
        answered = [block.get("toolResult", {}).get("toolUseId") for block in each["content"]]
        assert answered[: len(asked)] == asked
        assert not any(answered[len(asked) :])
        assert has_tools or not asked
        assert all(block.get("text", "x").strip() for block in each["content"])
