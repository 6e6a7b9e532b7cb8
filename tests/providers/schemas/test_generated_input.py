"""What holds for every format: however bytes are cut, whatever a server sends, whatever is sent.

What is good comes from the wires, which their providers' own types vouch for; what is bad is
generated from it.
"""

import json
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.catalog.endpoints import FORMATS
from holdfast.providers import model_errors
from holdfast.providers.base import ProviderError, ProviderRequest, tool_names
from holdfast.providers.contents import without_remote_media
from holdfast.providers.transport.http import HttpProvider
from holdfast.providers.transport.target import EndpointTarget
from holdfast.schemas.internal.model_request import Ask, ToolOffer
from holdfast.schemas.message import AskedCall, ChatMessage, DataPart, ImagePart, TextPart
from holdfast.schemas.settings.endpoints import ProviderName
from tests.engine.generated import JSON, NOISE, OBJECTS, SCHEMAS
from tests.providers.fakes import KEY, NAMES, ReceivedText, ask, chat_message, fragments_of, target
from tests.providers.wire.base import Wire
from tests.providers.wire.wires import WIRES
from tests.support.costs import some_of

USER, PASSWORD, IN_QUERY, IN_HEADER = "ann", "hunter2-pass", "query-secret", "header-secret"
SECRETS = (KEY, PASSWORD, IN_QUERY, IN_HEADER)


each_wire = pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)
a_format = pytest.mark.parametrize("kind", some_of(FORMATS, ["openai"]))


# What is sent.

TEXTS = st.text(max_size=20) | st.sampled_from(["\ud83d", "†ü😀", "\x00", '"]}', "]},{"])
PARTS = st.one_of(
    st.builds(TextPart, text=TEXTS),
    st.builds(DataPart, kind=st.just("order"), data=JSON, description=st.none() | TEXTS),
    st.builds(ImagePart, url=st.just("https://x/y.png")),
    st.builds(ImagePart, data=st.just("iVBORw0KGgo="), media_type=TEXTS),
)
CALLS = st.builds(AskedCall, id=st.just("t1c1"), provider_id=TEXTS, tool=TEXTS, arguments=OBJECTS)
MESSAGES = st.builds(
    ChatMessage,
    role=st.sampled_from(["system", "user", "assistant", "tool"]),
    content=TEXTS | st.lists(PARTS, max_size=3),
    calls=st.lists(CALLS, max_size=3),
    call_id=st.none() | TEXTS,
    provider_id=st.none() | TEXTS,
    tool=st.none() | TEXTS,
    is_error=st.booleans(),
    provider_data=JSON | OBJECTS,
)
SHAPES = st.builds(lambda each: {"properties": {"a": each}}, SCHEMAS | NOISE)
OFFERS = st.builds(ToolOffer, name=TEXTS, description=TEXTS, parameters=OBJECTS | SHAPES)
ASKS = st.builds(
    lambda tools, output, tail, choice, options, temperature: Ask.read(
        {
            "model": {
                "endpoint": "models",
                "name": "gpt-test",
                "options": options,
                "temperature": temperature,
            },
            "instructions": "Be brief.",
            "tools": [tool.to_json() for tool in tools],
            "output": output,
            "tail": tail,
            "toolChoice": choice,
        }
    ),
    st.lists(OFFERS, max_size=3),
    st.none() | st.booleans() | OBJECTS,
    st.none() | TEXTS,
    st.sampled_from(["auto", "none", "required", {"name": "refund"}]),
    OBJECTS,
    st.sampled_from([None, 0, 0.7]),
)


@a_format
@given(messages=st.lists(MESSAGES, max_size=4), asked=ASKS)
def test_whatever_is_sent_is_json(
    kind: ProviderName, messages: list[ChatMessage], asked: Ask
) -> None:
    spoken = FORMATS[kind]
    fragments = fragments_of(spoken, *messages, names=tool_names(asked.tools))
    body = spoken.body(ProviderRequest(asked, fragments), "127.0.0.1")
    made = json.loads(body.decode("utf-8"), parse_constant=pytest.fail)
    assert isinstance(made, dict)
    assert all(isinstance(notice, str) for notice in spoken.unsupported_notices(asked))


@a_format
@given(message=MESSAGES, asked=ASKS)
def test_a_message_is_the_same_bytes_each_time(
    kind: ProviderName, message: ChatMessage, asked: Ask
) -> None:
    spoken = FORMATS[kind]
    message = without_remote_media(message, spoken.fetched)
    again = ChatMessage.read(json.loads(json.dumps(message.to_json())))
    encoded = spoken.encode(message, tool_names(asked.tools))
    assert encoded == spoken.encode(again, tool_names(asked.tools))
    for fragment in (*encoded.fragments, *encoded.deferred):
        assert isinstance(json.loads(fragment.decode("utf-8")), dict)


# What goes wrong.


def secretive(wire: Wire) -> EndpointTarget:
    url = httpx.URL(wire.base_url).copy_with(username=USER, password=PASSWORD)
    url = url.copy_with(params={"token": IN_QUERY})
    return target(
        provider=wire.format.kind, baseUrl=str(url), headers={"X-Team": f"Bearer {IN_HEADER}"}
    )


def reflections(wire: Wire) -> list[httpx.Response | httpx.HTTPError]:
    """What a server or a network sends that repeats every secret."""
    told = f"no: {' '.join(SECRETS)}"
    refusals = [
        httpx.Response(status, content=body)
        for status in (302, 400, 401, 404, 429, 500)
        for body in (wire.refuses(status, told), told.encode(), b"<html>" + told.encode())
    ]
    spoilt = wire.answer("Hi").splitlines(keepends=True)[0]
    error = json.dumps({"error": {"message": told}}).encode()
    streams = [told.encode(), error, spoilt + b"\n" + told.encode(), b"{" + told.encode()]
    broken = [httpx.ConnectError(told), httpx.ReadError(told), httpx.LocalProtocolError(told)]
    return [*refusals, *(httpx.Response(200, content=each) for each in streams), *broken]


@each_wire
async def test_no_secret_is_in_what_is_reported(wire: Wire) -> None:
    at = secretive(wire)
    for reply in reflections(wire):

        def answer(request: httpx.Request, reply: httpx.Response | httpx.HTTPError = reply) -> Any:
            assert all(secret in f"{request.url}{request.headers.raw}" for secret in SECRETS[2:])
            if isinstance(reply, httpx.HTTPError):
                raise reply
            return reply

        http = httpx.AsyncClient(transport=httpx.MockTransport(answer))
        provider = HttpProvider(wire.format, at, http)
        hello = ProviderRequest(ask(), provider.encode(chat_message("user", "Hi"), NAMES).fragments)
        with pytest.raises((ProviderError, httpx.HTTPError)) as error:
            await provider.solve(hello, ReceivedText())
        assert isinstance(error.value, ProviderError | httpx.HTTPError)
        shown = model_errors.provider_error(error.value, at, "gpt-test", 1)
        whole = f"{shown} {shown!r} {shown.message} {shown.details} {vars(provider)}"
        assert not [secret for secret in SECRETS if secret in whole]
