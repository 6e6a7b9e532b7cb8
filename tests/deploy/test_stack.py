"""`deploy/compose.yaml` as it runs: a run is started, and a person approves its calls at the gate.

`make test-image` builds the image, and starts this on networks of its own. It prints the image's
size, the time until its health check succeeds, and its user.
"""

import asyncio
import re
import ssl
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from bench.cluster.programs import programs
from tests.deploy.image import Container, Image
from tests.deploy.reading import USER
from tests.deploy.stack import PERSON, Stack
from tests.support.eventually import eventually

pytestmark = [pytest.mark.image, pytest.mark.timeout(600)]

INBOX = "https://localhost:8443"
RUN = "/runs/broken"


@pytest.fixture
async def stack() -> AsyncIterator[Stack]:
    """The stack, with Temporal started."""
    with tempfile.TemporaryDirectory(prefix="holdfast-stack-") as folder:
        Path(folder).chmod(0o711)  # PostgreSQL and nginx have users of their own
        image = Image.mounted()
        print(f"\nimage: {image.size}, its base {image.base_size}")
        made = Stack(Path(folder), image, await asyncio.to_thread(programs))
        try:
            await made.start_temporal()
            yield made
        finally:
            made.stop()


@pytest.fixture
async def person(stack: Stack) -> AsyncIterator[httpx.AsyncClient]:
    """A person's browser, signed in at the gate."""

    async def name_inbox(request: httpx.Request) -> None:
        request.headers["host"] = INBOX.removeprefix("https://")
        request.headers["origin"] = INBOX
        request.extensions["sni_hostname"] = "localhost"

    async with httpx.AsyncClient(
        base_url="https://gate:8443",
        verify=ssl.create_default_context(cafile=stack.certificate),
        auth=(PERSON, stack.password),
        event_hooks={"request": [name_inbox]},
    ) as client:
        yield client


async def started(stack: Stack, name: str) -> Container:
    """One of our services, once its health check succeeds."""
    before = time.monotonic()
    container = stack.start(name)
    await eventually(container.healthy)
    seconds = time.monotonic() - before
    user = container.execute("id", "--user").stdout.strip()
    print(f"{name}: healthy after {seconds:.1f} s, as user {user}, on a read-only root")
    assert user == str(USER)
    assert "Read-only file system" in container.execute("touch", "/srv/holdfast/x").stderr
    assert container.execute("touch", "/tmp/x").returncode == 0
    return container


async def test_a_run_is_approved_at_the_gate(stack: Stack, person: httpx.AsyncClient) -> None:
    await stack.complete("shop")
    worker = await started(stack, "worker")
    await started(stack, "inbox")
    stack.start_gate()
    request = "@examples/support_desk/request.txt"
    command = worker.execute(
        *("holdfast", "run", "support_desk", "--input", request, "--id", "broken", "--detach")
    )
    assert command.returncode == 0, command.stderr

    async def page() -> str | None:
        try:
            return (await person.get("/")).text
        except httpx.ConnectError:  # nginx is not yet there
            return None

    [form_token] = set(re.findall(r'name="form_token" value="([^"]+)"', await eventually(page)))
    decided: list[str] = []

    async def result() -> dict[str, Any] | None:
        approvals = (await person.get(f"{RUN}/approvals")).json()["approvals"]
        for each in approvals:
            decision = {"callId": each["callId"], "decision": "approve", "digest": each["digest"]}
            answer = await person.post(
                f"{RUN}/decisions", json=decision, headers={"x-form-token": form_token}
            )
            assert answer.status_code == 200, answer.text
            decided.append(each["tool"])
        found: dict[str, Any] | None = (await person.get(RUN)).json().get("result")
        return found

    assert (await eventually(result))["status"] == "completed"
    assert decided == ["refund_order", "cancel_shipment", "send_mail"]
    assert (await person.get(RUN, auth=(PERSON, "wrong"))).status_code == 401
    assert set(stack.stop()) == {0}
