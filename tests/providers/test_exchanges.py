"""Exchanges with model servers, as files: what is asked, what is sent, and what the answer is.

A file of `exchanges/FORMAT` has exchanges by their names. The fields of one:

what, source   the promise, and the public report that it comes from
asks           the request: `messages`, the address `baseUrl`, and fields of `Ask`; else a greeting
replies        what the server sends to one request after the other, each with a `status` perhaps:
               the `events` of a stream, or a `body`, an object or a text; one is by itself, and
               without any the server answers "Yes"
sent           fields of the last request
later          fields of a further request to the same server
url            the address of that, or of the last request
answer         its text, calls (tool, arguments, and perhaps id), stop reason, and a part of each
               notice; what is left out, is empty. And its data, its usage (input, output, cached,
               written), `refused`, and the texts that were streamed; what is left out, may be any
returned       the answer's messages in the next request
error          the name of the exception, and a part of its message

Of what is sent, an object may have more fields than are expected; `(absent)` is none.
"""

from collections.abc import Iterator
from itertools import dropwhile
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from holdfast.providers import base
from holdfast.schemas.internal.solution import Solution
from holdfast.schemas.message import ChatMessage
from tests.providers.fakes import TOOLS, chat_message
from tests.providers.wire.base import Wire
from tests.providers.wire.exchange import Exchange
from tests.providers.wire.wires import WIRES

FOLDER = Path(__file__).parent / "exchanges"
EXCHANGES = {
    f"{path.parent.name}/{path.stem}: {name}": (path.parent.name, exchange)
    for path in sorted(FOLDER.glob("*/*.yaml"))
    for name, exchange in yaml.load(path.read_text(), yaml.CSafeLoader).items()
}


@pytest.mark.parametrize(("kind", "exchange"), EXCHANGES.values(), ids=EXCHANGES)
async def test_an_exchange(kind: str, exchange: dict[str, Any]) -> None:
    wire = WIRES[kind]
    asks = {"tools": TOOLS, **exchange.get("asks", {})}
    messages = [ChatMessage.read(each) for each in asks.pop("messages", ())]
    replies = [reply(wire, each) for each in [*exchange.get("replies", [exchange]), {}, {}]]
    served = Exchange(wire, *replies, baseUrl=asks.pop("baseUrl", wire.base_url))
    if "error" in exchange:
        [(name, message)] = exchange["error"].items()
        with pytest.raises(getattr(base, name)) as error:
            await served.solve(*messages, **asks)
        assert message in repr(error.value)
    else:
        solution = await served.solve(*messages, **asks)
        if "answer" in exchange:
            compare(solution, served.received.texts, exchange["answer"])
    assert [*differences(served.bodies[-1], exchange.get("sent", {}))] == []
    if "later" in exchange:
        await served.solve(*messages, **asks)
        assert [*differences(served.bodies[-1], exchange["later"])] == []
    assert str(served.requests[-1].url) == exchange.get("url", served.requests[-1].url)
    if "returned" in exchange:
        await served.solve(chat_message("user", "Hi"), *conversation(solution), **asks)
        sent = dropwhile(is_before_answer, served.bodies[-1][wire.messages])
        returned = [each for each, _ in zip(sent, exchange["returned"], strict=False)]
        assert [*differences(returned, exchange["returned"])] == []


def reply(wire: Wire, given: dict[str, Any]) -> httpx.Response:
    status = given.get("status", 200)
    match given:
        case {"events": list(events)}:
            return httpx.Response(status, content=wire.frame(events))
        case {"body": str(text)}:
            return httpx.Response(status, content=text.encode())
        case {"body": body}:
            return httpx.Response(status, json=body)
    return httpx.Response(status, content=wire.answer("Yes"))


def compare(solution: Solution, streamed: list[str], expected: dict[str, Any]) -> None:
    calls = expected.get("calls", [])
    made = [[call.tool, call.arguments, call.provider_id] for call in solution.calls]
    assert [each[: len(call)] for each, call in zip(made, calls, strict=True)] == calls
    assert solution.text == expected.get("text", "")
    assert solution.stop_reason == expected.get("stop", "calls" if calls else "stop")
    notices = expected.get("notices", [])
    found = [part in text for text, part in zip(solution.notices, notices, strict=True)]
    assert all(found), solution.notices
    usage = solution.usage
    others = {
        "data": solution.provider_data,
        "usage": [
            usage.input_tokens,
            usage.output_tokens,
            usage.cached_tokens,
            usage.written_tokens,
        ],
        "refused": solution.refused,
        "streamed": streamed,
    }
    assert {name: others[name] for name in others if name in expected} == {
        name: expected[name] for name in others if name in expected
    }


def conversation(solution: Solution) -> Iterator[ChatMessage]:
    """An answer and the results of its calls, as a run has them."""
    calls = [
        {"id": f"t1c{number}", "providerId": each.provider_id or f"t1c{number}", **each.to_json()}
        for number, each in enumerate(solution.calls, 1)
    ]
    data = solution.to_json().get("providerData")
    yield chat_message("assistant", solution.text, calls=calls, providerData=data)
    for call in calls:
        ids = {"callId": call["id"], "providerId": call["providerId"]}
        yield chat_message("tool", "ok", tool=call["tool"], **ids)


def is_before_answer(message: dict[str, Any]) -> bool:
    return message.get("role") in ("system", "user")


def differences(sent: Any, expected: Any, at: str = "") -> Iterator[str]:
    match expected:
        case dict() if isinstance(sent, dict):
            for name, value in expected.items():
                yield from differences(sent.get(name, "(absent)"), value, f"{at}.{name}")
        case list() if isinstance(sent, list) and len(sent) == len(expected):
            for index, value in enumerate(expected):
                yield from differences(sent[index], value, f"{at}[{index}]")
        case _ if sent != expected:
            yield f"{at}: {sent!r}, not {expected!r}"
