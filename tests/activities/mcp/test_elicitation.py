"""Calls of MCP servers that require a person's input: pending as long as it takes, made once."""

import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowUpdateFailedError

from tests.activities.mcp import airline
from tests.activities.mcp.conftest import Open
from tests.encryption.keys import OLD, key_file
from tests.support.backend import Backend, Run
from tests.support.eventually import eventually

FREE = {"_approval": {"require": "never"}}
STDIO: dict[str, Any] = {
    "command": sys.executable,
    "args": [airline.__file__],
    "envFrom": [airline.LEDGER],
    "overrides": {
        **dict.fromkeys(("book", "upgrade", "log_in"), FREE),
        "pid": {"_sideEffects": False},
        "book_twice": {**FREE, "_idempotent": True},
    },
}


@pytest.fixture(scope="module", autouse=True)
def ledger(folder: Path) -> Any:
    """The server's ledger."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(airline.LEDGER, str(folder / "flights"))
        yield


@pytest.fixture(scope="module")
async def home(open_worker: Open, folder: Path) -> AsyncIterator[Backend]:
    """A worker with the program `airline.py`, and with permits."""
    async with open_worker(STDIO, permits=key_file(folder, [OLD])) as made:
        yield made


async def test_a_form_is_answered_once_by_a_person(home: Backend) -> None:
    run = await home.call("mcp:shop/book", {"flight": "LH1"})
    [pending] = await run.waiting()
    assert (pending["kind"], pending["arguments"]) == ("input", {"flight": "LH1"})
    assert pending["question"] == (
        "MCP server `shop` requires input to continue `shop_book`:"
        " \"Which seat in LH1? 'approve' it.\". `respond` takes the answer as `result`, such as"
        ' {"seat": "A"}; `deny` ends the call.'
    )
    assert pending["form"]["properties"] == {"seat": airline.SEAT}
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await run.decide("t1c1", "respond", result={"seat": "X"})
    assert "does not fit the server's form" in str(refused.value.cause)
    await run.decide("t1c1", "respond", result={"seat": "W"}, digest=pending["digest"])
    assert (await run.result())["output"] == "LH1 W"
    assert airline.effects().count("LH1 W") == 1


async def test_each_round_is_a_question_of_its_own(home: Backend) -> None:
    run = await home.call("mcp:shop/upgrade")
    [first] = await run.waiting()
    await run.decide("t1c1", "respond", result={"row": 3})

    [second] = await run.waiting()
    assert second["digest"] != first["digest"]
    assert 'the host pay.example, https://pay.example/7: "Pay there."' in second["question"]
    result = {"sure": {"sure": True}, "pay": None}
    with pytest.raises(WorkflowUpdateFailedError):
        await run.decide("t1c1", "respond", result=result)
    await run.decide("t1c1", "respond", result=result, digest=second["digest"])
    assert (await run.result())["output"] == "row 3 True {}"


async def test_a_form_that_asks_for_a_secret_is_refused_by_name(home: Backend) -> None:
    message = (await (await home.call("mcp:shop/log_in")).failure()).message
    assert (
        "MCP server `shop`, tool `log_in`: field `apiKey` of its form asks for a secret" in message
    )


async def answers(run: Run, seat: str) -> None:
    """Answer the form that is open now."""
    [pending] = await run.waiting()
    await run.decide("t1c1", "respond", result={"seat": seat}, digest=pending["digest"])


async def test_a_server_that_was_killed_continues_the_call_after_its_restart(home: Backend) -> None:
    run = await home.call("mcp:shop/book", {"flight": "LH2"})
    await run.waiting()
    await restarted(home)
    await answers(run, "A")
    assert (await run.result())["output"] == "LH2 A"
    assert airline.effects().count("LH2 A") == 1


async def pid(home: Backend) -> int:
    """The process of the server."""
    return int((await (await home.call("mcp:shop/pid")).result())["output"])


async def restarted(home: Backend) -> None:
    """Kill the server, and wait until the worker has started it again."""
    first = await pid(home)
    os.kill(first, signal.SIGKILL)

    async def is_another() -> bool:
        return await pid(home) != first

    await eventually(is_another)


async def test_a_continued_call_whose_reply_got_lost_has_an_unknown_outcome(home: Backend) -> None:
    process = await pid(home)
    run = await home.call("mcp:shop/book", {"flight": "LH3"})
    airline.held().touch()
    await answers(run, "A")

    async def continued() -> bool:
        return airline.held().read_text(encoding="utf-8") == "LH3 A"

    await eventually(continued)
    os.kill(process, signal.SIGKILL)
    await eventually(lambda: asks(run, "reconcile"))
    airline.held().unlink()
    await run.decide("t1c1", "did_not_happen")
    await eventually(lambda: asks(run, "input"))
    await answers(run, "W")
    assert (await run.result())["output"] == "LH3 W"
    assert [line for line in airline.effects() if line.startswith("LH3")] == ["LH3 W"]


async def asks(run: Run, kind: str) -> bool:
    """Whether its question is of this kind."""
    return [each["kind"] for each in await run.handle.query("approvals")] == [kind]


@pytest.mark.parametrize("tool", ["book", "book_twice"])
async def test_an_answer_whose_state_the_server_no_longer_accepts(home: Backend, tool: str) -> None:
    """A call that may be made twice is made again; of another one, the outcome is unknown."""
    run = await home.call(f"mcp:shop/{tool}", {"flight": tool})
    await run.waiting()
    airline.key_file().write_text(tool * 10, encoding="utf-8")
    await restarted(home)
    await answers(run, "A")
    if tool == "book":
        await eventually(lambda: asks(run, "reconcile"))
        assert "it no longer accepts the state" in (await run.waiting())[0]["question"]
        await run.decide("t1c1", "give_up")
        assert (await run.failure()).type == "outcome_unknown"
    else:
        assert (await run.result())["output"] == "book_twice A"
    assert airline.effects().count(f"{tool} A") == (tool == "book_twice")
