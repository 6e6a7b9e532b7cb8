"""No agent, run or model decides where a request goes, or with what key: the operator does."""

import json
from typing import Any

import httpx
import pytest

from holdfast.catalog.endpoints import FORMATS
from holdfast.providers.base import (
    REDIRECTING_OPTIONS,
    ProviderRefused,
    ProviderRequest,
    ToolNames,
    UnanswerableRequest,
)
from holdfast.providers.transport.http import HttpProvider
from holdfast.providers.transport.target import EndpointTarget
from holdfast.schemas.message import ChatMessage
from holdfast.schemas.settings.endpoints import ProviderName
from tests.providers.fakes import KEY, ReceivedText, ask, chat_message, target

PROVIDERS: list[ProviderName] = [*FORMATS]
HOME = "https://models.acme.org/team-a"
EVIL = "https://evil.net/x"
FAILING = httpx.AsyncClient(transport=httpx.MockTransport(lambda _: httpx.Response(500)))


def at(provider: ProviderName, **endpoint: Any) -> EndpointTarget:
    return target(provider=provider, **{"baseUrl": HOME, **endpoint})


async def sent(
    provider: ProviderName, status: int = 400, headers: Any = None, **model: Any
) -> list[httpx.Request]:
    """The requests that were made for an agent with this model; each is refused."""
    requests: list[httpx.Request] = []

    def refuse(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return httpx.Response(status, headers=headers, text="no")

    async with httpx.AsyncClient(transport=httpx.MockTransport(refuse)) as http:
        asked = HttpProvider(FORMATS[provider], at(provider), http)
        encoded = asked.encode(chat_message("user", "Hello"), ToolNames([]))
        request = ProviderRequest(ask(model=model), encoded.fragments)
        with pytest.raises(ProviderRefused):
            await asked.solve(request, ReceivedText())
    return requests


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    "name",
    [
        *("../../../evil", "models/../../x", "tunedModels/../../../z", "..", ".", "a/.."),
        *("//evil.net/x", EVIL, "x?key=1", "x#y", "x\r\nhost: evil.net", "x\\..\\y", "@evil.net/"),
        *("..%2f..%2fevil", "%2e%2e/x", "a b", "é", "\ud800", "a/", "/a"),
    ],
)
async def test_a_model_s_name_leads_nowhere_else(provider: ProviderName, name: str) -> None:
    if provider in ("gemini", "bedrock"):  # those that have it in the address
        with pytest.raises(UnanswerableRequest, match="is no name of a model"):
            await sent(provider, name=name)
    else:
        [request, *_], [plain, *_] = [await sent(provider, name=each) for each in (name, "x")]
        assert request.url == plain.url


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_options_are_fields_of_the_body_and_those_that_lead_away_are_left_out(
    provider: ProviderName,
) -> None:
    away = dict.fromkeys(REDIRECTING_OPTIONS, EVIL)
    headers = {"authorization": "Bearer mine", "Authorization": "x", "x-goog-api-key": "mine"}
    options = {**away, **headers, "top_p": 0.5, "extra": {"base_url": "nested"}}
    [request, *_] = await sent(provider, name="x", options=options)
    [plain, *_] = await sent(provider, name="x")
    assert request.url == plain.url
    same = {"content-length"}
    own = [(name, value) for name, value in request.headers.items() if name not in same]
    assert own == [(name, value) for name, value in plain.headers.items() if name not in same]
    assert EVIL not in request.content.decode()
    assert "0.5" in request.content.decode()


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_redirect_is_followed_with_the_key(provider: ProviderName, status: int) -> None:
    requests = await sent(provider, status, {"location": f"{EVIL}?key={KEY}"})
    assert {request.url.host for request in requests} == {"models.acme.org"}


def encoded(house: EndpointTarget, url: str) -> str:
    """What a server is sent of a message with a picture at an address."""
    parts = [{"type": "text", "text": "Look:"}, {"type": "image", "url": url}]
    provider = HttpProvider(FORMATS[house.endpoint.provider], house, FAILING)
    message = ChatMessage.read({"role": "user", "content": parts})
    fragments = provider.encode(message, ToolNames([]))
    return json.dumps([json.loads(each) for each in fragments.fragments])


PICTURE = "https://pictures.acme.org/a.png"


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    "url", [PICTURE, "http://169.254.169.254/latest", "file:///etc/passwd", "gs://b/x.png"]
)
def test_a_server_of_the_operator_s_is_sent_to_fetch_nothing(
    provider: ProviderName, url: str
) -> None:
    assert f"(a picture at {url}, which was not fetched)" in encoded(at(provider), url)


@pytest.mark.parametrize(
    ("provider", "host"),
    [
        ("openai", "api.openai.com"),
        ("openai", "acme.openai.azure.com"),
        ("anthropic", "api.anthropic.com"),
        ("gemini", "generativelanguage.googleapis.com"),
        ("gemini", "aiplatform.googleapis.com"),
    ],
)
def test_a_provider_fetches_from_its_own_network(provider: ProviderName, host: str) -> None:
    official = at(provider, baseUrl=f"https://{host}/v1")
    assert "was not fetched" not in encoded(official, PICTURE)
    assert "was not fetched" in encoded(official, "file:///etc/passwd")
    near = f"https://evil{host.removeprefix('acme.')}/v1"
    assert "was not fetched" in encoded(at(provider, baseUrl=near), PICTURE)
    assert "was not fetched" in encoded(at(provider, baseUrl=f"https://{host}.evil.net"), PICTURE)


def test_the_operator_may_let_a_server_fetch_or_keep_one_from_it() -> None:
    assert "was not fetched" not in encoded(at("openai", imageUrls=True), PICTURE)
    assert "was not fetched" in encoded(at("openai", imageUrls=True), "file:///etc/passwd")
    own = at("openai", baseUrl="https://api.openai.com/v1", imageUrls=False)
    assert "was not fetched" in encoded(own, PICTURE)


def test_messages_that_are_other_bytes_are_of_another_kind() -> None:
    kinds = {
        HttpProvider(FORMATS["openai"], at("openai", imageUrls=fetches), FAILING).kind
        for fetches in (True, False)
    }
    assert len(kinds) == 2
