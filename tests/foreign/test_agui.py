"""The official AG-UI client at the inbox: text, calls and approvals, also over `kill -9` of it.

`make test-typescript` installs it. The client validates each event by the schemas of its protocol.
"""

import asyncio
import json
import threading
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from temporalio.client import Client

from holdfast.runtime.text_sealer import TextSealer
from tests.support import tools
from tests.support.backend import Backend, backend
from tests.support.model_server import Answer, call
from tests.support.process import SECRET, InboxProcess

pytestmark = [pytest.mark.typescript, pytest.mark.usefixtures("quick_starts")]

PROGRAM = Path(__file__).with_name("agui") / "client.mjs"
CLERK = "instructions: Pay.\nmodel: {endpoint: fake, name: fake}\ntools: [pay, look_up]\n"
LONG = "It was there all along. " * 10  # less than a heartbeat shows
GATE = threading.Event()
SAYS = [
    Answer("I look.", calls=[call("look_up", id=1)]),
    Answer("I pay.", calls=[call("pay", amount=5)]),
    Answer(LONG, hold=GATE),
    Answer("You are welcome."),
]


@pytest.fixture(scope="module")
async def desk(
    client: Client, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Backend, InboxProcess]]:
    """A worker whose agent pays, and an inbox that can be killed."""
    folder = tmp_path_factory.mktemp("agui")
    (folder / "agents").mkdir()
    (folder / "agents" / "clerk.yaml").write_text(CLERK)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(tools.LEDGER, str(folder / "ledger"))
        with InboxProcess(client.service_client.config.target_host) as inbox:
            async with backend(client, folder, SAYS, catalog=folder, cached_runs=100) as made:
                yield made, inbox


class Agent:
    """The client's agent; each of its runs is a request to the inbox."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def send(self, **command: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{json.dumps(command)}\n".encode())
        await self._process.stdin.drain()

    async def next(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        async with asyncio.timeout(60):
            line = await self._process.stdout.readline()
        assert line, "the client ended"
        found: dict[str, Any] = json.loads(line)
        assert "warning" not in found, found
        return found

    async def run(self, **command: Any) -> dict[str, Any]:
        await self.send(**command)
        return await self.next()


@asynccontextmanager
async def agent(desk: tuple[Backend, InboxProcess], thread: str) -> AsyncIterator[Agent]:
    """A client of a thread, signed in as ann in a browser."""
    home, inbox = desk
    async with httpx.AsyncClient(base_url=inbox.url) as http:
        assert (await http.get(inbox.link)).status_code == 303
        cookie = "; ".join(f"{each.name}={each.value}" for each in http.cookies.jar)
    form_token = TextSealer(SECRET).mark("form", "link ann")
    headers = {"cookie": cookie, "x-form-token": form_token, "origin": inbox.url}
    url = f"{inbox.url}/agui/clerk?taskQueue={home.task_queue}"
    given = json.dumps({"url": url, "headers": headers, "threadId": thread})
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        "node", str(PROGRAM), given, stdin=pipe, stdout=pipe, limit=2**24
    )
    try:
        yield Agent(process)
    finally:
        process.kill()
        await process.wait()


def thread_of(ran: dict[str, Any]) -> list[tuple[str, str]]:
    """The thread in short, as the client has it; no message is there twice."""
    ids = [each["id"] for each in ran["messages"]]
    assert len(ids) == len({*ids})
    return [(each["role"], each.get("content", "")) for each in ran["messages"]]


# The client's own ids of messages stay, and the others derive from the log.
IDS = ["m1", "holdfast:turn-1", "holdfast:t1c1", "holdfast:turn-2"]
ASKED = [("user", "Pay."), ("assistant", "I look."), ("tool", '{"id": 1, "name": "item 1"}')]
PAID = [*ASKED, ("assistant", "I pay."), ("tool", '{"paid": 5.0}')]


def approvals(asked: dict[str, Any]) -> list[dict[str, Any]]:
    """What approves all that a run asks."""
    said = {"status": "resolved", "payload": {"approved": True}}
    return [{"interruptId": each["id"], **said} for each in asked["outcome"]["interrupts"]]


def effects() -> int:
    return sum("pay 5" in each for each in tools.read())


async def test_a_thread_with_a_question_continues_with_the_answer(
    desk: tuple[Backend, InboxProcess],
) -> None:
    GATE.set()
    before = effects()
    async with agent(desk, uuid.uuid4().hex) as one:
        asked = await one.run(say="Pay.", id="m1")
        [interrupt] = asked["outcome"]["interrupts"]
        assert thread_of(asked) == [*ASKED, ("assistant", "I pay.")]
        assert (interrupt["reason"], interrupt["toolCallId"]) == ("tool_call", "t2c1")
        assert asked["state"] == {"item": {"id": 1, "name": "item 1"}}
        assert effects() == before

        assert [each["id"] for each in asked["messages"]] == IDS

        paid = await one.run(resume=approvals(asked))
        assert paid["outcome"] == {"type": "success"}
        assert thread_of(paid) == [*PAID, ("assistant", LONG)]

        thanked = await one.run(say="Thanks.", id="m2")
        assert thread_of(thanked)[6:] == [("user", "Thanks."), ("assistant", "You are welcome.")]
        assert effects() == before + 1


DECISIONS = [
    ({"approved": False, "reason": "Too much."}, [], '"code": "denied", "message": "Too much."'),
    ({"approved": True, "editedArgs": {"amount": 3}}, ["pay 3"], '{"paid": 3.0}'),
    ({"result": {"paid": "by hand"}}, [], '{"paid": "by hand"}'),
]


@pytest.mark.parametrize(("payload", "paid", "result"), DECISIONS, ids=["deny", "edit", "respond"])
async def test_an_answer_decides_and_a_wrong_one_does_not(
    desk: tuple[Backend, InboxProcess], payload: Any, paid: list[str], result: str
) -> None:
    GATE.set()
    before = len(tools.read())
    async with agent(desk, uuid.uuid4().hex) as one:
        asked = await one.run(say="Pay.", id="m1")
        [interrupt] = asked["outcome"]["interrupts"]
        said = {"interruptId": interrupt["id"], "status": "resolved"}
        wrong = await one.run(resume=[{**said, "payload": {"approved": "yes", "by": "eve"}}])
        assert wrong["error"]["code"] == "bad_request"
        assert "`decision`" in wrong["error"]["message"]
        assert tools.read()[before:] == []

        decided = await one.run(resume=[{**said, "payload": payload}])
        assert decided["outcome"] == {"type": "success"}
        [answered] = [each for each in thread_of(decided)[4:] if each[0] == "tool"]
        assert result in answered[1]
        again = await one.run(resume=[{**said, "payload": payload}])
        assert (again["outcome"], again["messages"]) == (decided["outcome"], decided["messages"])
    assert [" ".join(line.split()[:2]) for line in tools.read()[before:]] == paid


async def test_a_client_continues_after_the_inbox_was_killed(
    desk: tuple[Backend, InboxProcess],
) -> None:
    GATE.clear()
    before, inbox = effects(), desk[1]
    async with agent(desk, thread := uuid.uuid4().hex) as one:
        asked = await one.run(say="Pay.", id="m1")
        inbox.kill()
        lost = await one.run(resume=approvals(asked))
        assert (lost["outcome"], effects()) == (None, before)
        inbox.start()

        await one.send(resume=approvals(asked), until="TEXT_MESSAGE_CONTENT")
        started = await one.next()
        inbox.kill()  # in the middle of the answer, after the decision
        assert (await one.next())["outcome"] is None
        inbox.start()
        GATE.set()
        ended = await one.run(resume=approvals(asked))  # the client insists: it has lost the end
        assert ended["outcome"] == {"type": "success"}
        assert thread_of(ended) == [*PAID, ("assistant", LONG)]
        assert started["reached"]["messageId"] == ended["messages"][-1]["id"]
    async with agent(desk, thread) as other:  # such as a page that was loaded again
        assert thread_of(await other.run()) == thread_of(ended)
    assert effects() == before + 1
