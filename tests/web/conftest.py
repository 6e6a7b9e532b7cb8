"""What tests of the inbox share: a clock, an unreachable client, and what is closed in time."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, Final

import pytest
from temporalio.client import Client

from holdfast.client.connection import ReportingCodec
from holdfast.runtime import text_sealer
from holdfast.runtime.identity import key_sets
from holdfast.web.auth import oidc
from holdfast.web.http import shared_secret
from holdfast.web.http.streaming import StreamLimit
from holdfast.web.listing import pending_runs, runs
from holdfast.web.listing import routes as listing
from holdfast.web.run import routes as live
from tests.client.crowd import Crowd, crowd_of
from tests.support.inbox import Stage, inbox

# A patch of the limit of streams: ann has as many as one person may, others have none.
FULL_FOR_ANN: Final = (StreamLimit, "is_full", lambda _, name: name == "ann")


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.seconds = 1_000_000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages wait longer for what they ask than people would, on a machine that is busy, and look
    more often. How soon they are shown without it is for the tests without an answer."""
    for page, name in (
        *((listing, "ANSWER_SECONDS"), (listing, "ASK_ALL_SECONDS"), (runs, "ANSWER_SECONDS")),
        (live, "PAGE_SECONDS"),
    ):
        monkeypatch.setattr(page, name, 6.0)
    monkeypatch.setattr(pending_runs, "EVERY_SECONDS", 0.2)


@pytest.fixture
async def nowhere() -> Client:
    """A client that has no server: who comes in is known without one."""
    return await Client.connect("127.0.0.1:1", lazy=True)


@pytest.fixture
async def stage(client: Client) -> AsyncIterator[Stage]:
    # As of a command: runs of other tests may be encrypted, and are in its lists.
    converter = client.data_converter
    converter = replace(converter, payload_codec=ReportingCodec(converter))
    config: dict[str, Any] = {**client.config(), "data_converter": converter}
    async with inbox(Client(**config)) as stage:
        yield stage


@pytest.fixture
async def crowd(client: Client, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Crowd]:
    """Runs with pending approvals and no worker: no page waits long for what they answer."""
    monkeypatch.setattr(listing, "ANSWER_SECONDS", 0.2)
    async with crowd_of(client) as crowd:
        yield crowd


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of sessions, secrets and providers."""
    clock = Clock()
    monkeypatch.setattr(text_sealer, "time", clock)
    for module in (shared_secret, oidc, key_sets):
        monkeypatch.setattr(module, "monotonic", clock)
    return clock


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack
