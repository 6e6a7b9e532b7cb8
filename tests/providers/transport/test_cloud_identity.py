"""Requests with a worker's identity in a cloud: its tokens are renewed in time, and not shown.

The token services are on loopback; the clouds' own libraries ask them.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast.catalog.endpoints import FORMATS
from holdfast.providers import model_errors
from holdfast.providers.base import NoCredentials, ProviderRefused, ProviderRequest, ToolNames
from holdfast.providers.transport.cloud_identity import cloud_identity
from holdfast.providers.transport.http import HttpProvider
from holdfast.providers.transport.target import EndpointTarget
from holdfast.runtime.secrets import Secrets
from holdfast.schemas.settings.endpoints import Endpoint
from tests.providers.fakes import ReceivedText, ask, chat_message
from tests.providers.wire.wires import WIRES
from tests.support.identity.token_services import (
    SOON,
    TokenService,
    forget_clouds,
    secret_of,
    signer,
    token_service,
)

AWS = "https://bedrock-runtime.eu-central-1.amazonaws.com"
VERTEX = "https://europe-west1-aiplatform.googleapis.com/v1/projects/acme/locations/europe-west1"
PLACES = {
    "aws": ("bedrock", AWS),
    "google": ("gemini", f"{VERTEX}/publishers/google"),
    "azure": ("openai", "https://acme.openai.azure.com/openai/v1"),
}


@pytest.fixture
def service() -> Iterator[TokenService]:
    with token_service() as served:
        yield served


class Cloud:
    """A provider that authorizes its requests in a cloud, and a server that refuses the last."""

    def __init__(self, cloud: str, **auth: Any) -> None:
        provider, url = PLACES[cloud]
        settings = {"provider": provider, "baseUrl": url, "auth": {"type": cloud, **auth}}
        endpoint = Endpoint.model_validate(settings)
        self.secrets = Secrets()
        identity = cloud_identity(endpoint, self.secrets)
        self.target = EndpointTarget("cloud", endpoint, {}, identity)
        self.requests: list[httpx.Request] = []
        self.refusal = ""
        self._wire = WIRES[endpoint.provider]
        http = httpx.AsyncClient(transport=httpx.MockTransport(self._answer))
        self._provider = HttpProvider(FORMATS[endpoint.provider], self.target, http)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if self.refusal:
            told = f"{self.refusal}{token_in(request)}"
            return httpx.Response(403, content=self._wire.refuses(403, told))
        return httpx.Response(200, content=self._wire.answer("Hi"))

    async def token(self, model: str = "gpt-test") -> str:
        """Make a request, and return the token that it carried."""
        encoded = self._provider.encode(chat_message("user", "Hi"), ToolNames([]))
        request = ProviderRequest(ask(model={"name": model}), encoded.fragments)
        await self._provider.solve(request, ReceivedText())
        return token_in(self.requests[-1])


def token_in(request: httpx.Request) -> str:
    bearer = request.headers["authorization"].removeprefix("Bearer ")
    return str(request.headers.get("x-amz-security-token", bearer))


@pytest.fixture(params=PLACES)
def cloud(
    request: pytest.FixtureRequest,
    service: TokenService,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Cloud:
    service.set_up(request.param, monkeypatch, tmp_path)
    return Cloud(request.param)


async def test_a_token_is_renewed_before_it_expires_and_kept_until_then(
    cloud: Cloud, service: TokenService
) -> None:
    service.lifetimes = [SOON, SOON]
    first, *_, third, last = [await cloud.token() for _ in range(4)]
    assert first != third == last == "token-3-Xy7Zq9"


async def test_every_token_is_a_secret_of_the_worker_until_it_is_long_gone(
    cloud: Cloud, service: TokenService
) -> None:
    service.lifetimes = [SOON] * 9
    first, second = await cloud.token(), await cloud.token()
    assert cloud.secrets.clean(f"{first} {second}") == "[secret] [secret]"
    third = await cloud.token()
    assert cloud.secrets.clean(f"{first} {second} {third}") == f"{first} [secret] [secret]"


@pytest.mark.parametrize("padding", [1, 1_990])
async def test_a_token_that_a_server_repeats_is_removed(cloud: Cloud, padding: int) -> None:
    cloud.refusal = "x" * padding
    with pytest.raises(ProviderRefused) as refused:
        await cloud.token()
    error = model_errors.provider_error(refused.value, cloud.target, "m", 1)
    assert "token-1" not in error.message
    assert "identity is permitted" in error.message
    assert error.non_retryable


async def test_a_token_service_that_fails_is_asked_again(
    service: TokenService, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    service.set_up("google", monkeypatch, tmp_path)
    service.failure = 400
    cloud = Cloud("google")
    with pytest.raises(NoCredentials) as failed:
        await cloud.token()
    error = model_errors.provider_error(failed.value, cloud.target, "m", 9)
    assert not error.non_retryable
    assert "no Google credentials: RefreshError: " in error.message
    service.failure = None
    assert await cloud.token() == "token-1-Xy7Zq9"


@pytest.mark.parametrize("cloud", PLACES)
async def test_missing_credentials_end_a_run_after_three_attempts(
    cloud: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_clouds(monkeypatch)
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "EnvironmentCredential")
    nowhere = Cloud(cloud)
    with pytest.raises(NoCredentials) as failed:
        await nowhere.token()
    assert model_errors.is_doubtful(failed.value)
    errors = [model_errors.provider_error(failed.value, nowhere.target, "m", n) for n in (1, 3)]
    assert [error.non_retryable for error in errors] == [False, True]
    assert "Check the worker's environment" in errors[0].message
    assert nowhere.requests == []


ARN = "arn:aws:bedrock:eu-central-1:123456789012:inference-profile/eu.anthropic.claude-x-v1:0"


@pytest.mark.parametrize("model", ["amazon.nova-pro-v1:0", ARN])
@pytest.mark.parametrize(
    ("auth", "region"), [({}, "eu-central-1"), ({"region": "us-gov-west-1"}, "us-gov-west-1")]
)
async def test_a_request_to_amazon_is_signed(
    service: TokenService,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    model: str,
    auth: dict[str, str],
    region: str,
) -> None:
    service.set_up("aws", monkeypatch, tmp_path)
    cloud = Cloud("aws", **auth)
    await cloud.token(model)
    [request] = cloud.requests
    assert signer(str(request.url), request.headers, request.content) == ("AKIA1", region)
    assert cloud.secrets.clean(secret_of("AKIA1")) == "[secret]"


async def test_a_profile_and_its_region_are_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    forget_clouds(monkeypatch)
    file = tmp_path / "config"
    keys = f"aws_access_key_id=AKIA9\naws_secret_access_key={secret_of('AKIA9')}\n"
    file.write_text(f"[profile team]\nregion=sa-east-1\naws_session_token=t\n{keys}")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(file))
    monkeypatch.setitem(PLACES, "aws", ("bedrock", "https://models.acme.org"))
    cloud = Cloud("aws", profile="team")
    await cloud.token()
    [request] = cloud.requests
    assert signer(str(request.url), request.headers, request.content) == ("AKIA9", "sa-east-1")


async def test_vertex_has_the_version_in_its_address(
    service: TokenService, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    service.set_up("google", monkeypatch, tmp_path)
    cloud = Cloud("google")
    await cloud.token("gemini-3-flash")
    place = f"{VERTEX}/publishers/google/models/gemini-3-flash"
    assert str(cloud.requests[0].url) == f"{place}:streamGenerateContent?alt=sse"
    assert cloud.target.fetches_image_urls
