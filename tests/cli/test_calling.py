"""One tool is called from the command line, followed, decided on and found as a run is."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from tests.cli.conftest import Holdfast, Start
from tests.support import tools
from tests.support.eventually import eventually
from tests.support.house import House, OpenHouse, Run


def on(house: House, *more: str) -> list[str]:
    """Options that start a call there, with an id of its own."""
    return ["--task-queue", house.task_queue, "--id", f"call-of-{house.task_queue}", *more]


async def waiting_payment(house: House) -> Run:
    """A call that waits for a person."""
    call = await house.call("pay", {"amount": 5})
    await call.waiting()
    return call


async def test_a_call_is_carried_out_and_told_line_by_line(
    open_house: OpenHouse, holdfast: Holdfast
) -> None:
    house = await open_house([])

    said = await holdfast("call", "look_up", *on(house), "--arguments", '{"id": "7"}')

    assert (said.code, said.err) == (0, "")
    told = said.out.splitlines()
    assert told[0] == f"run call-of-{house.task_queue}"
    words = [line.split()[1] for line in told[1:6]]
    assert words == ["call", "starts", "writes", "ends", "result"]
    assert "t1c1 look_up  id=7" in told[1]
    assert 'output: {\n  "id": 7,\n  "name": "item 7"\n}' in said.out
    assert "completed: 1 call\n" in said.out


async def test_a_call_is_found_by_its_tool_and_arguments(
    open_house: OpenHouse, holdfast: Holdfast, client: Client
) -> None:
    house = await open_house([])

    said = await holdfast(
        "call", "echo", "--arguments", '{"text": "hi"}', "--task-queue", house.task_queue,
        "--detach",
    )  # fmt: skip

    run_id = said.out.strip()
    assert re.fullmatch(r"echo-[0-9a-f]{8}", run_id)
    handle = client.get_workflow_handle(run_id)
    assert await (await handle.describe()).static_summary() == 'echo: text="hi"'
    assert (await handle.result())["output"] == "hi"


async def test_everything_that_a_call_is_given_reaches_it(
    open_house: OpenHouse, holdfast: Holdfast, client: Client, tmp_path: Path
) -> None:
    house = await open_house([])
    tool = {"_tool": "shout", "_activity": "quick", "properties": {"text": {"type": "string"}}}
    (tmp_path / "tool.json").write_text(json.dumps(tool))
    (tmp_path / "arguments.json").write_text('{"text": "hi"}')

    said = await holdfast(
        "call", f"@{tmp_path}/tool.json", *on(house, "--detach"), "--arguments",
        f"@{tmp_path}/arguments.json", "--principal", "anna", "--approvals", "deny",
    )  # fmt: skip

    handle = client.get_workflow_handle(said.out.strip())
    started = (await handle.fetch_history()).events[0].workflow_execution_started_event_attributes
    [request] = await client.data_converter.decode(started.input.payloads)
    assert request == {
        "tool": tool,
        "arguments": {"text": "hi"},
        "principal": {"id": "anna"},
        "approvals": "deny",
    }
    assert (await handle.result())["output"] == "HI"


async def test_a_program_reads_one_json_object_a_line(
    open_house: OpenHouse, holdfast: Holdfast
) -> None:
    house = await open_house([])

    said = await holdfast("call", "echo", *on(house), "--arguments", '{"text": "hi"}', "--json")

    events: list[dict[str, Any]] = [json.loads(line) for line in said.out.splitlines()]
    assert [event["type"] for event in events] == [
        *("run", "tool_call", "tool_start", "tool_end", "done"),
    ]
    assert events[-1]["output"] == "hi"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("look_ap",), "failed: invalid_request: `tool`: there is no tool `look_ap`; did you mean"),
        (("look_up", "--arguments", '{"id": "x"}'), "failed: invalid_arguments: "),
        (("raises",), "failed: tool_error: the stock is empty"),
        (("pay", "--arguments", '{"amount": 5}', "--approvals", "deny"), "failed: denied: "),
    ],
)
async def test_a_call_that_fails_says_why(
    open_house: OpenHouse, holdfast: Holdfast, words: tuple[str, ...], said: str
) -> None:
    house = await open_house([])

    found = await holdfast("call", *words, *on(house))

    assert found.code == 1
    assert said in found.out


@pytest.mark.parametrize(
    "words",
    [
        ("call",),
        ("call", ""),
        ("call", "echo", "--arguments", "{"),
        ("call", "echo", "--arguments", "[1]"),
        ("call", "echo", "--principal", '{"id": 1}'),
        ("call", "@/no/such/tool.json"),
        ("call", "echo", "--input", "go"),
    ],
)
async def test_a_wrong_command_is_told_in_one_line_before_anything_is_done(
    holdfast: Holdfast, words: tuple[str, ...]
) -> None:
    said = await holdfast(*words)

    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("holdfast: ")
    assert said.err.count("\n") == 1
    assert "; " in said.err


async def test_a_person_is_asked_there_and_then(open_house: OpenHouse, start: Start) -> None:
    house = await open_house([])
    words = ("call", "pay", "--arguments", '{"amount": 5}', "--by", "anna")
    terminal = start(*words, *on(house), terminal=True)

    panel = await terminal.until("[s]kip  > ")
    terminal.type("y\r")
    after = await terminal.until("completed")

    assert "Pay (t1c1) needs approval" in panel
    assert "t1c1 Pay: approved by anna" in after
    assert await terminal.ended() == 0
    assert len(tools.read()) == 1


async def test_a_waiting_call_is_listed_decided_and_shown_as_one_of_a_run_is(
    open_house: OpenHouse, holdfast: Holdfast
) -> None:
    house = await open_house([])
    call = await waiting_payment(house)

    async def listed() -> bool:
        return call.id in (await holdfast("approvals")).out

    await eventually(listed)
    shown = await holdfast("show", call.id)
    decided = await holdfast("decide", call.id, "t1c1", "approve", "--by", "anna")
    watched = await holdfast("watch", call.id)

    assert f"waits  t1c1 Pay: holdfast decide {call.id} t1c1 …" in shown.out
    assert " user" not in shown.out
    assert (decided.code, watched.code) == (0, 0)
    assert "t1c1 Pay: approved by anna" in watched.out


async def test_a_call_is_listed_among_the_runs_and_can_be_cancelled(
    open_house: OpenHouse, holdfast: Holdfast
) -> None:
    house = await open_house([])
    call = await waiting_payment(house)

    cancelled = await holdfast("cancel", call.id)
    watched = await holdfast("watch", call.id)

    assert (cancelled.code, watched.code) == (0, 1)

    async def listed() -> bool:
        rows = json.loads((await holdfast("list", "--status", "cancelled", "--json")).out)
        return any((row["run"], row["agent"]) == (call.id, None) for row in rows)

    await eventually(listed)


@pytest.mark.parametrize("words", [("send", "hurry"), ("send", "hurry", "--steer"), ("close",)])
async def test_nothing_can_be_said_to_a_call(
    open_house: OpenHouse, holdfast: Holdfast, words: tuple[str, ...]
) -> None:
    call = await waiting_payment(await open_house([]))
    command, *more = words

    said = await holdfast(command, call.id, *more)

    assert (said.code, said.out) == (2, "")
    assert said.err == (
        f"holdfast: {call.id} is a single call, to which nothing can be said;"
        f" see holdfast show {call.id}\n"
    )
