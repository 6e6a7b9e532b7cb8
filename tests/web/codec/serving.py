"""A codec endpoint on this machine, as a browser or a program finds it."""

import asyncio
import base64
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx
import pytest
from google.protobuf.json_format import MessageToDict, ParseDict
from temporalio.api.common.v1 import Payload, Payloads
from temporalio.converter import PayloadCodec

from holdfast.web import codec as codec_endpoint
from holdfast.web.codec import CodecEndpoint, Protocol
from holdfast.web.http import shared_secret
from holdfast.web.http.origins import own_origins
from holdfast.web.http.serving import open_listener, server
from tests.web.conftest import Clock

SECRET = "the-secret-of-a-codec-endpoint"
UI = "http://127.0.0.1:8233"
HOST = "127.0.0.1"


@dataclass
class Served:
    """An endpoint at work, and a client of it."""

    http: httpx.AsyncClient
    address: str
    clock: Clock

    @property
    def cookie(self) -> str:
        """The name of its cookie: of this port, since a machine shares cookies among ports."""
        return f"holdfast_{self.address.rpartition(':')[2]}_codec"

    async def ask(
        self, verb: str, *payloads: Payload, secret: str = SECRET, **headers: str
    ) -> httpx.Response:
        """Ask as Temporal's command line does, or with `headers`."""
        sent = {"authorization": f"Bearer {secret}", **_dashed(headers)}
        return await self.http.post(verb, json=written(payloads), headers=sent)

    async def sign_in(self, secret: str = SECRET, **headers: str) -> httpx.Response:
        """Send the form of the endpoint's page as a browser does."""
        sent = {"origin": self.address, **_dashed(headers)}
        return await self.http.post("/sign-in", data={"secret": secret}, headers=sent)


def _dashed(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


def written(payloads: Sequence[Payload]) -> dict[str, object]:
    return dict(MessageToDict(Payloads(payloads=payloads)))


def read(answer: httpx.Response) -> list[Payload]:
    assert answer.status_code == 200, answer.text
    return list(ParseDict(answer.json(), Payloads()).payloads)


def in_base64(payload: Payload) -> str:
    return base64.b64encode(payload.data).decode()


@asynccontextmanager
async def served(
    codec: PayloadCodec,
    stored: PayloadCodec | None = None,
    *,
    origins: Sequence[str] = (UI,),
    url: str | None = None,
) -> AsyncIterator[Served]:
    clock = Clock()
    with open_listener(HOST, 0) as listening, pytest.MonkeyPatch.context() as patched:
        for module in (codec_endpoint, shared_secret):
            patched.setattr(module, "monotonic", clock)
        port = listening.getsockname()[1]
        protocol, own = Protocol(codec, stored), own_origins(HOST, port, url)
        serving = server(CodecEndpoint(protocol, SECRET, frozenset(origins), own).app())
        task = asyncio.create_task(serving.serve([listening]))
        address = f"http://{HOST}:{port}"
        try:
            async with httpx.AsyncClient(base_url=address, verify=False) as http:
                yield Served(http, address, clock)
        finally:
            serving.should_exit = True
            await task
