"""The way to Temporal is cut, late or silent, or its server dies: runs end as they would have.

How they would have ended, the same stories tell undisturbed.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client
from temporalio.service import RPCError

from holdfast.hosting.temporal import data_converter
from tests.faults.harness.proxy import Proxy
from tests.faults.harness.server import Server
from tests.faults.stories import (
    STORIES,
    ended,
    in_the_middle,
    ledger,
    let_go,
    outcome,
    paid,
    reconciled,
    table,
)
from tests.support import tools
from tests.support.backend import Backend, Run
from tests.support.eventually import eventually

# Of each piece: ten times as long as a request takes.
DELAY_SECONDS = 0.05
# Who decide at the same time: one of them is heard before the server dies.
PEOPLE = 6
# However busy the machine, nothing is taken for lost that only takes its time.
UNMISSED = timedelta(seconds=30)
# Half a minute alone, and more where others are at work.
pytestmark = pytest.mark.timeout(300)
UNTOUCHED = ("calls", "waits", "asks")


@pytest.fixture(scope="module")
async def peace(client: Client, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each story comes to undisturbed."""
    folder = tmp_path_factory.mktemp("peace")
    with ledger(folder):
        async with table(client, folder, STORIES) as backend:
            return await ended(await in_the_middle(backend, *STORIES))


def before(client: Client) -> Proxy:
    """A proxy before the server of a client."""
    host, _, port = client.service_client.config.target_host.rpartition(":")
    return Proxy(host, int(port))


@pytest.fixture
async def proxy(client: Client) -> AsyncIterator[Proxy]:
    """A proxy before the session's server."""
    async with before(client) as proxy:
        yield proxy


async def through(proxy: Proxy) -> Client:
    """A client that reaches the server through the proxy."""
    return await Client.connect(proxy.address, data_converter=data_converter)


@pytest.fixture
async def backend(client: Client, proxy: Proxy, tmp_path: Path) -> AsyncIterator[Backend]:
    """A worker that reaches the server through the proxy; the backend's own client does not."""
    with ledger(tmp_path):
        worker = await through(proxy)
        async with table(worker, tmp_path, STORIES, heartbeat_timeout=UNMISSED) as backend:
            yield Backend(client, backend.task_queue, backend.model)
            proxy.restore()
            proxy.delay(0)


Fault = Callable[[Proxy], Awaitable[None]]


async def cut(proxy: Proxy) -> None:
    """Every connection is reset, and made again."""
    before = proxy.connections
    proxy.cut()
    await eventually(lambda: _is(proxy.connections > before))


async def cut_off(proxy: Proxy) -> None:
    """No connection can be had for a while, in which what was under way ends."""
    before = proxy.refused
    proxy.refuse()
    proxy.cut()
    let_go()
    await eventually(lambda: _is(proxy.refused > before + 2))
    proxy.accept()


async def late(proxy: Proxy) -> None:
    """Everything comes late from now on."""
    proxy.delay(DELAY_SECONDS)


async def _is(value: bool) -> bool:
    return value


@pytest.mark.parametrize("fault", [cut, cut_off, late], ids=lambda fault: fault.__name__)
async def test_a_connection_that_fails_leaves_no_trace(
    backend: Backend, proxy: Proxy, peace: dict[str, Any], fault: Fault
) -> None:
    runs = await in_the_middle(backend, *UNTOUCHED)
    await fault(proxy)
    assert await ended(runs) == {story: peace[story] for story in UNTOUCHED}
    assert paid("pay 7", runs["waits"]) == 1
    assert tools.read().count("ended a") == 1


async def test_a_payment_whose_answer_is_lost_is_asked_about_and_never_repeated(
    backend: Backend, proxy: Proxy, peace: dict[str, Any]
) -> None:
    run = (await in_the_middle(backend, "pays"))["pays"]
    proxy.blackhole()
    let_go()
    await eventually(lambda: _timed_out(run))
    proxy.restore()
    [waiting] = await run.waiting()
    assert waiting["kind"] == "reconcile"
    await reconciled(run, "paid rent", "rent")
    assert (await run.result())["output"] == peace["pays"]["result"]["output"]
    assert await run.results() == peace["pays"]["results"]
    assert paid("paid rent", run) == 1


async def _timed_out(run: Run) -> bool:
    kinds = [event.event_type for event in await run.history()]
    return EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT in kinds


async def test_a_decision_whose_answer_is_lost_is_one_decision(
    client: Client, backend: Backend, peace: dict[str, Any]
) -> None:
    run = (await in_the_middle(backend, "waits"))["waits"]
    async with before(client) as line:
        person = Run((await through(line)).get_workflow_handle(run.id))
        line.mute()
        deciding = asyncio.create_task(person.decide("t1c1", "approve", by="ada"))
        await eventually(lambda: _is_paid(run))
        line.cut()
        line.restore()
        assert (await deciding) == {
            "callId": "t1c1",
            "decision": "approve",
            "decided": True,
            "missing": 0,
        }
    assert await outcome(run) == peace["waits"]
    assert paid("pay 7", run) == 1


async def _is_paid(run: Run) -> bool:
    return paid("pay 7", run) == 1


async def test_a_server_that_dies_loses_nothing_and_doubles_nothing(
    tmp_path: Path, peace: dict[str, Any]
) -> None:
    async with Server(tmp_path) as server:
        with ledger(tmp_path):
            async with table(await server.client(), tmp_path, STORIES) as backend:
                await _dies_in_the_middle(server, backend, peace)
                await _dies_while_people_decide(server, backend, peace)


async def _dies_in_the_middle(server: Server, backend: Backend, peace: dict[str, Any]) -> None:
    runs = await in_the_middle(backend, *STORIES)
    await server.kill()
    let_go()
    await server.start()
    came = await ended(runs)
    # Whether its payment happened is known to the run, or asked of a person.
    assert came.pop("pays")["results"] == peace["pays"]["results"]
    assert came == {story: peace[story] for story in UNTOUCHED}
    assert paid("paid rent", runs["pays"]) == 1
    assert paid("pay 7", runs["waits"]) == 1


async def _dies_while_people_decide(
    server: Server, backend: Backend, peace: dict[str, Any]
) -> None:
    begun = [in_the_middle(backend, "waits") for _ in range(PEOPLE)]
    runs = [each["waits"] for each in await asyncio.gather(*begun)]
    deciding = [asyncio.create_task(_decided(run)) for run in runs]
    await asyncio.wait(deciding, return_when=asyncio.FIRST_COMPLETED)
    await server.kill()
    await server.start()
    await asyncio.gather(*deciding)
    for run in runs:
        # Where the end of its payment was lost with the server, it asks whether it happened.
        asked = await reconciled(run, "pay 7", {"paid": 7.0})
        same = ("result", "results") if asked else peace["waits"]
        came = await outcome(run)
        assert {each: came[each] for each in same} == {each: peace["waits"][each] for each in same}
        assert paid("pay 7", run) == 1


async def _decided(run: Run) -> None:
    """A person decides, and does it again where the server did not answer."""
    try:
        await run.decide("t1c1", "approve", by="ada")
    except RPCError:
        await _decided(run)
